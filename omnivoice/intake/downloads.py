"""Download one published file from the Hugging Face Hub: the only file that uses the network.

The bytes go to NAME.part, which outlives a cancel or a crash and is resumed by the next call. NAME itself appears only
after the size and the SHA-256 equal the published ones, and never replaces a file.

It calls huggingface_hub's `http_get` instead of its `hf_hub_download`. The latter starts every interrupted download
from zero since release 1.20, leaves a cache folder in the model's folder, and prefers xet, which a callback cannot
cancel. `http_get` runs in a thread, because it hands over 10 MB at a time: the calling thread reports progress and can
cancel at any moment, even while the server sends nothing.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import BinaryIO, cast

from ..errors import FileError, InputError
from .files import file_size, remove_file, sha256_of, sync_folder, write_error
from .limits import MIB, shown_size
from .paths import shown_name

PUBLIC_HUB = "https://huggingface.co"
PART = ".part"
TRIES = 3  # in a row, without REFILL_BYTES of progress in between
REFILL_BYTES = 16 * MIB
STALL_SECONDS = 600.0  # in which no block of 10 MB arrived: less than 17 kB a second
WAIT_SECONDS = 1.0  # before the second try; twice as long before the third
INSTALL = "huggingface_hub is not installed: run `pip install huggingface_hub` in the Python that runs this"
# No token, no list of installed packages, and no compression, so that the bytes on the wire are those of the file.
_HEADERS = {"user-agent": "omnivoice-nodes", "Accept-Encoding": "identity"}
_ENDPOINT = re.compile(r"https?://([\w.-]+|\[[\da-fA-F:.]+\])(:[1-9]\d{0,4})?(/[\w.~-]+)*", re.ASCII)
_TICK_SECONDS = 0.1
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_YES = frozenset({"1", "ON", "YES", "TRUE"})


OnBytes = Callable[[int], None]  # called ten times a second with the number of bytes received; may raise to cancel


class _TooLong(OSError):
    """The server sends more bytes than were published."""


class _NoBar:
    """A progress bar for `http_get` that draws nothing."""

    def __init__(self, **_: object) -> None: ...

    def update(self, count: float = 1) -> None: ...

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None: ...


class _PartFile:
    """The open .part file as `http_get` uses it. It never grows over `size`, nor after `close`."""

    def __init__(self, file: FileIO, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._file, self._lock = file, threading.Lock()

    def write(self, block: bytes) -> int:
        with self._lock:
            if self.tell() + len(block) > self.size:
                raise _TooLong
            rest = memoryview(block)
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as error:
                raise _write_error(self.name, self.size - self.tell(), error) from error
            return len(block)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def truncate(self) -> int:
        with self._lock:
            return self._file.truncate()

    def restart(self) -> None:
        """Drop every byte."""
        self.seek(0)
        self.truncate()

    def sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _write_error(self.name, self.size - self.tell(), error) from error

    def close(self) -> None:
        """Finish a write in progress and close the file, so that every later one fails with ValueError."""
        with self._lock:
            self._file.close()


def hub_endpoint() -> str:
    """Return HF_ENDPOINT without its trailing slash, or the public hub; raises InputError for anything but a plain
    http(s) address. Such a value is never shown, because it may hold a password."""
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or PUBLIC_HUB
    if not _ENDPOINT.fullmatch(endpoint):
        raise InputError(
            f"HF_ENDPOINT must be an address such as {PUBLIC_HUB}, without a user name, password or query; its value "
            "is not shown, because it may hold a password"
        )
    return endpoint


def check_hub() -> None:
    """Raise FileError if huggingface_hub is missing or HF_HUB_OFFLINE is set, InputError for a bad HF_ENDPOINT."""
    hub_endpoint()
    try:
        from huggingface_hub import constants
    except ImportError:
        raise FileError(INSTALL) from None
    if constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in _YES:
        raise FileError("HF_HUB_OFFLINE is set, so nothing is downloaded: unset it and restart, or copy the files")


def part_bytes(target: Path) -> int:
    """Return how many bytes of a file an earlier call left."""
    return file_size(target.with_name(target.name + PART))


def download_file(
    repository: str, revision: str, path: str, target: Path, *, size: int, sha256: str, on_bytes: OnBytes
) -> None:
    """Download a file of a repository at a commit to `target`, whose folder exists; check it before it appears there.

    Raises FileError when the file or the hub cannot be reached, other bytes arrive (they are removed), or the disk is
    full. An exception that `on_bytes` raises passes through; the next call resumes.
    """
    part = target.with_name(target.name + PART)
    resumed = file_size(part) > 0
    with _open_part(part, size) as file:
        _receive(repository, revision, path, file, on_bytes)
    if sha256_of(part, lambda _: on_bytes(size)) == sha256:
        return _finish(part, target)
    remove_file(part)
    if not resumed:
        raise FileError(f"{shown_name(target)} differs from the published file and was removed")
    # What an earlier call left may have been wrong, so the file gets one download from its start.
    download_file(repository, revision, path, target, size=size, sha256=sha256, on_bytes=on_bytes)


def _receive(repository: str, revision: str, path: str, part: _PartFile, on_bytes: OnBytes) -> None:
    """Fill the part file; a connection that breaks is tried again."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get

    url = hf_hub_url(repository, path, revision=revision, endpoint=hub_endpoint())
    known = inspect.signature(http_get).parameters
    options: dict[str, object] = {"headers": _HEADERS, "expected_size": part.size}
    if "tqdm_class" in known:  # release 1.5 and later; earlier ones draw their own bar
        options["tqdm_class"] = _NoBar
    if "proxies" in known:  # before release 1.0, this turns off hf_transfer, which writes to a path of its own
        options["proxies"] = {}

    def attempt() -> None:
        http_get(url, cast(BinaryIO, part), resume_size=part.tell(), **options)  # type: ignore[arg-type]

    tries, filled = TRIES, part.tell()
    while (start := part.tell()) < part.size:
        fault = _run_watched(attempt, part, on_bytes)
        if part.tell() == part.size:
            return
        reason = _retry_reason(fault, part, start)
        tries -= 1
        if part.tell() - filled >= REFILL_BYTES:
            tries, filled = TRIES, part.tell()
        if not tries:
            raise FileError(f"{part.name} could not be downloaded ({reason})") from fault
        pause = WAIT_SECONDS * 2 ** (TRIES - 1 - tries)
        _run_watched(partial(threading.Event().wait, pause), part, on_bytes)


def _run_watched(job: Callable[[], object], part: _PartFile, on_bytes: OnBytes) -> Exception | None:
    """Run `job` in a thread while `on_bytes` is called in this one; return the exception that ended it, or None.

    When `on_bytes` raises, the thread is left to end at its next write, which fails; and so it is when nothing is
    written for STALL_SECONDS, which raises FileError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    # Its base classes are those of the HTTP library below: requests, httpx or httpx2, depending on the release.
    expected = cast("tuple[type[Exception], ...]", (FileError, OSError, ValueError, *HfHubHTTPError.__bases__))
    faults: list[Exception] = []

    def run() -> None:
        try:
            job()
        except expected as error:
            faults.append(error)

    thread = threading.Thread(target=run, name="omnivoice-download", daemon=True)
    thread.start()
    last, since = part.tell(), monotonic()
    try:
        while thread.is_alive():
            on_bytes(part.tell())
            thread.join(_TICK_SECONDS)
            if part.tell() != last:
                last, since = part.tell(), monotonic()
            elif thread.is_alive() and monotonic() - since > STALL_SECONDS:
                raise FileError(
                    f"{part.name} could not be downloaded (too little came in {STALL_SECONDS / 60:g} minutes): try "
                    "again later, what came before is kept"
                )
        on_bytes(part.tell())
    except BaseException:
        part.close()
        raise
    return faults[0] if faults else None


def _retry_reason(fault: BaseException | None, part: _PartFile, start: int) -> str:
    """Return in a few words, without addresses, why the attempt that began at byte `start` failed; raise FileError when
    another attempt cannot help."""
    if isinstance(fault, FileError):
        raise fault
    status = getattr(getattr(fault, "response", None), "status_code", None)
    too_long = isinstance(fault, _TooLong)
    if too_long or status == 416:
        part.restart()
        if start:
            return "the data received earlier does not belong to this file"
    if too_long:
        raise FileError(f"{part.name} on the server is larger than the {part.size} bytes that were published")
    if status is None:
        return _cause(fault) or f"the connection ended after {part.tell()} of {part.size} bytes"
    if status not in _TRANSIENT:
        raise FileError(f"{part.name} could not be downloaded (the answer was HTTP {status})") from fault
    return f"the answer was HTTP {status}"


def _cause(fault: BaseException | None) -> str:
    """Return the operating system's words for the fault below an exception of the HTTP library; "" without any."""
    while fault is not None:
        if "Timeout" in type(fault).__name__:
            return "the server did not answer in time"
        if isinstance(fault, OSError) and fault.strerror:
            return fault.strerror
        fault = fault.__cause__ or fault.__context__
    return ""


@contextlib.contextmanager
def _open_part(path: Path, size: int) -> Iterator[_PartFile]:
    """Open or create the .part file, positioned at its end; synced to the disk and kept when the block ends well."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        raise write_error(path, 0, error) from error
    # Unbuffered: a buffer would be written when the file is closed, too late to report a full disk.
    with FileIO(handle, "r+") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise FileError(f"{shown_name(path)} is not a regular file: remove it")
        part = _PartFile(file, path.name.removesuffix(PART), size)
        if file.seek(0, os.SEEK_END) > size:
            part.restart()
        yield part
        part.sync()


def _finish(part: Path, target: Path) -> None:
    """Give the checked .part file its final name, unless a file has that name already."""
    try:
        if os.path.lexists(target):
            raise FileError(f"{shown_name(target)} appeared during the download: remove it or its {PART} file")
        os.rename(part, target)
    except OSError as error:
        raise write_error(target, 0, error) from error
    sync_folder(target.parent)


def _write_error(name: str, missing: int, error: OSError) -> FileError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FileError(
            f"the disk is full: {shown_size(missing)} of {name} are still missing; make room, then run it again"
        )
    return write_error(Path(f"{name}{PART}"), 0, error)
