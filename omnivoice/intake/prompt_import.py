"""Upstream's saved prompts (.pt), read once to become voice files; for the command line alone.

What is unusual: nothing is unpickled. Such a file is a zip whose data.pkl is a program; this module reads the few
instructions that upstream's `VoiceClonePrompt.save` produces (models/omnivoice.py:130, format_version 1) as data,
calls nothing it names, and takes the tensor's bytes from the zip only after their declared sizes agree. So neither
the "weights only" bypasses nor a small file that claims a trillion elements have anything to work with. It reads no
other .pt file: no checkpoints, no optimizer states.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType

import torch
from torch import Tensor

from ..errors import FileError, InputError
from ..voice import VoicePrompt
from .files import read_bytes
from .limits import CODEBOOK_SIZE, MAX_CODEBOOKS, MAX_PROMPT_BYTES, MAX_VOICE_FRAMES, shown
from .paths import shown_name
from .voice_files import check_codes, clean_voice_text

_MAX_ENTRIES = 16
_MAX_PROGRAM_BYTES = 64 << 10
_ENTRY = re.compile(
    r"[^/\\]{1,120}/(data\.pkl|data/\d{1,3}|version|byteorder|\.format_version|\.storage_alignment"
    r"|\.data/serialization_id)"
)
_KEYS = {"format_version", "ref_audio_tokens", "ref_text", "ref_rms"}
_REBUILD, _ORDERED = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
_STORAGES: Mapping[str, torch.dtype] = MappingProxyType(
    {"torch LongStorage": torch.int64, "torch IntStorage": torch.int32, "torch ShortStorage": torch.int16}
)


@dataclass(frozen=True)
class _Name:
    """A thing the program refers to by module and name; never looked up."""

    text: str


@dataclass(frozen=True, eq=False)
class _Storage:
    """The raw elements of a tensor."""

    elements: Tensor


class _Mark:
    """Where a tuple or a batch of items begins on the stack."""


def read_upstream_prompt(path: str | PathLike[str]) -> VoicePrompt:
    """The voice in a prompt that upstream saved with torch.save; raises FileError for everything else."""
    name = shown_name(path)
    data = read_bytes(path, limit=MAX_PROMPT_BYTES)
    entries = _zip_entries(data, name)
    if entries.get("byteorder", b"little") != b"little":
        raise FileError(f"{name} was saved on a big-endian machine: save the prompt again on another one")
    try:
        found = _Program(entries).run()
        return _voice(found)
    except (InputError, ValueError, struct.error) as error:
        raise FileError(f"{name} is not a prompt saved by OmniVoice: {error}") from error


def _voice(found: object) -> VoicePrompt:
    if not isinstance(found, dict) or found.keys() != _KEYS:
        raise InputError(f"it must hold {', '.join(sorted(_KEYS))}")
    version, rms, codes = found["format_version"], found["ref_rms"], found["ref_audio_tokens"]
    if type(version) is not int or version != 1:
        raise InputError(f"format_version must be 1, got {shown(version)}")
    if not isinstance(codes, Tensor):
        raise InputError(f"ref_audio_tokens must be a tensor, got {shown(codes)}")
    if type(rms) not in (int, float):
        raise InputError(f"ref_rms must be a number, got {shown(rms)}")
    return VoicePrompt(check_codes(codes, CODEBOOK_SIZE), clean_voice_text(found["ref_text"]), rms)


def _zip_entries(data: bytes, name: str) -> dict[str, bytes]:
    """The zip's entries without their common folder; every size is checked before any entry is read."""
    if not data.startswith(b"PK\x03\x04"):
        raise FileError(f"{name} is not a prompt saved by OmniVoice: it is no zip archive (torch.save of torch >= 1.6)")
    if data.count(b"PK\x01\x02") > _MAX_ENTRIES:
        raise FileError(f"{name} is not a prompt saved by OmniVoice: it has more than {_MAX_ENTRIES} entries")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            _check_entries(infos, len(data), name)
            return {info.filename.split("/", 1)[1]: archive.read(info) for info in infos}
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        OSError,
        struct.error,
    ) as error:
        raise FileError(f"{name} is a damaged zip archive: {error}") from error


def _check_entries(infos: list[zipfile.ZipInfo], size: int, name: str) -> None:
    names = [info.filename for info in infos]
    odd = [entry for entry in names if not _ENTRY.fullmatch(entry)]
    if odd or len(set(names)) != len(names) or len({entry.split("/", 1)[0] for entry in names}) != 1:
        raise FileError(f"{name} is not a prompt saved by OmniVoice: its entries are not one (or {shown(odd[:1])})")
    if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
        raise FileError(f"{name} is not a prompt saved by OmniVoice: its entries are compressed or encrypted")
    if sum(info.file_size for info in infos) > size or any(info.file_size != info.compress_size for info in infos):
        raise FileError(f"{name} declares more data than it has: it is corrupt or hostile")


class _Program:
    """The few stack-machine instructions of such a data.pkl, read as data; anything else is an InputError."""

    def __init__(self, entries: Mapping[str, bytes]) -> None:
        self._entries = entries
        self._code = entries.get("data.pkl", b"")
        self._at = 0
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        if not 2 <= len(self._code) <= _MAX_PROGRAM_BYTES:
            raise InputError(f"its data.pkl must have 2-{_MAX_PROGRAM_BYTES} bytes, got {len(self._code)}")

    def run(self) -> object:
        """What the program leaves on the stack."""
        while (operation := self._take(1)) != b".":
            match operation:
                case b"\x80":  # protocol
                    self._take(1)
                case b"q" | b"r":  # remember the top
                    index = self._number("<B" if operation == b"q" else "<I")
                    self._memo[index] = self._top()
                case b"h" | b"j":  # recall
                    self._stack.append(self._recall(self._number("<B" if operation == b"h" else "<I")))
                case b"u":
                    self._set_items()
                case b"Q":
                    self._stack.append(self._storage(self._pop()))
                case b"R":
                    arguments, function = self._pop(), self._pop()
                    self._stack.append(self._call(function, arguments))
                case b"t":
                    self._stack.append(tuple(self._pop_to_mark()))
                case b"\x85" | b"\x86" | b"\x87":
                    items = [self._pop() for _ in range(operation[0] - 0x84)]
                    self._stack.append(tuple(reversed(items)))
                case _:
                    self._stack.append(self._literal(operation))
        return self._pop()

    def _literal(self, operation: bytes) -> object:
        match operation:
            case b"(":
                return _Mark()
            case b"}":
                return {}
            case b")":
                return ()
            case b"\x88" | b"\x89":
                return operation == b"\x88"
            case b"K":
                return self._number("<B")
            case b"M":
                return self._number("<H")
            case b"J":
                return self._number("<i")
            case b"G":
                return struct.unpack(">d", self._take(8))[0]
            case b"X":
                return self._take(self._number("<I")).decode("utf-8")
            case b"c":
                return _Name(f"{self._line()} {self._line()}")
        raise InputError(f"its data.pkl holds instruction 0x{operation.hex()}, which no prompt has")

    def _take(self, count: int) -> bytes:
        taken = self._code[self._at : self._at + count]
        if len(taken) != count:
            raise InputError("its data.pkl ends too early")
        self._at += count
        return taken

    def _number(self, layout: str) -> int:
        return int(struct.unpack(layout, self._take(struct.calcsize(layout)))[0])

    def _line(self) -> str:
        end = self._code.find(b"\n", self._at)
        if end < 0:
            raise InputError("its data.pkl ends too early")
        line = self._take(end - self._at).decode("ascii")
        self._take(1)
        return line

    def _pop(self) -> object:
        if not self._stack:
            raise InputError("its data.pkl is malformed")
        return self._stack.pop()

    def _top(self) -> object:
        top = self._pop()
        self._stack.append(top)
        return top

    def _recall(self, index: int) -> object:
        if index not in self._memo:
            raise InputError("its data.pkl is malformed")
        return self._memo[index]

    def _pop_to_mark(self) -> list[object]:
        items: list[object] = []
        while not isinstance(item := self._pop(), _Mark):
            items.append(item)
        return items[::-1]

    def _set_items(self) -> None:
        items = self._pop_to_mark()
        target = self._top()
        keys = items[0::2]
        if not isinstance(target, dict) or len(items) % 2 or not all(isinstance(key, str) for key in keys):
            raise InputError("its data.pkl is malformed")
        target.update(zip(keys, items[1::2], strict=True))

    def _storage(self, identity: object) -> _Storage:
        """("storage", type, key, device, number of elements) -> its bytes, if they are exactly that many."""
        match identity:
            case ("storage", _Name(kind), str(key), str(), int(count)) if kind in _STORAGES:
                record = self._entries.get(f"data/{key}", b"")
                dtype = _STORAGES[kind]
                if count < 1 or count * dtype.itemsize != len(record):
                    raise InputError(f"a tensor declares {shown(count)} elements but {len(record)} bytes are there")
                return _Storage(torch.frombuffer(bytearray(record), dtype=dtype))
        raise InputError("a tensor's data is not of a known kind (int64, int32 or int16)")

    def _call(self, function: object, arguments: object) -> object:
        match (function, arguments):
            case (_Name(text), ()) if text == _ORDERED:
                return {}
            case (_Name(text), (_Storage() as storage, int(offset), (int(K), int(T)), (int(row), int(step)), *_)):
                if text == _REBUILD:
                    return _view(storage.elements, offset, (K, T), (row, step))
        raise InputError("its data.pkl calls something no prompt needs")


def _view(elements: Tensor, offset: int, shape: tuple[int, int], strides: tuple[int, int]) -> Tensor:
    """A copy of the [K, T] view of `elements`, if it lies inside them."""
    K, T = shape
    last = offset + (K - 1) * strides[0] + (T - 1) * strides[1]
    if not 1 <= K <= MAX_CODEBOOKS or not 1 <= T <= MAX_VOICE_FRAMES:
        raise InputError(f"ref_audio_tokens must be [1-{MAX_CODEBOOKS}, 1-{MAX_VOICE_FRAMES}], got [{K}, {T}]")
    if min(offset, *strides) < 0 or last >= elements.numel():
        raise InputError(f"a tensor of shape {list(shape)} does not fit its {elements.numel()} elements")
    return elements.as_strided(shape, strides, offset).clone()
