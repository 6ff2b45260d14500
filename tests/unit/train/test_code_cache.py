"""Kept codes: exact, by content, whole after every fault, and never trusted."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
import torch

from omnivoice.errors import InputError
from omnivoice.intake import files
from omnivoice.intake.tensors import read_small_tensors, write_tensors
from omnivoice.train.code_cache import CodeCache, check_clip_codes, content_of
from omnivoice.types import Waveform

CODES = torch.randint(0, 1024, (8, 40), generator=torch.Generator().manual_seed(1)).to(torch.int16)


def cache(folder: Path | None, codec: str = "codec 1") -> CodeCache:
    return CodeCache(folder, codec, 8, 1024)


def entry(folder: Path) -> Path:
    (path,) = folder.rglob("*.safetensors")
    return path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    cache(tmp_path / "c").write("a", CODES)
    return tmp_path / "c"


def test_round_trip(kept: Path) -> None:
    store = cache(kept)
    read = store.read("a")
    assert read is not None and torch.equal(read, CODES) and read.dtype == torch.int16
    assert store.notes == ()
    tensors, metadata = read_small_tensors(entry(kept))
    assert list(tensors) == ["codes"]
    assert metadata == {"format": "omnivoice_codes", "format_version": "1", "key": entry(kept).stem}


def test_another_recording_or_codec_is_another_entry(kept: Path) -> None:
    assert cache(kept).read("b") is None and cache(kept, "codec 2").read("a") is None
    assert cache(kept).notes == ()


def test_no_folder_keeps_nothing(tmp_path: Path) -> None:
    store = cache(None)
    store.write("a", CODES)
    assert store.read("a") is None and store.notes == () and not any(tmp_path.iterdir())


def test_content_is_the_bytes_or_the_samples(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert content_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    sound = torch.tensor([[0.0, 0.5], [0.25, 1.0]])
    seen = {
        content_of(Waveform(samples, rate))
        for samples, rate in (
            (sound, 8000),
            (sound, 16000),
            (sound.reshape(1, 4), 8000),
            (-sound, 8000),
            (sound.T, 8000),
        )
    }
    assert len(seen) == 5 and content_of(Waveform(sound.clone(), 8000)) in seen


def forged(path: Path, codes: torch.Tensor, **changes: str) -> None:
    metadata = {"format": "omnivoice_codes", "format_version": "1", "key": path.stem, **changes}
    path.unlink()
    write_tensors(path, {"codes": codes}, metadata)


FAULTS = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "noise": lambda path: path.write_bytes(os.urandom(500)),
    "text": lambda path: path.write_text("not ours"),
    "large": lambda path: path.write_bytes(bytes(2 << 20)),
    "other kind": lambda path: forged(path, CODES, format="omnivoice_voice"),
    "newer": lambda path: forged(path, CODES, format_version="2"),
    "moved": lambda path: forged(path, CODES, key="0" * 64),
    "shape": lambda path: forged(path, CODES[:7]),
    "no frames": lambda path: forged(path, CODES[:, :0]),
    "too long": lambda path: forged(path, torch.zeros(8, 751, dtype=torch.int16)),
    "dtype": lambda path: forged(path, CODES.to(torch.int32)),
    "out of range": lambda path: forged(path, CODES + 900),
    "negative": lambda path: forged(path, CODES - 1024),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_entry_is_missing_and_written_again(kept: Path, fault: str) -> None:
    FAULTS[fault](entry(kept))
    store = cache(kept)
    assert store.read("a") is None
    assert store.notes == ("damaged entries in the code cache, encoded again: 1",)
    store.write("a", CODES)
    after = cache(kept)
    assert torch.equal(after.read("a"), CODES) and after.notes == ()


def test_a_folder_in_an_entrys_place_costs_a_note(kept: Path) -> None:
    path = entry(kept)
    path.unlink()
    path.mkdir()
    store = cache(kept)
    assert store.read("a") is None
    store.write("a", CODES)
    assert len(store.notes) == 2 and "codes cannot be cached in c" in store.notes[1]


def test_full_disk_is_reported_once_and_leaves_nothing_broken(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    store = cache(kept)
    store.write("b", CODES)
    store.write("c", CODES)
    (note,) = store.notes
    assert note.startswith("codes cannot be cached in c and will be encoded again: cannot write")
    assert "the disk is full, 856 bytes are needed" in note
    monkeypatch.undo()
    assert [path for path in kept.rglob("*") if path.is_file()] == [entry(kept)]
    store.write("b", CODES)
    assert torch.equal(cache(kept).read("b"), CODES)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("a file")
    store = cache(tmp_path / "c")
    assert store.read("a") is None
    store.write("a", CODES)
    assert "codes cannot be cached in c" in store.notes[0] and (tmp_path / "c").read_text() == "a file"


def test_many_writers_at_once_leave_whole_entries(tmp_path: Path) -> None:
    wrong: list[object] = []

    def work() -> None:
        store = cache(tmp_path)
        for turn in range(20):
            content = str(turn % 4)
            read = store.read(content)
            if read is not None and not torch.equal(read, CODES):
                wrong.append(read)
            store.write(content, CODES)
        wrong.extend(store.notes)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [] and len([p for p in tmp_path.rglob("*") if p.is_file()]) == 4


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (torch.zeros(8), r"codes must have shape \[8, 1-750\], got \[8\]"),
        (torch.zeros(7, 3), r"got \[7, 3\]"),
        (torch.full((8, 2), 1024), "codes must be 0-1023, got 1024"),
        (torch.full((8, 2), -1), "codes must be 0-1023, got -1"),
    ],
)
def test_codes_are_checked(codes: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_clip_codes(codes, 8, 1024)
