"""The header of a safetensors file, checked more strictly than the format requires.

The safetensors library accepts duplicate keys, leading spaces, a million tensors, and a hundred thousand dimensions.
Shapes whose product overflows have broken four other loaders in 2026. The library accepts everything that passes here.
This file works on bytes: it opens no file and reads no tensor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch

from ..errors import FileError
from .cancel import hear_cancel
from .limits import MAX_DIMENSIONS, MAX_HEADER_BYTES, MAX_TENSOR_NAME_CHARS, MAX_TENSORS, shown
from .strict_json import parse_json

DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {
        "BOOL": torch.bool,
        "U8": torch.uint8,
        "I8": torch.int8,
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E5M2": torch.float8_e5m2,
        "I16": torch.int16,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
        "I32": torch.int32,
        "F32": torch.float32,
        "I64": torch.int64,
        "F64": torch.float64,
    }
)
LENGTH_BYTES = 8
_KEYS = {"dtype", "shape", "data_offsets"}
_MAX_ELEMENTS = 1 << 48  # far more than any file has, and far from overflowing 64 bits
_FOREIGN = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: run git lfs pull, or download it again"),
    (b"<!doctype html", "a web page: the server sent an error or login page, so download it again"),
    (b"<html", "a web page: the server sent an error or login page, so download it again"),
    (b"pk\x03\x04", "a zip or a PyTorch pickle, not safetensors: get the .safetensors version of it"),
    (
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "a Python pickle, not safetensors: get the .safetensors version of it",
    ),
    (b"gguf", "a GGUF file, not safetensors: get the .safetensors version of it"),
)


class TensorInfo(NamedTuple):
    """One tensor in the header: dtype as the format names it, shape, and its bytes [start, end) of the data part."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """A checked header: the tensors by name, in the order of their data, and the metadata, which is free text."""

    info: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]


def header_length(head: bytes, size: int, name: str) -> int:
    """Return the length of the JSON header. head: the first bytes of a file of `size` bytes, of which 64 are used."""
    start, is_header = head[:64].lstrip().lower(), head[4:9] == b"\0\0\0\0{"  # whatever its length looks like
    for magic, what in _FOREIGN:
        if start.startswith(magic) and not is_header:
            raise FileError(f"{name} is {what}")
    if len(head) < LENGTH_BYTES or size < LENGTH_BYTES + 2:
        raise FileError(f"{name} is only {size} bytes long: the download stopped early, download it again")
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    if not 2 <= length <= MAX_HEADER_BYTES:
        raise FileError(f"{name} is not a safetensors file: a header of {length} bytes, allowed 2-{MAX_HEADER_BYTES}")
    if LENGTH_BYTES + length > size:
        raise FileError(
            f"{name} ends at byte {size}, inside its header of {length} bytes: the download is incomplete, "
            "download it again"
        )
    return length


def parse_header(header: bytes, data_bytes: int, name: str) -> Header:
    """Return the checked JSON header of a file whose data part has `data_bytes` bytes; raises only FileError.

    Allowed are at most 4096 tensors of at most 8 dimensions, names of at most 256 characters, known dtypes, and offsets
    that cover the data part exactly, without gap or overlap.
    """
    if not header.startswith(b"{"):
        raise FileError(f"{name} is not a safetensors file: its header does not begin with {{")
    hear_cancel()
    parsed = parse_json(header, f"the header of {name}")
    hear_cancel()
    assert isinstance(parsed, dict), "JSON that begins with a brace is an object"
    metadata = _metadata(parsed.pop("__metadata__", {}), name)
    if len(parsed) > MAX_TENSORS:
        raise FileError(f"{name} must hold at most {MAX_TENSORS} tensors, got {len(parsed)}")
    described = {key: _tensor_info(key, entry, name) for key, entry in parsed.items()}
    info = dict(sorted(described.items(), key=lambda item: (item[1].start, item[1].end)))
    _check_coverage(info, LENGTH_BYTES + len(header), data_bytes, name)
    return Header(info, metadata)


def _metadata(found: object, name: str) -> dict[str, str]:
    if not isinstance(found, dict):
        raise FileError(f"{name}: __metadata__ must be an object of strings")
    for key, value in found.items():
        if not isinstance(value, str):
            raise FileError(f"{name}: __metadata__ must be an object of strings, {shown(key)} is not")
    return found


def _tensor_info(key: str, entry: object, name: str) -> TensorInfo:
    """Return a checked entry. A file has hundreds, so the name for a message is made only when one is needed."""

    def where() -> str:
        return f"{name}: tensor {shown(key)}"

    if len(key) > MAX_TENSOR_NAME_CHARS:
        raise FileError(f"{name}: tensor names must be at most {MAX_TENSOR_NAME_CHARS} characters, got {len(key)}")
    if not isinstance(entry, dict) or entry.keys() != _KEYS:
        raise FileError(f"{where()} must have exactly dtype, shape and data_offsets")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FileError(f"{where()} has dtype {shown(dtype)}, allowed are {', '.join(DTYPES)}")
    shape = _whole_numbers(entry["shape"], "the shape of ", where)
    offsets = _whole_numbers(entry["data_offsets"], "data_offsets of ", where)
    if len(shape) > MAX_DIMENSIONS:
        raise FileError(f"{where()} must have at most {MAX_DIMENSIONS} dimensions, got {len(shape)}")
    if math.prod([size or 1 for size in shape]) > _MAX_ELEMENTS:  # also where another dimension is 0
        raise FileError(f"{where()} has an impossible shape {shape}")
    expected = math.prod(shape) * DTYPES[dtype].itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != expected:
        raise FileError(f"{where()} {dtype} {shape} takes {expected} bytes, its offsets are {offsets[:3]}")
    return TensorInfo(dtype, tuple(shape), *offsets)


def _whole_numbers(value: object, what: str, where: Callable[[], str]) -> list[int]:
    if not isinstance(value, list):
        raise FileError(f"{what}{where()} must be a list of whole numbers, got {shown(value)}")
    for item in value:
        if type(item) is not int or item < 0:
            raise FileError(f"{what}{where()} must be whole numbers >= 0, got {shown(item)}")
    return value


def _check_coverage(info: Mapping[str, TensorInfo], data_start: int, data_bytes: int, name: str) -> None:
    end = 0
    for key, tensor in info.items():
        if tensor.start != end:
            kind = "overlaps the one before it" if tensor.start < end else "leaves a gap before it"
            raise FileError(f"{name}: the data of tensor {shown(key)} {kind} (byte {tensor.start}, expected {end})")
        end = tensor.end
    if end > data_bytes:
        raise FileError(
            f"{name} ends at byte {data_start + data_bytes} but its header describes {data_start + end} bytes: "
            "the download is incomplete, download it again"
        )
    if end < data_bytes:
        raise FileError(f"{name} has {data_bytes - end} bytes after its last tensor: it is corrupt, download it again")


def render_header(tensors: Mapping[str, TensorInfo], metadata: Mapping[str, str]) -> bytes:
    """Return the first bytes of a file that holds `tensors`: the header's length and the header, padded to 8 bytes.

    The metadata is sorted, so that the same content gives the same bytes.
    """
    described: dict[str, object] = {
        key: {"dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [tensor.start, tensor.end]}
        for key, tensor in tensors.items()
    }
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items())), **described}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text
