"""Every crash of every kind of write: the old file or the new one is there and whole, and what was said to be written
stays written after a power cut."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from omnivoice.errors import FileError
from omnivoice.intake import downloads, files
from omnivoice.intake.audio_files import read_audio, write_long_wav, write_wav
from omnivoice.intake.files import append_line, write_atomic
from omnivoice.intake.folders import copy_file, make_folder, new_folder
from omnivoice.intake.voice_files import read_voice, write_voice, write_voices
from omnivoice.types import VoicePrompt, Waveform
from tests.crash_replay import TEMPORARY, Content, crashes, recorded

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no way to flush a folder")
PUBLISHED = bytes(range(256)) * 4


def voice(seed: int) -> VoicePrompt:
    return VoicePrompt(torch.full((8, 20), seed), f"This is voice {seed}.", 0.1)


def wave(value: float, count: int = 400) -> Waveform:
    return Waveform(torch.full((1, count), value), 24_000)


def make_model(folder: Path) -> None:
    with new_folder(folder / "models" / "tuned") as place:
        make_folder(place / "audio_tokenizer")
        for name in ("config.json", "audio_tokenizer/model.safetensors", "model.safetensors"):
            write_atomic(place / name, name.encode() * 9, overwrite=False)


def copy(folder: Path) -> None:
    if not (folder / "b.bin").exists():
        copy_file(folder / "a.bin", folder / "b.bin")


def download(folder: Path) -> None:
    digest = hashlib.sha256(PUBLISHED).hexdigest()
    if not (folder / "m.bin").exists():
        given = ("owner/name", "c" * 40, "m.bin", folder / "m.bin")
        downloads.download_file(*given, size=len(PUBLISHED), sha256=digest, on_bytes=lambda _: None)


def write_new(folder: Path) -> None:
    if not (folder / "a.bin").exists():
        write_atomic(folder / "a.bin", b"new" * 200, overwrite=False)


def whole(folder: Path, *names: str) -> list[bytes | None]:
    return [(folder / name).read_bytes() if (folder / name).exists() else None for name in names]


@dataclass(frozen=True)
class Save:
    """A kind of write. before: makes what is there already. save: what is recorded. read: what a reader finds."""

    save: Callable[[Path], object]
    read: Callable[[Path], object]
    before: Callable[[Path], object] = lambda folder: None


def replaced(write: Callable[[Path, int], object], read: Callable[[Path], object]) -> Save:
    """A file that replaces one of its kind."""
    return Save(lambda folder: write(folder, 2), read, lambda folder: write(folder, 1))


def samples_of(path: Path) -> list[float]:
    waveform = read_audio(path, require_complete=True)
    return waveform.samples[0].tolist()


def long_wav(folder: Path, value: int) -> None:
    pieces = [torch.full((90,), value, dtype=torch.int16)] * 3
    write_long_wav(folder / "a.wav", pieces, samples=270, sample_rate=24_000, chapters=[(0, "One")])


def two_voices(folder: Path, seed: int) -> None:
    write_voices([(folder / f"{name}.safetensors", voice(seed)) for name in "ab"])


SAVES = {
    "text": replaced(lambda f, n: write_atomic(f / "a.srt", b"%d" % n * 300), lambda f: whole(f, "a.srt")),
    "voice": replaced(
        lambda f, n: write_voice(f / "v.safetensors", voice(n)), lambda f: read_voice(f / "v.safetensors").text
    ),
    "WAV": replaced(lambda f, n: write_wav(f / "a.wav", wave(n / 4)), lambda f: samples_of(f / "a.wav")),
    "long WAV": replaced(long_wav, lambda f: samples_of(f / "a.wav")),
    "a new file": Save(write_new, lambda f: whole(f, "a.bin")),
    "a file in new folders": Save(
        lambda f: write_atomic(make_folder(f / "one" / "two") / "a.bin", b"new"), lambda f: whole(f, "one/two/a.bin")
    ),
    "a copy": Save(copy, lambda f: whole(f, "a.bin", "b.bin"), lambda f: (f / "a.bin").write_bytes(b"old" * 200)),
    "a download": Save(download, lambda f: whole(f, "m.bin")),
    "the rest of a download": Save(
        download, lambda f: whole(f, "m.bin"), lambda f: (f / "m.bin.part").write_bytes(PUBLISHED[:300])
    ),
    "a model folder": Save(
        lambda f: None if (f / "models" / "tuned").exists() else make_model(f),
        lambda f: sorted(str(one.relative_to(f)) for one in (f / "models").rglob("*") if TEMPORARY not in str(one)),
        lambda f: (f / "models").mkdir(),
    ),
}


@pytest.fixture
def arriving(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Lets downloads arrive in three blocks; the functions in the list are called between them."""
    between: list[Callable[[], None]] = []

    def receive(_a: str, _b: str, _c: str, part: downloads._PartFile, on_bytes: object) -> None:
        while part.tell() < part.size:
            part.write(PUBLISHED[part.tell() : part.tell() + part.size // 3 + 1])
            for look in between:
                look()

    monkeypatch.setattr(downloads, "_receive", receive)
    return between


def tree(folder: Path) -> Content:
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def without_temporaries(folder: Path) -> Content:
    """Let a day pass, clean up as the next write does, and return what is there."""
    past = time.time() - 2 * 24 * 3600
    for place in {path.parent for path in folder.rglob(f"*{TEMPORARY}")}:
        for one in place.glob(f".*{TEMPORARY}"):
            os.utime(one, (past, past))
        files.remove_stale_temps(place)
    return tree(folder)


@pytest.mark.parametrize("kind", SAVES)
def test_old_or_new_and_whole(kind: str, tmp_path: Path, arriving: list[Callable[[], None]]) -> None:
    """Whatever a crash leaves can be read, and the same write then ends with exactly the new files."""
    save, folder = SAVES[kind], tmp_path / "recorded"
    folder.mkdir()
    save.before(folder)
    old = save.read(folder)
    with recorded(folder) as log:
        arriving.append(log.look)
        save.save(folder)
        log.reached("saved")
    arriving.clear()
    new, final = save.read(folder), tree(folder)
    assert old != new
    found = []
    for crash in crashes(log):
        place = crash.write(tmp_path / "crashed")
        found.append(save.read(place))
        assert found[-1] in ([new] if crash.reached else [old, new]), f"after change {crash.after} of {log.changes}"
        save.save(place)
        assert without_temporaries(place) == final
    assert old in found and new in found and len(found) >= log.prefixes // 2


def test_of_several_voices_each_is_old_or_new(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    two_voices(folder, 1)
    with recorded(folder) as log:
        two_voices(folder, 2)
        log.reached("saved")
    found = set()
    for crash in crashes(log):
        place = crash.write(tmp_path / "crashed")
        found.add(tuple(read_voice(place / f"{name}.safetensors").text[-2] for name in "ab"))
        assert not crash.reached or found >= {("2", "2")}
    assert found == {("1", "1"), ("2", "1"), ("2", "2")}


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_disk_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
    """As on exFAT: a new file is never there half, nor empty."""

    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    with recorded(tmp_path) as log:
        write_atomic(tmp_path / "a.bin", b"new" * 200, overwrite=overwrite)
        log.reached("saved")
    found = [crash.without_temporaries() for crash in crashes(log)]
    assert [one for one in found if one not in ({}, {"a.bin": b"new" * 200})] == []
    with pytest.raises(FileError, match=r"^cannot write a\.bin: a file of that name exists already"):
        write_atomic(tmp_path / "a.bin", b"other", overwrite=False)
    assert tree(tmp_path) == {"a.bin": b"new" * 200}


@pytest.mark.parametrize("flush", [True, False])
def test_lines_that_are_flushed_outlive_a_power_cut(tmp_path: Path, flush: bool) -> None:
    lines = [f"line {number}" for number in range(4)]
    with recorded(tmp_path) as log:
        for line in lines:
            append_line(tmp_path / "log.txt", line, flush=flush)
            log.reached(line)
    lost = 0
    for crash in crashes(log):
        data = crash.content.get("log.txt") or b""
        kept = data.decode().split("\n")[: len(crash.reached)]
        lost += kept != list(crash.reached)
        assert not flush or kept == list(crash.reached)
    assert flush or lost
