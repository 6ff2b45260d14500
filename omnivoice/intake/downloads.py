"""Files that a download leaves: the part received so far, its hash, and the finished file.

What is unusual: a file lies under its final name only after every byte was compared, by size and SHA-256, with what
was published; until then it is NAME.part, which survives a cancel or a crash and is continued next time. Bytes that
are wrong are removed; a file that was there before never is. Nothing here speaks to the network; `fetch` does.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Protocol

from ..errors import FileError
from .limits import MIB
from .paths import shown_name

PART = ".part"


class OnBytes(Protocol):
    """Called after every block with the number of bytes of the file that are there; may raise to cancel."""

    def __call__(self, done: int, /) -> None: ...


class Part:
    """An open .part file: `done` bytes of `size`, hashed as they come. Made by `open_part`."""

    def __init__(self, file: FileIO, name: str, size: int, on_bytes: OnBytes):
        self.name, self.size, self.done = name, size, 0
        self._file, self._on_bytes, self._digest = file, on_bytes, hashlib.sha256()

    def take_what_is_there(self) -> None:
        """Count and hash what an earlier try left; more than there can be is thrown away."""
        while block := self._file.read(MIB):
            self._count(block)
            if self.done > self.size:
                self.restart()

    def write(self, block: bytes) -> None:
        """Append; raises FileError when the disk is full or there are more bytes than were published."""
        if self.done + len(block) > self.size:
            self.restart()
            raise FileError(f"{self.name} is larger there than the {self.size} bytes that were published")
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise _no_room(self.name, self.size - self.done, error) from error
        self._count(block)

    def restart(self) -> None:
        """Forget every byte."""
        self._file.seek(0)
        self._file.truncate()
        self.done, self._digest = 0, hashlib.sha256()

    def sha256(self) -> str:
        """Of what is there, in lower-case hex."""
        return self._digest.hexdigest()

    def wait(self) -> None:
        """A moment in which nothing comes, and a cancel is heard."""
        self._on_bytes(self.done)

    def _count(self, block: bytes) -> None:
        self._digest.update(block)
        self.done += len(block)
        self._on_bytes(self.done)


@contextlib.contextmanager
def open_part(target: Path, size: int, on_bytes: OnBytes) -> Iterator[Part]:
    """The .part file of `target`, made if it is not there, with what it holds already counted; closed, and kept."""
    where = target.with_name(target.name + PART)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(where, flags, 0o666)
    except OSError as error:
        raise FileError(f"cannot write {shown_name(where)}: {error.strerror}; choose another folder") from error
    # Unbuffered: a buffer would be written when the file is closed, where a full disk can no longer be told.
    with FileIO(handle, "r+") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileError(f"{shown_name(where)} is not a regular file: remove it")
        part = Part(file, shown_name(target), size, on_bytes)
        part.take_what_is_there()
        yield part


def finish_part(target: Path) -> None:
    """Give the .part file, which is right, its final name: synced to the disk and moved, never over another file."""
    part = target.with_name(target.name + PART)
    try:
        handle = os.open(part, os.O_RDWR | getattr(os, "O_BINARY", 0))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if os.path.lexists(target):
            raise FileError(f"{shown_name(target)} appeared while it was fetched: remove it or its {PART} file")
        os.rename(part, target)
    except OSError as error:
        raise FileError(f"cannot write {shown_name(target)}: {error.strerror}") from error


def part_bytes(target: Path) -> int:
    """How much of a file an earlier try left."""
    try:
        return os.stat(target.with_name(target.name + PART)).st_size
    except OSError:
        return 0


def _no_room(name: str, missing: int, error: OSError) -> FileError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FileError(
            f"the disk is full: {missing / 1e6:.1f} MB of {name} are still missing; make room, then run it again"
        )
    return FileError(f"cannot write {name}{PART}: {error.strerror}")
