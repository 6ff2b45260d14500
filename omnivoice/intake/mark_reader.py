"""Reading marks of synthetic speech from files of any kind, ours and those of other programs.

The start and the end of a file are searched for texts that no sound contains by chance, whatever tag holds them: an
address of IPTC's vocabulary, our comments, the nodes of this pack in a workflow that ComfyUI stored, and the identifier
of a C2PA manifest. Nothing is decoded or parsed, and no claim is verified.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

from .files import open_regular
from .limits import MIB
from .marks import DIGITAL_SOURCE, EDITED, SYNTHETIC, Mark

_SEARCHED_BYTES = 4 * MIB  # at the start, and at the end
_MOST = 20  # different terms or nodes that are returned
_ADDRESS = DIGITAL_SOURCE.partition("://")[2].encode()
_SOURCE = re.compile(re.escape(_ADDRESS) + rb"([A-Za-z]{1,60})")
_WIDE_SOURCE = re.compile(  # UTF-16 of either order, as in ID3 tags
    b"".join(re.escape(bytes([byte])) + rb"\0" for byte in _ADDRESS) + rb"((?:[A-Za-z]\0){0,59}[A-Za-z])"
)
_NODE = re.compile(rb'"(?:class_type|type)": ?"((?:Load)?OmniVoice[A-Za-z]{0,40})"')
_C2PA = bytes.fromhex("6332706100110010800000aa00389b71")  # of a manifest store (C2PA specification, "JUMBF")


@dataclass(frozen=True)
class AudioMarks:
    """What a file says. sources: terms of IPTC's vocabulary. comments: ours. nodes: of this pack, in a workflow.
    has_c2pa: whether it holds a C2PA manifest."""

    sources: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    has_c2pa: bool = False


def read_marks(path: str | PathLike[str]) -> AudioMarks:
    """Return the marks of a file of any kind; raises FileError if it cannot be read."""
    with open_regular(path) as (file, size):
        data = file.read(_SEARCHED_BYTES)
        file.seek(max(len(data), size - _SEARCHED_BYTES))
        parts = (data, file.read(_SEARCHED_BYTES)) if size > 2 * _SEARCHED_BYTES else (data + file.read(),)
    return AudioMarks(
        tuple(sorted({*_found(_SOURCE, parts), *_found(_WIDE_SOURCE, parts)})),
        tuple(mark.comment for mark in (SYNTHETIC, EDITED) if any(_holds(part, mark.comment) for part in parts)),
        _found(_NODE, parts),
        any(_C2PA in part for part in parts),
    )


def mark_of_edit(path: str | PathLike[str]) -> Mark:
    """Return the mark of an edit of a file: that of synthetic speech if the file itself has it, else that of edits."""
    return SYNTHETIC if SYNTHETIC.source in read_marks(path).sources else EDITED


def _holds(data: bytes, text: str) -> bool:
    """Whether data holds an ASCII text, in UTF-8 or in UTF-16 of either order."""
    return text.encode() in data or text.encode("utf-16-le")[:-1] in data


def _found(pattern: re.Pattern[bytes], parts: Sequence[bytes]) -> tuple[str, ...]:
    """Return what the pattern's group matches, without repeats, sorted; at most `_MOST` of them."""
    found: set[str] = set()
    for part in parts:
        for match in pattern.finditer(part):
            if len(found) < _MOST:
                found.add(match[1].replace(b"\0", b"").decode())
    return tuple(sorted(found))
