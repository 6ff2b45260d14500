"""Folders that appear whole or not at all, and what may not be replaced."""

import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from omnivoice import FileError
from omnivoice.intake.files import file_size
from omnivoice.intake.folders import (
    check_new_folder,
    check_space,
    check_writable,
    copy_file,
    make_folder,
    new_folder,
    remove_empty_folder,
)


def names(folder):
    return sorted(os.listdir(folder))


def test_it_appears_at_the_end(tmp_path):
    with new_folder(tmp_path / "model") as place:
        (place / "a").write_text("x")
        assert place.parent == tmp_path and not (tmp_path / "model").exists()
    assert names(tmp_path) == ["model"] and (tmp_path / "model" / "a").read_text() == "x"


def test_nothing_is_left_of_a_failure(tmp_path):
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "model") as place:
        (place / "deep").mkdir()
        (place / "deep" / "a").write_text("x")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "model").mkdir()
    with new_folder(tmp_path / "model") as place:
        (place / "a").write_text("x")
    assert names(tmp_path / "model") == ["a"]


def test_what_is_there_stays(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("x")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name, message in (
        ("full", "the folder full exists and holds 1 entries: choose another, or empty it"),
        ("file", "file exists and is not a folder"),
        ("link", "link exists and is not a folder"),
    ):
        with pytest.raises(FileError, match=message):
            check_new_folder(tmp_path / name)
        with pytest.raises(FileError, match=message), new_folder(tmp_path / name):
            pytest.fail("it must be refused before anything is made")
    assert names(tmp_path) == ["file", "full", "link"]


def test_a_folder_that_is_filled_meanwhile(tmp_path):
    with pytest.raises(FileError, match="cannot write the folder model"), new_folder(tmp_path / "model") as place:
        (place / "a").write_text("ours")
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "a").write_text("theirs")
    assert names(tmp_path) == ["model"] and (tmp_path / "model" / "a").read_text() == "theirs"


def test_a_parent_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(FileError, match="cannot make the folder model: No such file"), new_folder(tmp_path / "a/model"):
        pass
    monkeypatch.setattr(os, "mkdir", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
    with (
        pytest.raises(FileError, match="cannot write model: the disk is full: make room"),
        new_folder(tmp_path / "model"),
    ):
        pass


def test_what_a_killed_process_left_goes_after_a_day(tmp_path):
    old, fresh = (tmp_path / f".model.77.{digit * 16}.ovtmp" for digit in "01")
    for folder in (old, fresh):
        folder.mkdir()
        (folder / "weights").write_text("x")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago, two_days_ago))
    with new_folder(tmp_path / "model"):
        pass
    assert names(tmp_path) == [fresh.name, "model"]


def test_copies(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(bytes(range(256)) * 9000)  # more than one block
    assert copy_file(tmp_path / "a", tmp_path / "b") == tmp_path / "b"
    assert (tmp_path / "b").read_bytes() == (tmp_path / "a").read_bytes() and file_size(tmp_path / "b") == 2_304_000
    with pytest.raises(FileError, match="a file of that name exists already"):
        copy_file(tmp_path / "a", tmp_path / "b")
    with pytest.raises(FileError, match="absent does not exist"):
        copy_file(tmp_path / "absent", tmp_path / "c")
    assert file_size(tmp_path / "absent") == 0


def test_a_file_that_shrinks_while_it_is_copied(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x" * 10)
    real = os.fstat

    def larger(handle):
        status = list(real(handle))
        status[6] += 5
        return os.stat_result(status)

    monkeypatch.setattr("omnivoice.intake.files.os.fstat", larger)
    with pytest.raises(FileError, match="a changed while it was copied: try again"):
        copy_file(tmp_path / "a", tmp_path / "b")
    monkeypatch.undo()
    assert names(tmp_path) == ["a"]


def test_make_folder(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert make_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for path, name in ((tmp_path / "file", "file"), (tmp_path / "file" / "x", "x")):
        with pytest.raises(FileError, match=rf"^cannot make the folder {name}: .*; choose another$"):
            make_folder(path)


def test_check_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("usage", (), {"free": 4_000_000_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    check_space(tmp_path, 2_000_000_000)
    check_space(tmp_path, 0)
    with pytest.raises(FileError, match=r"has 4 GB free, 3\.3 GB are to be written and 1\.07 GB must stay free"):
        check_space(tmp_path, 3_300_000_000)


def test_only_an_empty_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    (tmp_path / "file").touch()
    assert [remove_empty_folder(tmp_path / name) for name in ("empty", "full", "file", "missing")] == [
        True, False, False, True,
    ]  # fmt: skip
    assert names(tmp_path) == ["file", "full"]


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "a").mkdir()
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(FileError, match=r"^cannot list the folder a: Permission denied; choose another$"):
        check_new_folder(tmp_path / "a")


def test_whether_files_can_be_made_in_a_folder(tmp_path, monkeypatch):
    check_writable(tmp_path / "new")
    assert names(tmp_path) == ["new"] and names(tmp_path / "new") == []
    made = os.open

    def no_file(path, flags, *mode):
        if flags & os.O_CREAT:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return made(path, flags, *mode)

    monkeypatch.setattr(os, "open", no_file)
    with pytest.raises(FileError, match="cannot write new: "):
        check_writable(tmp_path / "new")
    assert names(tmp_path / "new") == []
