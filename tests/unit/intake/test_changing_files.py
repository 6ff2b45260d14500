"""Files that somebody truncates while they are read, and clocks that jump: no dead process, no lost file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from omnivoice.intake.files import remove_stale_temps, temporary_path, write_atomic
from tests import warm_children

TRUNCATED = """
import os, sys
from pathlib import Path
import torch
from omnivoice import OmniVoiceError, VoicePrompt
from omnivoice.intake import files
from omnivoice.intake.audio_files import read_audio, write_wav
from omnivoice.intake.tensors import read_own_tensors, read_small_tensors, write_tensors
from omnivoice.types import Waveform

folder, real, left = Path(sys.argv[1]), os.fdopen, [0]

def truncating(handle, mode, **options):
    if mode == "rb":
        os.truncate(f"/proc/self/fd/{handle}", left[0])
    return real(handle, mode, **options)

voice = VoicePrompt(torch.zeros(8, 500, dtype=torch.int64), "a", 0.1)
kinds = {
    "voice.safetensors": (voice.save, VoicePrompt.load),
    "lora.safetensors": (lambda path: write_tensors(path, {"a": torch.ones(4000)}, {}), read_small_tensors),
    "state.safetensors": (lambda path: write_tensors(path, {"a": torch.ones(4000)}, {}), read_own_tensors),
    "sound.wav": (
        lambda path: write_wav(path, Waveform(torch.zeros(1, 9000), 24000)),
        lambda path: read_audio(path, require_complete=True),
    ),
}
for name, (write, read) in kinds.items():
    write(folder / name)
    whole = (folder / name).read_bytes()
    refused = 0
    for part in range(100):
        (folder / name).write_bytes(whole)
        left[0] = len(whole) * part // 100
        os.fdopen = truncating
        try:
            read(folder / name)
        except OmniVoiceError:
            refused += 1
        finally:
            os.fdopen = real
    print(name, refused)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the open file is named through /proc")
def test_a_file_truncated_between_opening_and_reading_kills_nothing(tmp_path: Path) -> None:
    """At 100 lengths each, in a process of its own, since a mapped file would kill it."""
    code, output, errors = warm_children.run(TRUNCATED, tmp_path)
    assert code == 0, f"{code}: {errors[-2000:]}"
    refused = dict(line.rsplit(" ", 1) for line in output.splitlines())
    refused.pop("sound.wav")  # what is left of a recording may be read
    assert refused == dict.fromkeys(("voice.safetensors", "lora.safetensors", "state.safetensors"), "100")


@pytest.mark.parametrize("jump", [0.0, 3600.0, -3600.0, 1e9, -1e9])
def test_names_are_unique_and_files_whole_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """0: every call is in the same moment. Others: it jumps there and back at each call."""
    calls, start = [0], time.time()

    def clock() -> float:
        calls[0] += 1
        return start + jump * (calls[0] % 2)

    monkeypatch.setattr(time, "time", clock)
    assert len({temporary_path(tmp_path / "a") for _ in range(1000)}) == 1000
    for number in range(20):
        write_atomic(tmp_path / f"{number}", b"new", overwrite=False)
        write_atomic(tmp_path / "same", str(number).encode())
    remove_stale_temps(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*map(str, range(20)), "same"])
    assert (tmp_path / "same").read_bytes() == b"19"
