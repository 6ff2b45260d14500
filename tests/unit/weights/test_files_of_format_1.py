"""Files that were written when their format was version 1 stay readable, to the last bit.

tests/assets/format_1 was written by `write_files`, with the writers of that time. Its files are never written anew: a
later version of a format gets a folder of its own, and these must go on giving what is expected here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch

from omnivoice.intake.voice_files import read_voice, write_voice
from omnivoice.voice import VoicePrompt
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora import Difference, LoRA, LowRank, Replacement
from omnivoice.weights.lora_read import read_lora
from omnivoice.weights.lora_write import write_lora, write_peft

ASSETS = Path(__file__).resolve().parents[2] / "assets"
FOLDER = ASSETS / "format_1"
Q, K, DOWN = (f"llm.layers.1.{name}" for name in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"))
CONSENT = "self: Ann, 2 May 2026"
ABOUT = {"name": "Ann's voice", "base": "0123456789abcdef", "data": "12 clips", "settings": '{"rank": 2}', "steps": "9"}
ABOUT["consent"] = CONSENT


def codes(frames: int, step: int, size: int) -> torch.Tensor:
    return (torch.arange(8 * frames) * step % size).view(8, frames)


def values(*shape: int) -> torch.Tensor:
    """Numbers that every dtype holds exactly."""
    return ((torch.arange(shape[0] * shape[1]) * 7 % 31 - 15) / 16).view(shape)


LABELS = {"name": "Ann", "language": "en", "consent": CONSENT, "codec": "0123456789abcdef"}
VOICES = {
    "voice.safetensors": VoicePrompt(codes(7, 131, 1024), "Good day. 你好!", 0.1, **LABELS),
    "voice_of_another_codec.safetensors": VoicePrompt(codes(3, 1_409, 4_096), "Hello.", 0.0),  # codes above 1,023
}
PAIRS = {Q: LowRank(values(2, 40), values(96, 2), 1.5), DOWN: LowRank(values(1, 88), values(40, 1), 0.25)}
LORAS = {
    "lora.safetensors": (PAIRS, torch.float32),
    "lora_of_every_kind.safetensors": (
        {DOWN: PAIRS[DOWN], Q: Replacement(values(96, 40)), K: Difference(values(48, 40))},
        torch.bfloat16,
    ),
    "peft": (PAIRS, torch.float16),
}
HASHES = {
    "lora.safetensors": "66b95b5036901c4a",
    "lora_of_every_kind.safetensors": "9c3c636e529e12aa",
    "peft/adapter_config.json": "b330e3acf7c5e756",
    "peft/adapter_model.safetensors": "baa40e97a8387816",
    "voice.safetensors": "182869a022b9cd3e",
    "voice_of_another_codec.safetensors": "b4ef5553b955a563",
}


def write_files(folder: Path) -> None:
    """Write the files of tests/assets/format_1."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, voice in VOICES.items():
        write_voice(folder / name, voice)
    for name, (changes, dtype) in LORAS.items():
        (write_peft if name == "peft" else write_lora)(folder / name, LoRA("x", changes), ABOUT, dtype=dtype)


def hashes(folder: Path) -> dict[str, str]:
    """{path: hash} of the files below a folder; git may have changed the line ends of a JSON file."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        data = data.replace(b"\r\n", b"\n") if path.suffix == ".json" else data
        found[path.relative_to(folder).as_posix()] = hashlib.sha256(data).hexdigest()[:16]
    return found


def test_the_kept_files_are_those_that_were_written_then() -> None:
    assert hashes(FOLDER) == HASHES


def test_the_writers_still_write_format_1_byte_for_byte(tmp_path: Path) -> None:
    """A change of what they write is a decision: it needs a new version, or at least new files beside these."""
    write_files(tmp_path / "now")
    assert hashes(tmp_path / "now") == HASHES


@pytest.mark.parametrize("name", VOICES)
def test_a_voice_of_format_1(name: str) -> None:
    read, expected = read_voice(FOLDER / name), VOICES[name]
    assert torch.equal(read.codes, expected.codes) and read.codes.dtype == torch.int64
    for attribute in ("text", "rms", "name", "language", "consent", "codec", "warnings"):
        assert getattr(read, attribute) == getattr(expected, attribute)


@pytest.mark.parametrize("name", LORAS)
def test_a_lora_of_format_1(name: str) -> None:
    changes, dtype = LORAS[name]
    read = read_lora(FOLDER / name, locate_checkpoint(ASSETS / "checkpoint").lm_config)
    assert (read.unused, read.consent, read.changes.keys()) == ((), CONSENT, changes.keys())
    for module, expected in changes.items():
        found = read.changes[module]
        assert type(found) is type(expected)
        if isinstance(found, LowRank) and isinstance(expected, LowRank):
            assert found.scale == expected.scale
            pairs = [(found.down, expected.down), (found.up, expected.up)]
        else:
            pairs = [(found.values, expected.values)]  # type: ignore[union-attr]
        for got, wanted in pairs:
            assert got.dtype == dtype and torch.equal(got.float(), wanted)
