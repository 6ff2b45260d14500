"""A folder that appears whole or not at all, and files copied into it as they are.

What is unusual: it is filled under a temporary name beside its place and renamed at the end, so a kill or a full disk
never leaves half a model that looks like one. It never replaces a folder that holds anything.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from ..errors import FileError
from .files import open_regular, remove_stale_temps, temp_beside, write_parts_atomic
from .limits import GIB, MIB
from .paths import as_path, shown_name

SPARE_BYTES = GIB  # must stay free on the disk; or as much as is written, if that is less


def make_folder(path: str | PathLike[str]) -> Path:
    """The folder, made with its parents if it is not there; raises FileError."""
    where = as_path(path)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {shown_name(where)}: {error.strerror}; choose another") from error
    return where


def check_space(folder: Path, needed: int, *, action: str = "fetched") -> None:
    """Raise FileError unless `needed` bytes fit on the folder's disk, with some to spare. action: what is done with
    them."""
    free = shutil.disk_usage(folder).free
    if free < needed + min(needed, SPARE_BYTES):
        raise FileError(
            f"the disk of {shown_name(folder)} has {free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB are to be {action} "
            f"and {min(needed, SPARE_BYTES) / 1e9:.1f} GB must stay free: make room"
        )


@contextlib.contextmanager
def new_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """A folder to be filled; when the block ends well it becomes `path`, else it is removed with all that is in it.

    `path` may be an empty folder; one that holds anything, a file or a link is refused at once. Its parent must be
    there. Raises FileError.
    """
    where = as_path(path)
    check_new_folder(where)
    remove_stale_temps(where.parent)
    temp = temp_beside(where)
    try:
        os.mkdir(temp)
    except OSError as error:
        raise FileError(f"cannot make the folder {shown_name(where)}: {error.strerror}; choose another") from error
    try:
        yield temp
        _put_in_place(temp, where)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def check_new_folder(path: str | PathLike[str]) -> None:
    """Raise FileError unless a new folder may have this path: nothing is there, or an empty folder."""
    where = as_path(path)
    name = shown_name(where)
    if os.path.islink(where) or (os.path.lexists(where) and not os.path.isdir(where)):
        raise FileError(f"{name} exists and is no folder: choose another name")
    try:
        held = sorted(os.listdir(where))
    except FileNotFoundError:
        held = []
    except OSError as error:
        raise FileError(f"cannot look into the folder {name}: {error.strerror}; choose another") from error
    if held:
        raise FileError(f"the folder {name} exists and holds {len(held)} entries: choose another, or empty it")


def _put_in_place(temp: Path, where: Path) -> None:
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(where)  # refuses a folder that something has been put into meanwhile
        os.rename(temp, where)
    except OSError as error:
        raise FileError(f"cannot write the folder {shown_name(where)}: {error.strerror}; choose another") from error


def copy_file(source: str | PathLike[str], target: str | PathLike[str]) -> Path:
    """Copy a regular file as it is, in blocks, to a path that is not there yet; raises FileError."""
    with open_regular(source) as (file, size):

        def blocks() -> Iterator[bytes]:
            left = size
            while left:
                block = file.read(min(MIB, left))
                if not block:
                    raise FileError(f"{shown_name(source)} changed while it was copied: try again")
                left -= len(block)
                yield block

        return write_parts_atomic(target, blocks(), size=size, overwrite=False)
