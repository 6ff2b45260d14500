"""Files that others replace while they are read, and pickles: an error or the whole content, never a dead process.

An upload truncates a file in place, and reading a page of a mapped file that is no longer there kills the process. So
another process reads, and this one looks at how it ended.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from omnivoice.commands.upstream_prompt import read_upstream_prompt
from omnivoice.errors import OmniVoiceError
from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.tensors import check_header, open_tensors, read_own_tensors, read_small_tensors
from omnivoice.intake.voice_files import read_voice, write_voice
from omnivoice.voice import VoicePrompt
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora_read import read_lora
from tests import warm_children

ROOT = Path(__file__).resolve().parents[3]
# argv: the folder with a whole file for each reader, and a model. A copy is cut to 100 lengths, before and after it is
# read.
CHILD = """
import os, sys
from pathlib import Path
from omnivoice.errors import FileError
from omnivoice.intake.tensors import read_own_tensors, read_small_tensors
from omnivoice.intake.voice_files import read_voice
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora_read import read_lora

folder = Path(sys.argv[1])
config = locate_checkpoint(sys.argv[2]).lm_config
path, fstat = folder / "read.safetensors", os.fstat
readers = {
    "voice": lambda: [read_voice(path).codes],
    "LoRA": lambda: [change.values for change in read_lora(path, config).changes.values()],
    "small file": lambda: list(read_small_tensors(path)[0].values()),
    "training state": lambda: list(read_own_tensors(path)[0].values()),
}
for kind, read in readers.items():
    whole, refused, kept = Path(folder, kind).read_bytes(), 0, 0
    for step in range(100):
        length = len(whole) * step // 100
        for early in (True, False):
            path.write_bytes(whole)
            def shorten(handle):
                status = fstat(handle)
                os.truncate(path, length)
                return status
            os.fstat = shorten if early else fstat
            try:
                tensors = read()
            except FileError:
                refused += 1
            else:
                os.truncate(path, length)
                kept += sum(float(tensor.double().sum()) for tensor in tensors) > 0
            finally:
                os.fstat = fstat
    print(kind, refused, kept, sep=": ", flush=True)
"""


def test_a_file_that_is_truncated_while_it_is_used_kills_nothing(tmp_path: Path) -> None:
    write_voice(tmp_path / "voice", VoicePrompt(torch.arange(8 * 1000).view(8, 1000) % 1024, "One two three.", 0.1))
    (tmp_path / "LoRA").write_bytes(save({"llm.layers.0.self_attn.q_proj.diff": torch.ones(96, 40)}))
    for kind in ("small file", "training state"):
        (tmp_path / kind).write_bytes(save({"a": torch.ones(50_000), "b": torch.ones(3, 7, dtype=torch.float16)}))
    code, output, errors = warm_children.run(CHILD, tmp_path, ROOT / "tests" / "assets" / "checkpoint")
    expected = [f"{kind}: 100: 100" for kind in ("voice", "LoRA", "small file", "training state")]
    assert (code, output.splitlines()) == (0, expected), errors[-800:]


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> object:
        return open, (self.path, "w")


READERS = {
    "voice": read_voice,
    "LoRA": lambda path: read_lora(path, locate_checkpoint(ROOT / "tests" / "assets" / "checkpoint").lm_config),
    "model": locate_checkpoint,
    "header": check_header,
    "small file": read_small_tensors,
    "own file": read_own_tensors,
    "mapped file": lambda path: open_tensors(path).__enter__(),
    "prompt": read_upstream_prompt,
    "recording": read_audio,
}


@pytest.mark.parametrize("name", ["a.pt", "a.pth", "a.ckpt", "a.bin", "a.pkl", "a.npy", "a.safetensors"])
@pytest.mark.parametrize("kind", READERS)
def test_no_reader_unpickles(tmp_path: Path, kind: str, name: str) -> None:
    canary = tmp_path / "canary"
    for data in (*(pickle.dumps(Bomb(canary), protocol) for protocol in range(6)), zipped(tmp_path, canary)):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(OmniVoiceError) as caught:
            READERS[kind](tmp_path / name)
        assert not canary.exists() and name in str(caught.value) and len(str(caught.value)) < 400


def zipped(folder: Path, canary: Path) -> bytes:
    """A file as torch.save writes it."""
    torch.save(Bomb(canary), folder / "made")
    return (folder / "made").read_bytes()


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_is_called_one(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "a.bin").write_bytes(pickle.dumps({"weight": [1.0] * 20}, protocol))
    with pytest.raises(
        OmniVoiceError, match=r"^a\.bin is a Python pickle, not safetensors: get the \.safetensors version"
    ):
        check_header(tmp_path / "a.bin")
