"""Files that are written in place, logs and locks: a link, a pipe or a device that stands there is refused at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omnivoice.errors import FileError
from omnivoice.intake.files import append_line
from omnivoice.intake.locks import lock_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets few users make links, and has no pipes")
KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link to a file": lambda path, other: path.symlink_to(other),
    "link to a link": lambda path, other: (path.with_name("next").symlink_to(other), path.symlink_to("next")),
    "link to nothing": lambda path, other: path.symlink_to(other.with_name("new")),
    "link to a device": lambda path, other: path.symlink_to("/dev/zero"),
    "pipe": lambda path, other: os.mkfifo(path),
}
WRITERS: dict[str, Callable[[Path], object]] = {
    "line": lambda path: append_line(path, "x"),
    "flushed line": lambda path: append_line(path, "x", flush=True),
    "lock": lambda path: lock_folder(path.parent, path.name),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_is_written_elsewhere(tmp_path: Path, kind: str, writer: str) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "precious").write_text("precious")
    KINDS[kind](folder / "file", outside / "precious")
    with pytest.raises(FileError, match=r"^cannot write file: it is (a link|not a regular file): remove it"):
        WRITERS[writer](folder / "file")
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("precious", "precious")]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_folder_of_that_name(tmp_path: Path, writer: str) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(FileError, match="cannot write file: a folder has that name"):
        WRITERS[writer](tmp_path / "file")
