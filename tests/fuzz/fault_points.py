"""The points of the product at which a fault can be injected, and the faults.

A point is an operation on a file below one folder, a layer of the model, a part of the codec, an optimizer step or a
call of progress. Every one of them is counted while `Points` is installed; the n-th that a fault can happen at raises
it, and with `forever` all later ones do. A write that fails has written half of its data, as on a full disk.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.cuda import OutOfMemoryError

from omnivoice.codec.acoustic import AcousticDecoder, AcousticEncoder
from omnivoice.codec.model import CodecDecoder, CodecEncoder
from omnivoice.intake import downloads, files
from omnivoice.lm.body import Layer

CHANGES = ("create", "write", "sync", "replace", "link", "rename", "mkdir")
FILES = (*CHANGES, "open", "read", "unlink")
MODEL = ("layer", "encoder", "decoder", "optimizer")
PROGRESS = ("progress",)
ASSERT = "CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously reported"


class Cancelled(Exception):
    """What a host's callback raises."""


@dataclass(frozen=True)
class Fault:
    """points: where it can happen. can_last: whether it may happen at every later point too."""

    make: Callable[[], BaseException]
    points: tuple[str, ...]
    can_last: bool = True


def _os_error(code: int) -> Callable[[], OSError]:
    return lambda: OSError(code, os.strerror(code))


FAULTS = {
    "disk full": Fault(_os_error(errno.ENOSPC), CHANGES),
    "disk error": Fault(_os_error(errno.EIO), FILES),
    "no permission": Fault(_os_error(errno.EACCES), ("open", "unlink", *CHANGES)),
    "read-only": Fault(_os_error(errno.EROFS), ("unlink", *CHANGES)),
    "memory": Fault(lambda: MemoryError(), (*MODEL, "read")),
    "device memory": Fault(lambda: OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), MODEL),
    "device assert": Fault(lambda: RuntimeError(ASSERT), MODEL),
    "interrupt": Fault(lambda: KeyboardInterrupt(), (*FILES, *MODEL, *PROGRESS), can_last=False),
    "cancel": Fault(lambda: Cancelled(), PROGRESS),
}


class Points:
    """Counts the points that are passed, and raises a fault at one of them. passed: since `arm`, in order."""

    def __init__(self) -> None:
        self.root = os.devnull
        self.passed: list[str] = []
        self.raised: list[str] = []
        self._fault: Fault | None = None
        self._n, self._forever = 0, False

    def arm(self, root: Path, fault: Fault | None = None, n: int = 0, *, forever: bool = False) -> None:
        """Count from now on, and raise `fault` at the n-th point, from 1, where it can happen. root: of the files."""
        self.root, self.passed, self.raised = str(root), [], []
        self._fault, self._n, self._forever = fault, n, forever

    def disarm(self) -> None:
        """Raise nothing more."""
        self.root, self._fault = os.devnull, None

    def hit(self, name: str) -> None:
        """Pass a point; raises the fault if it is due."""
        self.passed.append(name)
        fault = self._fault
        if fault is None or name not in fault.points:
            return
        error = fault.make()
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is not threading.main_thread():
            return  # Python interrupts its main thread only
        self._n -= 1
        if self._n == 0 or (self._n < 0 and self._forever):
            self.raised.append(name)
            raise error

    def is_below(self, path: object) -> bool:
        """Whether a path is one of the files that count."""
        return isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(self.root)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put the points into the product, and take them out at the end."""
        with mock.patch.multiple(os, **_os_calls(self)), _file_objects(self), _model(self):
            yield


def _os_calls(points: Points) -> dict[str, Any]:
    """Return what stands in for the functions of `os`. handles: open ones of the files that count."""
    real = {
        name: getattr(os, name) for name in ("open", "close", "fsync", "write", "fdopen", "mkdir", "unlink", "rmdir")
    }
    handles = set[int]()

    def open_(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if not points.is_below(path):
            return real["open"](path, flags, *rest, **options)  # type: ignore[no-any-return]
        points.hit("create" if flags & os.O_CREAT else "open")
        handle: int = real["open"](path, flags, *rest, **options)
        handles.add(handle)
        return handle

    def close(handle: int) -> None:
        handles.discard(handle)
        real["close"](handle)

    def with_handle(name: str, point: str) -> Callable[..., Any]:
        def call(handle: Any, *rest: Any) -> Any:
            if (handle if isinstance(handle, int) else handle.fileno()) not in handles:
                return real[name](handle, *rest)
            points.hit(point)
            return None if name == "fsync" else real[name](handle, *rest)  # no power is lost here, and it is slow

        return call

    def fdopen(handle: int, mode: str = "r", *rest: Any, closefd: bool = True, **options: Any) -> Any:
        if handle not in handles or mode not in ("rb", "wb"):
            return real["fdopen"](handle, mode, *rest, closefd=closefd, **options)
        if closefd:
            handles.discard(handle)
        raw = io.FileIO(handle, mode, closefd=closefd)
        return _Reader(points, raw) if mode == "rb" else _Writer(points, raw, handles)

    def with_path(name: str, point: str) -> Callable[..., Any]:
        own = getattr(os, name)

        def call(path: Any, *rest: Any, **options: Any) -> Any:
            if points.is_below(rest[0] if rest and name in ("link", "replace", "rename") else path):
                points.hit(point)
            return own(path, *rest, **options)

        return call

    named = {name: with_path(name, name) for name in ("replace", "link", "rename", "mkdir", "unlink")}
    return {
        **named,
        "rmdir": with_path("rmdir", "unlink"),
        "open": open_,
        "close": close,
        "fsync": with_handle("fsync", "sync"),
        "write": with_handle("write", "write"),
        "fdopen": fdopen,
    }


def _counts(call: int) -> bool:
    """Whether a read or write of a file is a point: its first three and then one in 32, since they are alike."""
    return call <= 3 or call % 32 == 0


class _Reader(io.BufferedReader):
    """A file whose reads are points."""

    def __init__(self, points: Points, raw: io.FileIO) -> None:
        super().__init__(raw)
        self._points, self._calls = points, 0

    def _hit(self) -> None:
        self._calls += 1
        if _counts(self._calls):
            self._points.hit("read")

    def read(self, size: int | None = -1) -> bytes:
        self._hit()
        return super().read(size)

    def readinto(self, buffer: Any) -> int:
        self._hit()
        return super().readinto(buffer)


def _write_or_half(points: Points, write: Callable[[Any], int], data: Any) -> int:
    """Write `data` and return how much was written; half of it if the fault happens here."""
    try:
        points.hit("write")
    except BaseException:
        write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
        raise
    return write(data)


class _Writer(io.BufferedWriter):
    """A file whose writes are points, and which counts as one that is synced until it is closed."""

    def __init__(self, points: Points, raw: io.FileIO, handles: set[int]) -> None:
        super().__init__(raw)
        self._points, self._handles, self._handle, self._calls = points, handles, raw.fileno(), 0
        handles.add(self._handle)

    def write(self, data: Any) -> int:
        self._calls += 1
        if not _counts(self._calls):
            return super().write(data)
        return _write_or_half(self._points, super().write, data)

    def close(self) -> None:
        self._handles.discard(self._handle)
        super().close()


@contextmanager
def _file_objects(points: Points) -> Iterator[None]:
    """Let the log and the download, which open files of their own kinds, pass points too."""

    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            return _write_or_half(points, super().write, data)

    def open_(path: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if mode == "ab" and points.is_below(path):
            points.hit("create")
            return Raw(path, mode)
        return builtins.open(path, mode, *rest, **options)

    with mock.patch.object(files, "open", open_, create=True), mock.patch.object(downloads, "FileIO", Raw):
        yield


@contextmanager
def _model(points: Points) -> Iterator[None]:
    """Let layers, codec and optimizer pass points."""
    places = {
        (Layer, "forward"): "layer",
        (CodecEncoder, "encode"): "encoder",
        (AcousticEncoder, "forward"): "encoder",
        (CodecDecoder, "_decode"): "decoder",
        (AcousticDecoder, "forward"): "decoder",
        (torch.optim.AdamW, "step"): "optimizer",
    }
    with mock.patch.multiple(files, _REPLACE_WAIT_SECONDS=0.0) as _:
        patches = [
            mock.patch.object(kind, name, _passing(points, kind, name, at)) for (kind, name), at in places.items()
        ]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in reversed(patches):
                patch.stop()


def _passing(points: Points, kind: type, name: str, point: str) -> Callable[..., Any]:
    own = getattr(kind, name)

    def call(*arguments: Any, **options: Any) -> Any:
        points.hit(point)
        return own(*arguments, **options)

    return call
