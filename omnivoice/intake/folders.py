"""Folders: made, checked for free space, and written so that they appear complete or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from ..errors import DiskFullError, FileError
from .files import open_regular, remove_stale_temps, sync_folder, temporary_path, write_error, write_parts_atomic
from .limits import GIB, MIB, shown_size
from .paths import as_path, shown_name

SPARE_BYTES = GIB  # stays free on the disk; for a small write, as many bytes as it takes


def make_folder(path: str | PathLike[str]) -> Path:
    """Return the folder, after making it and its parents where they are missing; raises FileError."""
    where = as_path(path)
    missing = [one for one in (where, *where.parents) if not os.path.isdir(one)]
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_make(where, error) from error
    for one in missing:
        sync_folder(one.parent)  # else a power cut takes the folder with all that is flushed in it
    return where


def check_writable(path: str | PathLike[str]) -> None:
    """Raise FileError unless files can be made in the folder, which is made if missing: before work whose result would
    be lost otherwise."""
    where = make_folder(path)
    probe = temporary_path(where / "probe")
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.unlink(probe)
    except OSError as error:
        raise write_error(where, 0, error) from error


def remove_empty_folder(path: str | PathLike[str]) -> bool:
    """Remove a folder if nothing is in it, and return whether it is gone; raises nothing."""
    with contextlib.suppress(OSError):
        os.rmdir(as_path(path))
    return not os.path.lexists(as_path(path))


def check_space(folder: Path, needed: int, *, action: str = "written") -> None:
    """Raise DiskFullError unless `needed` bytes fit on the folder's disk and leave some free.

    action: what will happen to the bytes.
    """
    free, spare = shutil.disk_usage(folder).free, min(needed, SPARE_BYTES)
    if free < needed + spare:
        raise DiskFullError(
            f"the disk of {shown_name(folder)} has {shown_size(free)} free, {shown_size(needed)} are to be "
            f"{action} and {shown_size(spare)} must stay free: make room"
        )


@contextlib.contextmanager
def new_folder(path: str | PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder to fill. It is renamed to `path` when the block succeeds, and removed when it fails.

    So a kill or a full disk never leaves an incomplete model that looks complete. `path` may be an empty folder; a
    file, a link or a folder with content is refused at once. Its parent must exist. Raises FileError.
    """
    where = as_path(path)
    check_new_folder(where)
    remove_stale_temps(where.parent)
    temp = temporary_path(where)
    try:
        os.mkdir(temp)
    except OSError as error:
        raise _cannot_make(where, error) from error
    try:
        yield temp
        _put_in_place(temp, where)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def check_new_folder(path: str | PathLike[str]) -> None:
    """Raise FileError unless `path` does not exist or is an empty folder."""
    where = as_path(path)
    name = shown_name(where)
    if os.path.islink(where) or (os.path.lexists(where) and not os.path.isdir(where)):
        raise FileError(f"{name} exists and is not a folder: choose another name")
    try:
        content = os.listdir(where)
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"cannot list the folder {name}: {error.strerror}; choose another") from error
    if content:
        raise FileError(f"the folder {name} exists and holds {len(content)} entries: choose another, or empty it")


def copy_file(source: str | PathLike[str], target: str | PathLike[str]) -> Path:
    """Copy a regular file, in blocks, to a path that does not exist yet, and return that path; raises FileError."""
    with open_regular(source) as (file, size):

        def blocks() -> Iterator[bytes]:
            remaining = size
            while remaining:
                block = file.read(min(MIB, remaining))
                if not block:
                    raise FileError(f"{shown_name(source)} changed while it was copied: try again")
                remaining -= len(block)
                yield block

        return write_parts_atomic(target, blocks(), size=size, overwrite=False)


def _put_in_place(temp: Path, where: Path) -> None:
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(where)  # refuses a folder that something has been put into meanwhile
        os.rename(temp, where)
    except OSError as error:
        raise FileError(f"cannot write the folder {shown_name(where)}: {error.strerror}; choose another") from error
    sync_folder(where.parent)


def _cannot_make(where: Path, error: OSError) -> FileError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return write_error(where, 0, error)
    return FileError(f"cannot make the folder {shown_name(where)}: {error.strerror}; choose another")
