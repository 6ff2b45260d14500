"""Folders, hashes and removal of files that were fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnivoice.errors import FileError
from omnivoice.intake.files import remove_file, sha256_of
from omnivoice.intake.folders import make_folder


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(FileError, match=r"^b does not exist$"):
        sha256_of(tmp_path / "b")
    (tmp_path / "c").write_bytes(bytes(3_000_000))
    counts: list[int] = []
    sha256_of(tmp_path / "c", counts.append)
    assert counts == [1 << 20, 2 << 20, 3_000_000]


def test_make_folder(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "a" / "b").is_dir()
    assert make_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    for path, name in ((tmp_path / "file", "file"), (tmp_path / "file" / "x", "x")):
        with pytest.raises(FileError, match=rf"^cannot make the folder {name}: .*; choose another$"):
            make_folder(path)


def test_remove_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    remove_file(tmp_path / "a")
    remove_file(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(FileError, match=r"^cannot remove .*; remove it by hand$"):
        remove_file(tmp_path)
