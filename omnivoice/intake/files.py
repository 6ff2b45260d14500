"""Read complete files and write them atomically: the operations that every other file format builds on.

Only regular files of an allowed size are read; a pipe or device is refused and never blocks. After any failure, kill or
power cut, a write leaves the old file or the new one under the final name, never a part of one. The names of files are
checked in `paths`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader, FileIO
from os import PathLike
from pathlib import Path

from ..errors import DiskFullError, FileError
from .limits import KIB, MIB, shown_size
from .paths import as_path, shown_name

_WINDOWS = os.name == "nt"
_LOG = logging.getLogger("omnivoice_nodes")
_TEMP = re.compile(r"\..*\.\d+\.[0-9a-f]{16}\.ovtmp")
_STALE_SECONDS = 24 * 3600
_REPLACE_TRIES, _REPLACE_WAIT_SECONDS = 5, 0.05
_MAX_SIBLINGS = 99
_STAMP_HEAD_BYTES, _STAMP_BLOCK_BYTES, _STAMP_BLOCKS = 64 * KIB, 4 * KIB, 32


@contextlib.contextmanager
def open_regular(path: str | PathLike[str]) -> Iterator[tuple[BufferedReader, int]]:
    """Open a regular file for reading and yield (binary file, size in bytes); raises FileError for anything else.

    Symbolic links are followed. Errors of the system while reading become FileError too.
    """
    where = as_path(path)
    name = shown_name(where)
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(where, flags)
    except FileNotFoundError:
        raise FileError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        if os.path.isdir(where):
            raise FileError(f"{name} is a folder, not a file") from None
        raise _read_error("open", name, error) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise FileError(
                f"{name} is {'a folder, not a file' if stat.S_ISDIR(status.st_mode) else 'not a regular file'}"
            )
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file, status.st_size
    except OSError as error:
        raise _read_error("read", name, error) from error
    finally:
        os.close(handle)


def _read_error(verb: str, name: str, error: OSError | ValueError) -> FileError:
    code, reason = getattr(error, "errno", None), getattr(error, "strerror", "the path is not valid")
    advice = "change its permissions" if code in (errno.EACCES, errno.EPERM) else "check its disk, or use a copy of it"
    return FileError(f"cannot {verb} {name}: {reason}: {advice if code else 'check it'}")


def read_bytes(path: str | PathLike[str], *, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes, which is checked before reading."""
    with open_regular(path) as (file, size):
        name = shown_name(path)
        if size > limit:
            raise FileError(f"{name} must be at most {limit} bytes, got {size}")
        data = file.read(size + 1)
        if len(data) != size:
            raise FileError(f"{name} changed while it was read: try again")
        return data


def file_stamp(path: str | PathLike[str]) -> str:
    """Return a short text that changes when the file is edited or replaced; "missing" if it cannot be read.

    It holds the size, the times at which content and inode changed, the inode, and a hash: of the complete file up to
    1 MiB, otherwise of its first 64 KiB and 32 blocks spread to its end. So a file that was replaced by one of equal
    size and time is noticed, and 192 KiB of a large model are read.
    """
    digest = hashlib.sha256()
    try:
        with open_regular(path) as (file, size):
            status = os.fstat(file.fileno())
            digest.update(file.read(MIB if size <= MIB else _STAMP_HEAD_BYTES))
            for block in range(1, _STAMP_BLOCKS + 1 if size > MIB else 0):
                file.seek((size - _STAMP_BLOCK_BYTES) * block // _STAMP_BLOCKS)
                digest.update(file.read(_STAMP_BLOCK_BYTES))
    except FileError:
        return "missing"
    values = (size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, digest.hexdigest()[:32])
    return "-".join(str(value) for value in values)


def sha256_of(path: str | PathLike[str], on_bytes: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a regular file in lower-case hex; `on_bytes` gets the number of bytes read so far."""
    digest, done = hashlib.sha256(), 0
    with open_regular(path) as (file, _):
        while block := file.read(MIB):
            digest.update(block)
            done += len(block)
            if on_bytes:
                on_bytes(done)
    return digest.hexdigest()


def file_size(path: str | PathLike[str]) -> int:
    """Return the bytes of a file, with links followed; 0 if it does not exist."""
    try:
        return os.stat(as_path(path)).st_size
    except OSError:
        return 0


def remove_file(path: str | PathLike[str]) -> None:
    """Remove a file if it exists; raises FileError."""
    where = as_path(path)
    try:
        where.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"cannot remove {shown_name(where)}: {error.strerror}; remove it by hand") from error


def append_line(path: str | PathLike[str], line: str, *, flush: bool = False) -> None:
    """Append a line to a text file, which is created if missing; raises FileError and then appends nothing.

    A kill cuts at most the last line short. A power cut can take the last lines or damage them, unless `flush` puts
    each on the disk, which is slow.
    """
    where, data = as_path(path), f"{line}\n".encode()
    try:
        with os.fdopen(open_in_place(where, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                _append(file, data)
                if flush:
                    os.fsync(file.fileno())
            except BaseException:
                with contextlib.suppress(OSError):
                    file.truncate(size)  # no part of a line for the next one to be glued to
                raise
    except OSError as error:
        raise write_error(where, len(data), error) from error
    if flush and not size:
        sync_folder(where.parent)


def open_in_place(path: Path, flags: int) -> int:
    """Return a descriptor of a regular file that is written where it is, made if missing; raises OSError or FileError.

    A link is refused, since it may lead to any file, and so is a pipe or a device. Windows follows links.
    """
    flags |= os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileError(f"cannot write {shown_name(path)}: it is a link: remove it") from error
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise FileError(f"cannot write {shown_name(path)}: it is not a regular file: remove it") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileError(f"cannot write {shown_name(path)}: it is not a regular file: remove it")
    return handle


def _append(file: FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def write_atomic(
    path: str | PathLike[str], data: bytes, *, overwrite: bool = True, before: Callable[[], object] | None = None
) -> Path:
    """Write `data` to `path`, completely or not at all, and return the path written; raises FileError.

    A temporary file in the same folder is written, flushed to the disk and renamed; it never stays behind. With
    overwrite=False, no file is replaced. If another program holds the file (Windows), this tries again for a quarter of
    a second, then writes a numbered file next to it and logs a warning.
    """
    return write_parts_atomic(path, (data,), size=len(data), overwrite=overwrite, before=before)


def write_parts_atomic(
    path: str | PathLike[str],
    parts: Iterable[bytes | memoryview],
    *,
    size: int,
    overwrite: bool = True,
    before: Callable[[], object] | None = None,
) -> Path:
    """Do as `write_atomic` with data in parts, `size` bytes in total; each part is requested when it is written.

    before: called when all data are on the disk, right before the temporary file is renamed.
    """
    where = as_path(path)
    remove_stale_temps(where.parent)
    temp = temporary_path(where)
    try:
        try:
            _write_synced(temp, parts)
            if before is not None:
                before()
            written = _replace(temp, where) if overwrite else _move_without_replacing(temp, where)
        finally:
            with contextlib.suppress(OSError):  # what cannot be removed now is removed after a day
                os.unlink(temp)
    except OSError as error:
        raise write_error(where, size, error) from error
    sync_folder(where.parent)
    return written


def _write_synced(temp: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Create `temp` with mode 0666 less the umask, and flush `parts` to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(temp, flags, 0o666), "wb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _replace(temp: Path, where: Path) -> Path:
    for _ in range(_REPLACE_TRIES):
        try:
            os.replace(temp, where)
            return where
        except PermissionError:
            time.sleep(_REPLACE_WAIT_SECONDS)
    for number in range(1, _MAX_SIBLINGS + 1):
        sibling = where.with_name(f"{where.stem}-{number}{where.suffix}")
        with contextlib.suppress(FileExistsError):
            _move_without_replacing(temp, sibling)
            _LOG.warning("%s is held by another program: wrote %s instead", shown_name(where), shown_name(sibling))
            return sibling
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _move_without_replacing(temp: Path, where: Path) -> Path:
    if _WINDOWS:
        os.rename(temp, where)  # on Windows, this refuses an existing target
        return where
    try:
        os.link(temp, where)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _rename_where_free(temp, where)
    return where


def _rename_where_free(temp: Path, where: Path) -> None:
    """Rename unless `where` exists, alone in its folder. Holding the name by an empty file would not survive a kill."""
    import fcntl  # not on Windows, where this is never called

    folder = os.open(where.parent, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # without locks either, the moment between the two lines is left
            fcntl.flock(folder, fcntl.LOCK_EX)
        if os.path.lexists(where):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(temp, where)
    finally:
        os.close(folder)


def sync_folder(folder: Path) -> None:
    """Put names on the disk, so that a power cut does not undo them; if that cannot be done, files are whole anyway."""
    if _WINDOWS:
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_error(path: Path, size: int, error: OSError) -> FileError:
    """Return the error that says why `path`, of `size` bytes, could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = f", {shown_size(size)} are needed" if size else ""
        return DiskFullError(f"cannot write {shown_name(path)}: the disk is full{needed}: make room")
    protected = "the folder or file is write-protected: choose another folder"
    occupied = "a folder has that name: choose another name"
    reasons = {
        **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), protected),
        **dict.fromkeys((errno.EISDIR, errno.ENOTEMPTY), occupied),
        errno.EEXIST: "a file of that name exists already: choose another name",
        errno.ENOENT: "its folder does not exist: create it first",
    }
    reason = reasons.get(error.errno or 0, f"{error.strerror}: check the disk, or choose another folder")
    return FileError(f"cannot write {shown_name(path)}: {reason}")


def discard_output() -> None:
    """Discard everything printed from now on, after the reader of standard output has left (`| head`)."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    os.close(devnull)


def temporary_path(where: Path) -> Path:
    """Return a path in the same folder for what will be renamed to `where` when it is complete."""
    return where.parent / f".{where.name[:40]}.{os.getpid()}.{secrets.token_hex(8)}.ovtmp"


def remove_stale_temps(folder: Path, *, seconds: float = _STALE_SECONDS) -> None:
    """Delete temporary files and folders of this program that are older than `seconds`, left by a killed process."""
    try:
        names = [name for name in os.listdir(folder) if _TEMP.fullmatch(name)]
    except OSError:
        return  # the write that follows reports it
    for name in names:
        with contextlib.suppress(OSError):
            status = os.lstat(folder / name)
            if status.st_mtime >= time.time() - seconds:
                continue
            if stat.S_ISREG(status.st_mode):
                os.unlink(folder / name)
            elif stat.S_ISDIR(status.st_mode):
                shutil.rmtree(folder / name, ignore_errors=True)
