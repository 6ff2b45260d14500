"""Safetensors files: big ones mapped, small ones read whole, ours written.

What is unusual: a mapped file that someone truncates kills the process, so only model weights, which are too big to
copy, are mapped; voices and LoRAs, which strangers can replace, are read through one file descriptor. The writer
makes the same bytes from the same tensors (the library's order of metadata changes from run to run). Shapes and
names are not judged here: `weights` and `voice_files` know what theirs must be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from types import MappingProxyType

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from ..errors import FileError, InputError
from .files import open_regular, read_bytes, write_atomic
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
    where = as_path(path)
    if overwrite and os.path.lexists(where):
        _check_own(where, metadata.get("format"))
    blob = _serialized(tensors, metadata, shown_name(where))
    return write_atomic(where, blob, overwrite=overwrite)


def _check_own(path: Path, kind: str | None) -> None:
    name = shown_name(path)
    try:
        found = check_header(path).metadata.get("format")
    except FileError as error:
        raise FileError(f"{name} exists and is not ours to replace ({error}): choose another name") from None
    if found != kind:
        raise FileError(f"{name} exists and is of another kind ({shown(found)}): choose another name")


def _serialized(tensors: Mapping[str, Tensor], metadata: Mapping[str, str], name: str) -> bytes:
    info: dict[str, TensorInfo] = {}
    parts: list[bytes] = []
    end = 0
    # Wide types first, so that every tensor lies aligned; then by name.
    for key, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        if tensor.dtype not in _WRITTEN_DTYPES:
            raise InputError(f"{name}: tensor {shown(key)} has dtype {tensor.dtype}, which is not written")
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        parts.append(flat.view(torch.uint8).numpy().tobytes())
        info[key] = TensorInfo(_WRITTEN_DTYPES[tensor.dtype], tuple(tensor.shape), end, end + len(parts[-1]))
        end += len(parts[-1])
    header = render_header(info, metadata)
    parse_header(header[LENGTH_BYTES:], end, name)  # what we write, we can read
    return b"".join([header, *parts])
