"""Safetensors files: big ones mapped, small ones read whole, ours written.

What is unusual: a mapped file that someone truncates kills the process, so only model weights, which are too big to
copy, are mapped; voices and LoRAs, which strangers can replace, are read through one file descriptor. The writer
makes the same bytes from the same tensors (the library's order of metadata changes from run to run). Shapes and
names are not judged here: `weights` and `voice_files` know what theirs must be.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from types import MappingProxyType

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..errors import FileError, InputError
from .files import open_regular, read_bytes, write_parts_atomic
from .limits import MAX_HEADER_BYTES, MAX_MODEL_BYTES, MAX_TENSORS_BYTES, shown
from .paths import as_path, shown_name
from .tensor_header import LENGTH_BYTES, Header, TensorInfo, header_length, parse_header, render_header

_WRITTEN_DTYPES: Mapping[torch.dtype, str] = MappingProxyType(
    {
        torch.bool: "BOOL",
        torch.uint8: "U8",
        torch.int8: "I8",
        torch.int16: "I16",
        torch.int32: "I32",
        torch.int64: "I64",
        torch.float16: "F16",
        torch.bfloat16: "BF16",
        torch.float32: "F32",
        torch.float64: "F64",
    }
)


class MappedTensors:
    """An open weight file: `info` and `metadata` from its checked header, `get` for one tensor at a time."""

    def __init__(self, name: str, header: Header, handle: safetensors.safe_open) -> None:
        self.info: Mapping[str, TensorInfo] = header.info
        self.metadata: Mapping[str, str] = header.metadata
        self._name = name
        self._handle = handle

    def get(self, name: str) -> Tensor:
        """The tensor as it lies in the file, on the CPU, without a copy: its pages are read when it is used.

        It may outlive the file object. Raises FileError when there is none of that name.
        """
        if name not in self.info:
            raise FileError(f"{self._name} holds no tensor {shown(name)}")
        try:
            return self._handle.get_tensor(name)
        except (safetensors.SafetensorError, RuntimeError, ValueError) as error:
            raise FileError(f"cannot read tensor {shown(name)} of {self._name}: {error}") from error


def check_header(path: str | PathLike[str]) -> Header:
    """The checked header of a safetensors file; reads no tensor. Raises FileError that says what is wrong with it."""
    return _checked_header(path)[0]


def _checked_header(path: str | PathLike[str]) -> tuple[Header, tuple[int, ...]]:
    with open_regular(path) as (file, size):
        name = shown_name(path)
        if size > MAX_MODEL_BYTES:
            raise FileError(f"{name} must be at most {MAX_MODEL_BYTES} bytes, got {size}")
        head = file.read(64)
        length = header_length(head, size, name)
        file.seek(LENGTH_BYTES)
        header = file.read(min(length, MAX_HEADER_BYTES))
        return parse_header(header, size - LENGTH_BYTES - length, name), _identity(os.fstat(file.fileno()))


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def open_tensors(path: str | PathLike[str]) -> Iterator[MappedTensors]:
    """Map a weight file and yield its `MappedTensors`; for models only (see the module's docstring).

    Raises FileError when the header is not sound or the file was exchanged between check and mapping.
    """
    where = as_path(path)
    name = shown_name(where)
    header, identity = _checked_header(where)
    with contextlib.ExitStack() as stack:
        try:
            handle = stack.enter_context(safetensors.safe_open(str(where), framework="pt", device="cpu"))
            same = _identity(os.stat(where)) == identity
        except (safetensors.SafetensorError, OSError, RuntimeError) as error:
            raise FileError(f"cannot map {name}: {error}") from error
        if not same:
            raise FileError(f"{name} changed while it was opened: try again")
        yield MappedTensors(name, header, handle)


def read_small_tensors(
    path: str | PathLike[str], limit: int = MAX_TENSORS_BYTES
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors (CPU, as stored) and the metadata of a file of at most `limit` bytes; nothing stays mapped.

    Raises FileError; the header passes both our check and the library's before a tensor is made.
    """
    data = read_bytes(path, limit=limit)
    name = shown_name(path)
    length = header_length(data, len(data), name)
    start = LENGTH_BYTES + length
    header = parse_header(data[LENGTH_BYTES:start], len(data) - start, name)
    try:
        return safetensors.torch.load(data), dict(header.metadata)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:  # the last two by releases before 0.5
        raise FileError(f"cannot read {name}: {error}") from error


def write_tensors(
    path: str | PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str], *, overwrite: bool = True
) -> Path:
    """Write a safetensors file atomically and return the path written; the same tensors make the same bytes.

    An existing file is replaced only with `overwrite`, and only when it is a safetensors file of the same "format"
    in its metadata. Raises FileError when that fails, InputError for a dtype that is not written.
    """
    sources = {
        key: TensorSource(tensor.dtype, tuple(tensor.shape), partial(torch.detach, tensor))
        for key, tensor in tensors.items()
    }
    return stream_tensors(path, sources, metadata, overwrite=overwrite)


@dataclass(frozen=True)
class TensorSource:
    """A tensor that is made when its turn to be written comes: `make` gives it, of that dtype and shape."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    make: Callable[[], Tensor]


def stream_tensors(
    path: str | PathLike[str],
    sources: Mapping[str, TensorSource],
    metadata: Mapping[str, str],
    *,
    overwrite: bool = True,
) -> Path:
    """As `write_tensors`, holding one tensor at a time. What `make` raises is raised, and nothing is written."""
    where = as_path(path)
    if overwrite and os.path.lexists(where):
        _check_own(where, metadata.get("format"))
    info, size = _laid_out(sources, shown_name(where))
    header = render_header(info, metadata)
    parse_header(header[LENGTH_BYTES:], size, shown_name(where))  # what we write, we can read
    parts = (_raw(sources[key].make(), info[key]) for key in info)
    return write_parts_atomic(where, chain([header], parts), size=len(header) + size, overwrite=overwrite)


def _check_own(path: Path, kind: str | None) -> None:
    name = shown_name(path)
    try:
        found = check_header(path).metadata.get("format")
    except FileError as error:
        raise FileError(f"{name} exists and is not ours to replace ({error}): choose another name") from None
    if found != kind:
        raise FileError(f"{name} exists and is of another kind ({shown(found)}): choose another name")


def _laid_out(sources: Mapping[str, TensorSource], name: str) -> tuple[dict[str, TensorInfo], int]:
    """Where each tensor goes, and the bytes of all: wide types first, so that every one lies aligned; then by name."""
    info: dict[str, TensorInfo] = {}
    end = 0
    for key, source in sorted(sources.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])):
        if source.dtype not in _WRITTEN_DTYPES:
            raise InputError(f"{name}: tensor {shown(key)} has dtype {source.dtype}, which is not written")
        start, end = end, end + math.prod(source.shape) * source.dtype.itemsize
        info[key] = TensorInfo(_WRITTEN_DTYPES[source.dtype], source.shape, start, end)
    return info, end


def _raw(tensor: Tensor, info: TensorInfo) -> memoryview:
    flat = tensor.detach().to("cpu").contiguous().reshape(-1)
    assert (_WRITTEN_DTYPES[flat.dtype], tuple(tensor.shape)) == (info.dtype, info.shape), "as the header says"
    return flat.view(torch.uint8).numpy().data
