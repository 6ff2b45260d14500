"""Safetensors files: large ones are read in pieces or mapped, small ones are read completely, and ours are written.

Truncating a mapped file kills the process, and uploads truncate files in ComfyUI's input and output folders. So only
model weights that are used as stored are mapped, since no upload reaches the models folder; weights that are converted
are read in pieces, voices, LoRAs and training states completely. The writer makes the same bytes from the same tensors,
while the library's order of metadata changes from run to run. Names and shapes are checked in `weights` and
`voice_files`.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from io import BufferedReader
from itertools import chain
from os import PathLike
from pathlib import Path
from types import MappingProxyType

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..errors import FileError, InputError
from .cancel import hear_cancel
from .files import open_regular, read_bytes, write_parts_atomic
from .limits import MAX_HEADER_BYTES, MAX_MODEL_BYTES, MAX_TENSORS_BYTES, MIB, shown
from .paths import as_path, shown_name
from .tensor_header import DTYPES, LENGTH_BYTES, Header, TensorInfo, header_length, parse_header, render_header

PIECE_BYTES = 4 * MIB  # fits into the caches, so that checking and converting do not wait for memory
_NAMES = MappingProxyType({dtype: name for name, dtype in DTYPES.items()})


class TensorFile:
    """An open weight file with its checked header, `info` and `metadata`.

    `get` maps a tensor, `read` and `pieces` read one.
    """

    def __init__(
        self, name: str, header: Header, handle: safetensors.safe_open | None, file: BufferedReader, start: int
    ) -> None:
        self.info: Mapping[str, TensorInfo] = header.info
        self.metadata: Mapping[str, str] = header.metadata
        self._name, self._handle, self._file, self._start = name, handle, file, start
        self._buffer = torch.empty(0, dtype=torch.uint8)

    def get(self, name: str) -> Tensor:
        """Return a tensor as stored, on the CPU, without a copy: its pages are read when it is used.

        It may outlive this object. Raises FileError if the file holds no tensor of that name.
        """
        self._find(name)
        assert self._handle is not None, "files that are not to be mapped have none"
        try:
            return self._handle.get_tensor(name)
        except (safetensors.SafetensorError, RuntimeError, ValueError) as error:
            raise FileError(f"cannot read tensor {shown(name)} of {self._name}: {error}") from error

    def read(self, name: str) -> Tensor:
        """Return a tensor as stored, on the CPU, in memory of its own. Raises as `pieces` does."""
        info = self._find(name)
        raw = torch.empty(info.end - info.start, dtype=torch.uint8)
        self._file.seek(self._start + info.start)
        self._read_into(raw)
        return raw.view(DTYPES[info.dtype]).view(info.shape)

    def pieces(self, name: str) -> Iterator[tuple[int, Tensor]]:
        """Yield (first row, rows [n, ...]) of a tensor as stored, in order; of one without dimensions, (0, [1]).

        All pieces share the same memory, so use one before asking for the next. Nothing stays mapped. Raises
        FileError if the file holds no tensor of that name or has become shorter.
        """
        info = self._find(name)
        height, *width = info.shape or (1,)
        row_bytes = (info.end - info.start) // max(height, 1)
        most = max(1, PIECE_BYTES // max(row_bytes, 1))
        self._file.seek(self._start + info.start)
        for first in range(0, height, most):
            rows = min(most, height - first)
            raw = self._read(rows * row_bytes)
            yield first, raw.view(DTYPES[info.dtype]).view(rows, *width)

    def _find(self, name: str) -> TensorInfo:
        if name not in self.info:
            raise FileError(f"{self._name} holds no tensor {shown(name)}")
        return self.info[name]

    def _read(self, size: int) -> Tensor:
        """Return the next `size` bytes of the file, in memory that the next call uses again."""
        if len(self._buffer) < size:
            self._buffer = torch.empty(max(size, PIECE_BYTES), dtype=torch.uint8)
        raw = self._buffer[:size]
        self._read_into(raw)
        return raw

    def _read_into(self, raw: Tensor) -> None:
        if len(raw) and self._file.readinto(raw.numpy().data) != len(raw):
            raise FileError(f"{self._name} changed while it was read: try again")


def check_header(path: str | PathLike[str]) -> Header:
    """Return the checked header of a safetensors file without reading a tensor; raises FileError."""
    with open_regular(path) as (file, size):
        return _checked_header(file, size, shown_name(path))[0]


def _checked_header(file: BufferedReader, size: int, name: str) -> tuple[Header, int]:
    """Return the checked header and where the data of the tensors begins."""
    if size > MAX_MODEL_BYTES:
        raise FileError(f"{name} must be at most {MAX_MODEL_BYTES} bytes, got {size}")
    head = file.read(64)
    length = header_length(head, size, name)
    file.seek(LENGTH_BYTES)
    header = file.read(min(length, MAX_HEADER_BYTES))
    start = LENGTH_BYTES + length
    return parse_header(header, size - start, name), start


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def open_tensors(path: str | PathLike[str]) -> Iterator[TensorFile]:
    """Open a weight file and yield its `TensorFile`; for models only (see the module's docstring).

    Raises FileError if the header is invalid, or if the file was replaced between the check and the mapping.
    """
    where = as_path(path)
    name = shown_name(where)
    with contextlib.ExitStack() as stack:
        file, size = stack.enter_context(open_regular(where))
        header, start = _checked_header(file, size, name)
        identity = _identity(os.fstat(file.fileno()))
        try:
            handle = stack.enter_context(safetensors.safe_open(str(where), framework="pt", device="cpu"))
            same = _identity(os.stat(where)) == identity
        except (safetensors.SafetensorError, OSError, RuntimeError) as error:
            raise FileError(f"cannot map {name}: {error}") from error
        if not same:
            raise FileError(f"{name} changed while it was opened: try again")
        yield TensorFile(name, header, handle, file, start)


def read_own_tensors(path: str | PathLike[str]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return all tensors (on the CPU, as stored) and the metadata of a file of any size that a model may have.

    Nothing is mapped, and each tensor is in memory once. Raises FileError, also if the file becomes shorter meanwhile.
    """
    with open_regular(path) as (file, size):
        name = shown_name(path)
        header, start = _checked_header(file, size, name)
        source = TensorFile(name, header, None, file, start)
        return {key: source.read(key) for key in header.info}, dict(header.metadata)


def read_small_tensors(
    path: str | PathLike[str], limit: int = MAX_TENSORS_BYTES
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return all tensors (on the CPU, as stored) and the metadata of a file of at most `limit` bytes.

    Nothing stays mapped. The header passes this check and the library's before a tensor is made. Raises FileError.
    """
    data = read_bytes(path, limit=limit)
    name = shown_name(path)
    length = header_length(data, len(data), name)
    start = LENGTH_BYTES + length
    header = parse_header(data[LENGTH_BYTES:start], len(data) - start, name)
    hear_cancel()
    try:
        return safetensors.torch.load(data), dict(header.metadata)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:  # the last two by releases before 0.5
        raise FileError(f"cannot read {name}: {error}") from error


def write_tensors(
    path: str | PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = True,
    before: Callable[[], object] | None = None,
) -> Path:
    """Write a safetensors file atomically and return the path written; the same tensors make the same bytes.

    An existing file is replaced only with `overwrite`, and only if it is a safetensors file with the same "format" in
    its metadata. before: see `files.write_parts_atomic`. Raises FileError if writing fails, and InputError for a dtype
    that cannot be written.
    """
    sources = {
        key: TensorSource(tensor.dtype, tuple(tensor.shape), partial(torch.detach, tensor))
        for key, tensor in tensors.items()
    }
    return stream_tensors(path, sources, metadata, overwrite=overwrite, before=before)


@dataclass(frozen=True)
class TensorSource:
    """A tensor that `make` returns when it is about to be written, with this dtype and shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    make: Callable[[], Tensor]


def stream_tensors(
    path: str | PathLike[str],
    sources: Mapping[str, TensorSource],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = True,
    before: Callable[[], object] | None = None,
) -> Path:
    """Do as `write_tensors` with one tensor in memory at a time. If a `make` raises, nothing is written."""
    where = as_path(path)
    if overwrite and os.path.lexists(where):
        _check_replaceable(where, metadata.get("format"))
    info, size = _layout(sources, shown_name(where))
    header = render_header(info, metadata)
    parse_header(header[LENGTH_BYTES:], size, shown_name(where))  # so that this program can read it again
    parts = (_bytes_of(sources[key].make(), info[key]) for key in info)
    return write_parts_atomic(
        where, chain([header], parts), size=len(header) + size, overwrite=overwrite, before=before
    )


def _check_replaceable(path: Path, kind: str | None) -> None:
    name = shown_name(path)
    try:
        found = check_header(path).metadata.get("format")
    except FileError as error:
        raise FileError(f"{name} exists and was not made by this program ({error}): choose another name") from None
    if found != kind:
        raise FileError(f"{name} exists and is of another kind ({shown(found)}): choose another name")


def _layout(sources: Mapping[str, TensorSource], name: str) -> tuple[dict[str, TensorInfo], int]:
    """Return the place of each tensor and the total bytes. Wide dtypes come first, which aligns all; then by name."""
    info: dict[str, TensorInfo] = {}
    end = 0
    for key, source in sorted(sources.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        if source.dtype not in _NAMES:
            raise InputError(f"{name}: tensor {shown(key)} has dtype {source.dtype}, which cannot be written")
        start, end = end, end + math.prod(source.shape) * source.dtype.itemsize
        info[key] = TensorInfo(_NAMES[source.dtype], source.shape, start, end)
    return info, end


def _bytes_of(tensor: Tensor, info: TensorInfo) -> memoryview:
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    assert (_NAMES[flat.dtype], tuple(tensor.shape)) == (info.dtype, info.shape), "as its source said"
    return flat.view(torch.uint8).numpy().data
