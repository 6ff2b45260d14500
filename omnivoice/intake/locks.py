"""A lock on a folder, which one process holds at a time.

The operating system keeps the lock, so it ends with its process, even one that was killed. The file in the folder only
names the holder for messages. It never locks anything by being there.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from types import TracebackType

from ..errors import FileError, LockedError
from .files import open_in_place, read_bytes, write_error
from .limits import KIB, shown
from .paths import as_path, shown_name
from .strict_json import parse_json

_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})
_WAIT_SECONDS = 0.1
_LOCKED_BYTE = 1 << 30  # on Windows; behind the text, since nobody else can read a locked byte there
_LOG = logging.getLogger("omnivoice_nodes")


class FolderLock:
    """A lock that is held until `release`, the end of the `with` block or the end of the process."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def release(self) -> None:
        """Let others take the lock. A second call does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)  # the process it names holds nothing any more
            os.close(handle)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_folder(folder: str | PathLike[str], name: str) -> FolderLock:
    """Return the lock on a folder, taken through the file `name` in it, which is made if missing.

    Raises LockedError, which names the holder, while a process holds it, this one included; FileError if the file
    cannot be made. Where the file system has no locks, a warning in the log says so.
    """
    where = as_path(folder) / name
    try:
        handle = open_in_place(where, os.O_RDWR)
    except OSError as error:
        raise write_error(where, 0, error) from error
    try:
        return _locked(handle, where)
    except BaseException:
        os.close(handle)  # an interrupt, too, must not leave a lock that this process waits for
        raise


def _locked(handle: int, where: Path) -> FolderLock:
    """Return the lock on the open file; raises as `lock_folder`, and then the file is still open."""
    try:
        _take(handle)
        if not _is_at(handle, where):  # the run that held it has removed it meanwhile
            lock = lock_folder(where.parent, where.name)
            os.close(handle)
            return lock
    except OSError as error:
        if error.errno in _NO_LOCKS:
            _LOG.warning("a second run in %s would not be noticed: its disk has no locks", shown_name(where.parent))
            return FolderLock(handle)
        if error.errno not in _HELD:
            raise write_error(where, 0, error) from error
        raise LockedError(
            f"{shown_name(where.parent)} is in use by {_holder(where)}: wait until that run ends, stop it, or choose "
            "another folder"
        ) from None
    with contextlib.suppress(OSError):  # on a full disk the lock holds without a name
        os.ftruncate(handle, 0)
        os.write(handle, _own_name())
    return FolderLock(handle)


@contextlib.contextmanager
def only_run(
    folder: str | PathLike[str], name: str = "in-use.lock", *, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the lock on a folder and remove its file at the end; raises what `lock_folder` raises.

    on_wait: wait while another run holds it, and call this meanwhile, ten times a second; it may raise to cancel.
    """
    where = as_path(folder) / name
    try:
        lock = lock_folder(folder, name) if on_wait is None else _awaited_lock(folder, name, on_wait)
    except FileError:
        raise
    except BaseException:  # an interrupt: the file goes too, unless another run holds it
        with contextlib.suppress(FileError, OSError), lock_folder(folder, name):
            os.unlink(where)
        raise
    with lock:
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes no open file; there it stays
                os.unlink(where)


def _awaited_lock(folder: str | PathLike[str], name: str, on_wait: Callable[[], None]) -> FolderLock:
    while True:
        with contextlib.suppress(LockedError):
            return lock_folder(folder, name)
        on_wait()
        time.sleep(_WAIT_SECONDS)


def _is_at(handle: int, where: str | PathLike[str]) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(where))
    except FileNotFoundError:
        return False


def _take(handle: int) -> None:
    """Lock the open file without waiting; raises OSError."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _own_name() -> bytes:
    since = datetime.datetime.now().astimezone().isoformat(" ", "minutes")
    return json.dumps({"host": platform.node(), "process": os.getpid(), "since": since}).encode()


def _holder(path: str | PathLike[str]) -> str:
    """Return who holds the lock, as its file says, in words."""
    with contextlib.suppress(FileError):
        found = parse_json(read_bytes(path, limit=KIB), shown_name(path))
        if isinstance(found, dict) and type(found.get("process")) is int:
            host, since = (shown(str(found.get(key, "?")))[1:-1] for key in ("host", "since"))
            return f"process {found['process']} on {host} since {since}"
    return "another process"
