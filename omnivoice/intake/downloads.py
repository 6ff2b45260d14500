"""Files that a download leaves: their folder, their hash, and their removal when the bytes are wrong.

Nothing here fetches anything; `commands.download` does, and asks here whether what came is right.
"""

from __future__ import annotations

import hashlib
from os import PathLike
from pathlib import Path

from ..errors import FileError
from .files import open_regular
from .limits import MIB
from .paths import as_path, shown_name


def make_folder(path: str | PathLike[str]) -> Path:
    """The folder, made with its parents if it is not there; raises FileError."""
    where = as_path(path)
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"cannot make the folder {shown_name(where)}: {error.strerror}; choose another") from error
    return where


def sha256_of(path: str | PathLike[str]) -> str:
    """SHA-256 of a regular file, in lower-case hex; the file is read in blocks, whatever its size."""
    digest = hashlib.sha256()
    with open_regular(path) as (file, _):
        while block := file.read(MIB):
            digest.update(block)
    return digest.hexdigest()


def discard(path: str | PathLike[str]) -> None:
    """Remove a file that was just fetched and is wrong; nothing happens when it is gone already. Raises FileError."""
    where = as_path(path)
    try:
        where.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {shown_name(where)}: {error.strerror}; remove it by hand") from error
