"""Small and write-protected disks: each kind of file with every amount of room, and models on a read-only disk.

The tests run with a simulated disk everywhere, and with a real disk of 1 MiB where one can be mounted. Where none can
(it takes Linux and root), the second half is skipped and says so.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from omnivoice.engine import Engine
from omnivoice.errors import DiskFullError, FileError
from omnivoice.intake.audio_files import write_wav
from omnivoice.intake.files import append_line, write_atomic
from omnivoice.intake.tensors import write_tensors
from omnivoice.train.state_files import write_state
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt, Waveform
from tests.read_only_disk import make_read_only

SIZE, SIZES = 1 << 20, 64
VOICE = VoicePrompt(torch.zeros(8, 1_500, dtype=torch.int64), "a", 0.1)
WEIGHTS = {"weights.a": torch.ones(5_000)}
WRITES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "voice": ("a.safetensors", VOICE.save),
    "LoRA": ("a.safetensors", lambda path: write_tensors(path, WEIGHTS, {"format": "omnivoice_lora"})),
    "training state": ("a.safetensors", lambda path: write_state(path, WEIGHTS, {"step": 1})),
    "recording": ("a.wav", lambda path: write_wav(path, Waveform(torch.zeros(1, 10_000), 24_000))),
    "subtitles": ("a.srt", lambda path: write_atomic(path, b"1\n00:00:00,000 --> 00:00:01,000\nHello.\n" * 500)),
    "line of a log": ("a.jsonl", lambda path: append_line(path, "x" * 20_000)),
}


@dataclass
class Disk:
    """A folder whose disk has `room` bytes left, as `leave` says."""

    folder: Path
    leave: Callable[[int], None]


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """Mount a disk of `SIZE` bytes in memory on a folder; skips the test where that is not possible."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    possible = sys.platform == "linux" and os.geteuid() == 0
    try:
        done = possible and subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("a disk of 1 MiB cannot be mounted here: that needs Linux, root and the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class LimitedFile(io.FileIO):
    """A file on a disk with `room[0]` bytes left; what does not fit is cut off."""

    def __init__(self, handle: int, mode: str, room: list[int], **options: bool) -> None:
        super().__init__(handle, mode, **options)
        self._room = room

    def write(self, data: object) -> int:
        taken = min(len(data), self._room[0])  # type: ignore[arg-type]
        if not taken and len(data):  # type: ignore[arg-type]
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._room[0] -= taken
        return super().write(data[:taken])  # type: ignore[index]


@pytest.fixture(params=["simulated", "mounted"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A small disk."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "simulated":
        with pytest.MonkeyPatch.context() as patch:
            yield simulated(folder, patch)
        return
    with mounted(folder):

        def leave(room: int) -> None:
            (folder / "filling").unlink(missing_ok=True)
            free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            (folder / "filling").write_bytes(bytes(max(free - room, 0)))

        yield Disk(folder, leave)


def simulated(folder: Path, patch: pytest.MonkeyPatch) -> Disk:
    """Return a disk whose room is counted in what the product writes."""
    room = [0]

    def fdopen(handle: int, mode: str, buffering: int = -1, closefd: bool = True) -> object:
        if mode not in ("wb", "ab"):
            return io.open(handle, mode, buffering, closefd=closefd)  # noqa: UP020 - as os.fdopen does
        file = LimitedFile(handle, mode, room, closefd=closefd)
        return io.BufferedWriter(file) if buffering else file

    patch.setattr(os, "fdopen", fdopen)
    return Disk(folder, lambda left: room.__setitem__(0, left))


@pytest.mark.parametrize("missing", ["mount", "Linux", "root", "the right to mount"])
def test_where_no_disk_can_be_mounted_the_skip_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """And the test does not run on the ordinary disk in its place."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000 if missing == "root" else 0, raising=False)
    monkeypatch.setattr(sys, "platform", "darwin" if missing == "Linux" else "linux")

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if missing == "mount":
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(command, 32)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(pytest.skip.Exception, match=r"^a disk of 1 MiB cannot be mounted here: "), mounted(tmp_path):
        pytest.fail("it ran without its disk")


@pytest.mark.parametrize("kind", WRITES)
def test_every_amount_of_room_gives_the_old_file_or_the_new_one(disk: Disk, tmp_path: Path, kind: str) -> None:
    name, write = WRITES[kind]
    disk.leave(SIZE)
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole" / name)
    whole = (tmp_path / "whole" / name).read_bytes()
    path, failed = disk.folder / name, 0
    for room in range(0, 64 << 10, (64 << 10) // SIZES):
        path.unlink(missing_ok=True)
        disk.leave(room)
        try:
            write(path)
            assert path.read_bytes() == whole
        except DiskFullError as error:
            failed += 1
            assert str(error).startswith(f"cannot write {name}: the disk is full") and str(error).endswith("make room")
            assert not path.exists() or (kind == "line of a log" and path.read_bytes() == b"")
        assert set(os.listdir(disk.folder)) <= {name, "filling"}
    assert 0 < failed < SIZES


@pytest.mark.parametrize("kind", [kind for kind in WRITES if kind != "line of a log"])
def test_the_old_file_stays_where_the_new_one_does_not_fit(disk: Disk, kind: str) -> None:
    name, write = WRITES[kind]
    disk.leave(SIZE // 2)
    write(disk.folder / name)
    old = (disk.folder / name).read_bytes()
    disk.leave(0)
    with pytest.raises(DiskFullError, match=r"make room$"):
        write(disk.folder / name)
    assert (disk.folder / name).read_bytes() == old
    disk.leave(SIZE // 2)
    write(disk.folder / name)
    assert (disk.folder / name).read_bytes() == old


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on a disk that refuses every change."""
    (tmp_path / "disk").mkdir()
    make_read_only(tmp_path / "disk", monkeypatch)
    return tmp_path / "disk"


@pytest.mark.parametrize("kind", [kind for kind in WRITES if kind != "line of a log"])
def test_a_read_only_disk_is_named_and_not_touched(read_only: Path, kind: str) -> None:
    name, write = WRITES[kind]
    with pytest.raises(FileError, match=rf"^cannot write {name}: the folder or file is write-protected: choose"):
        write(read_only / name)
    assert os.listdir(read_only) == []


def test_a_model_on_a_read_only_disk_speaks(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading, encoding and speaking write nothing at all."""
    real = os.open

    def reading(path: object, flags: int, *rest: object, **options: object) -> int:
        assert not flags & (os.O_CREAT | os.O_WRONLY | os.O_RDWR), f"{path} is opened for writing"
        return real(path, flags, *rest, **options)  # type: ignore[arg-type]

    for name in ("mkdir", "replace", "rename", "link", "unlink"):
        monkeypatch.setattr(os, name, lambda *_, **__: pytest.fail("a file is changed"))
    monkeypatch.setattr(os, "open", reading)
    engine = Engine.load(checkpoint)
    voice = engine.encode_voice(Waveform(torch.rand(30_000) - 0.5, 24_000), "Good day.")
    assert engine.generate([GenerationRequest("Hello.", seed=1, voice=voice, sampling=Sampling(steps=1))])
