"""Read prompts that upstream saved (.pt), for `voice import` on the command line.

Nothing is unpickled. Such a file is a zip archive whose data.pkl is a program for the pickle machine. `pickletools`
splits it into instructions, and this file executes, on plain values, the few that upstream's `VoiceClonePrompt.save`
uses (models/omnivoice.py:130, format_version 1). It calls nothing that the program names, and checks sizes before it
builds anything. Other .pt files, such as checkpoints, are refused.
"""

from __future__ import annotations

import pickletools  # nosec B403 # splits a pickle into its instructions and executes none
import re
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType

import numpy as np
import torch

from ..errors import FileError, InputError
from ..intake.archives import read_archive
from ..intake.limits import CODEBOOK_SIZE, MAX_CODEBOOKS, MAX_PROMPT_BYTES, MAX_VOICE_FRAMES, shown
from ..intake.paths import shown_name
from ..intake.voice_files import check_codes, clean_voice_text
from ..voice import VoicePrompt

_MAX_PROGRAM_BYTES = 16 << 10  # a prompt has about 300, and its text
_MAX_INSTRUCTIONS = 500  # a prompt has about 60
_ENTRY = re.compile(
    r"[^/\\]{1,120}/(data\.pkl|data/\d{1,3}|version|byteorder|\.format_version|\.storage_alignment"
    r"|\.data/serialization_id)"
)
_KEYS = {"format_version", "ref_audio_tokens", "ref_text", "ref_rms"}
_REBUILD, _ORDERED = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
_STORAGES: Mapping[str, str] = MappingProxyType(
    {"torch LongStorage": "<i8", "torch IntStorage": "<i4", "torch ShortStorage": "<i2"}
)
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """Something that the program names by module and attribute. It is never looked up."""

    text: str


def read_upstream_prompt(path: str | PathLike[str]) -> VoicePrompt:
    """Return the voice in a prompt that upstream saved with torch.save; raises FileError for anything else."""
    name = shown_name(path)
    entries = read_archive(path, limit=MAX_PROMPT_BYTES, entry=_ENTRY, kind="prompt saved by OmniVoice")
    if entries.get("byteorder", b"little") != b"little":
        raise FileError(f"{name} was saved on a big-endian machine: save the prompt again on another one")
    try:
        return _voice(_Program(entries).run())
    except LookupError:  # an empty stack, or nothing remembered under a number
        raise FileError(f"{name} is not a prompt saved by OmniVoice: its data.pkl is malformed") from None
    except ValueError as error:  # InputError and what pickletools raises
        raise FileError(f"{name} is not a prompt saved by OmniVoice: {str(error)[:200]}") from error


def _voice(found: object) -> VoicePrompt:
    if not isinstance(found, dict) or found.keys() != _KEYS:
        raise InputError(f"it must hold {', '.join(sorted(_KEYS))}")
    version, rms, tokens = found["format_version"], found["ref_rms"], found["ref_audio_tokens"]
    if type(version) is not int or version != 1:
        raise InputError(f"format_version must be 1, got {shown(version)}")
    if not isinstance(tokens, np.ndarray):
        raise InputError(f"ref_audio_tokens must be a tensor, got {shown(tokens)}")
    if type(rms) not in (int, float):
        raise InputError(f"ref_rms must be a number, got {shown(rms)}")
    codes = torch.from_numpy(tokens.astype(np.int64))
    return VoicePrompt(check_codes(codes, CODEBOOK_SIZE), clean_voice_text(found["ref_text"]), rms)


class _Program:
    """The instructions of a data.pkl. `run` raises InputError, ValueError or LookupError if it is not a prompt's."""

    def __init__(self, entries: Mapping[str, bytes]) -> None:
        self._entries = entries
        self._stack: list[object] = []
        self._memo: dict[object, object] = {}

    def run(self) -> object:
        """Return what the program leaves on the stack."""
        code = self._entries.get("data.pkl", b"")
        if not 2 <= len(code) <= _MAX_PROGRAM_BYTES:
            raise InputError(f"its data.pkl must have 2-{_MAX_PROGRAM_BYTES} bytes, got {len(code)}")
        for number, (instruction, argument, _) in enumerate(pickletools.genops(code)):
            if number >= _MAX_INSTRUCTIONS:
                raise InputError(f"its data.pkl has more than {_MAX_INSTRUCTIONS} instructions")
            if instruction.name == "STOP":
                break
            self._step(instruction.name, argument)
        return self._stack.pop()

    def _step(self, name: str, argument: object) -> None:
        stack = self._stack
        match name:
            case "PROTO":
                return
            case "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "SETITEMS":
                items, target = self._pop_to_mark(), stack[-1]
                keys, values = items[0::2], items[1::2]
                if not isinstance(target, dict) or len(items) % 2 or not all(isinstance(key, str) for key in keys):
                    raise InputError("its data.pkl is malformed")
                target.update(zip(keys, values))
            case "BINPERSID":
                stack.append(self._storage(stack.pop()))
            case "REDUCE":
                arguments = stack.pop()
                stack.append(_call(stack.pop(), arguments))
            case "MARK":
                stack.append(_MARK)
            case "TUPLE":
                stack.append(tuple(self._pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                items = [stack.pop() for _ in range(int(name[-1]))]
                stack.append(tuple(reversed(items)))
            case "EMPTY_TUPLE" | "EMPTY_DICT":
                stack.append(() if name == "EMPTY_TUPLE" else {})
            case "NEWTRUE" | "NEWFALSE":
                stack.append(name == "NEWTRUE")
            case "GLOBAL":
                stack.append(_Name(str(argument)))
            case "BININT1" | "BININT2" | "BININT" | "BINFLOAT" | "BINUNICODE":
                stack.append(argument)
            case _:
                raise InputError(f"its data.pkl holds the instruction {name}, which no prompt contains")

    def _pop_to_mark(self) -> list[object]:
        items: list[object] = []
        while (item := self._stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def _storage(self, identity: object) -> np.ndarray:
        """Return ("storage", type, key, device, number of elements) as a view of its record, if the sizes agree."""
        match identity:
            case ("storage", _Name(kind), str(key), str(), int(count)) if kind in _STORAGES:
                record, dtype = self._entries.get(f"data/{key}", b""), np.dtype(_STORAGES[kind])
                if count < 1 or count * dtype.itemsize != len(record):
                    raise InputError(f"a tensor declares {shown(count)} elements but {len(record)} bytes are there")
                return np.frombuffer(record, dtype)
        raise InputError("a tensor's data is not of a known kind (int64, int32 or int16)")


def _call(function: object, arguments: object) -> object:
    """Return the result of the two calls that a prompt holds: of OrderedDict, and of what rebuilds a tensor."""
    match (function, arguments):
        case (_Name(text), ()) if text == _ORDERED:
            return {}
        case (_Name(text), (np.ndarray() as storage, int(offset), (int(K), int(T)), (int(row), int(step)), *_)):
            if text == _REBUILD and storage.ndim == 1:
                return _view(storage, offset, (K, T), (row, step))
    raise InputError("its data.pkl calls something no prompt needs")


def _view(storage: np.ndarray, offset: int, shape: tuple[int, int], strides: tuple[int, int]) -> np.ndarray:
    """Return a [K, T] view of a storage. offset, strides: in elements; they must stay inside the storage."""
    K, T = shape
    last = offset + (K - 1) * strides[0] + (T - 1) * strides[1]
    if not 1 <= K <= MAX_CODEBOOKS or not 1 <= T <= MAX_VOICE_FRAMES:
        raise InputError(f"ref_audio_tokens must be [1-{MAX_CODEBOOKS}, 1-{MAX_VOICE_FRAMES}], got [{K}, {T}]")
    if min(offset, *strides) < 0 or last >= len(storage):
        raise InputError(f"a tensor of shape {list(shape)} does not fit its {len(storage)} elements")
    size = storage.itemsize
    return np.ndarray(shape, storage.dtype, storage, offset * size, (strides[0] * size, strides[1] * size))
