"""The boxes of an MP4, MOV or M4A file: its tables are checked before FFmpeg makes an index from them.

A table can give every sample the same size, and then a file of 12 kB describes 80 million samples, for which FFmpeg
takes 3 GB. It also reads millions of empty boxes one by one. So the boxes without audio are limited in number and size,
and so are the samples that they describe. Opens no file and decodes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import BinaryIO

import numpy as np

from ..errors import AudioError
from .cancel import cancellable
from .limits import MAX_MP4_BOXES, MAX_MP4_SAMPLES, MAX_MP4_TABLE_BYTES

# The boxes that FFmpeg takes for the start of such a file, and those of its fragments.
_FIRST = frozenset(
    b"ftyp moov mdat pnot udta ediw wide free junk pict skip uuid prfl styp moof sidx".split()  # names of boxes
)
_SOUND_HANDLERS = frozenset((b"soun", b"alis", b"url ", b"mdir", b"mdta"))  # its own, of references and of tags
_HEARD_EVERY = 1_024  # boxes, after which Cancel is asked for
_TABLES = re.compile(rb"trak|traf|hdlr|stts|stsc|stsz|stz2|stco|co64|trun|cmvd")


def is_mp4(head: bytes) -> bool:
    """Whether FFmpeg may take a file that starts with these 12 bytes for an MP4 or MOV file."""
    return head[4:8] in _FIRST


def check_boxes(file: BinaryIO, name: str) -> None:
    """Refuse an MP4 whose boxes are too many, or describe more samples than a recording has; raises AudioError.

    Leaves the file at its start.
    """
    size = file.seek(0, 2)
    described = 0
    for content in _contents(file, size, name):
        tables = [(at[0], at.end()) for at in islice(_TABLES.finditer(content), MAX_MP4_BOXES + 1)]
        if len(tables) > MAX_MP4_BOXES:
            raise _damaged(name, f"it has more than {MAX_MP4_BOXES} tables")
        for track in _tracks(tables):
            described += _entries(content, track, size, name)
        if described > MAX_MP4_SAMPLES:
            raise _damaged(name, f"its tables describe more than {MAX_MP4_SAMPLES} samples")
    file.seek(0)


def _contents(file: BinaryIO, size: int, name: str) -> Iterator[bytes]:
    """Yield the content of each box except those with the audio; also of the rest of a file whose boxes are damaged."""
    at, kept = 0, 0
    for _ in cancellable(range(MAX_MP4_BOXES), _HEARD_EVERY):
        file.seek(at)
        head = file.read(16)
        length, header = int.from_bytes(head[:4], "big"), 8
        if length == 1:
            length, header = int.from_bytes(head[8:16], "big"), 16
        end = min(at + length, size) if length >= header else size
        if head[4:8] != b"mdat":
            kept += end - at
            if kept > MAX_MP4_TABLE_BYTES:
                raise _damaged(name, f"it has more than {MAX_MP4_TABLE_BYTES} bytes that are not audio")
            file.seek(at)
            yield file.read(end - at)
        at = end
        if at >= size:
            return
    raise _damaged(name, f"it has more than {MAX_MP4_BOXES} parts")


def _tracks(tables: Sequence[tuple[bytes, int]]) -> Iterator[dict[bytes, list[int]]]:
    """Yield the tables of each track, and of what comes before the first, as {kind: positions of their content}."""
    found: dict[bytes, list[int]] = {}
    for kind, at in tables:
        if kind in (b"trak", b"traf"):
            yield found
            found = {}
        found.setdefault(kind, []).append(at)
    yield found


def _entries(data: bytes, track: Mapping[bytes, list[int]], size: int, name: str) -> int:
    """Return how many entries FFmpeg's index of a track may have. size: that of the file."""
    if b"cmvd" in track:
        raise _damaged(name, "its tables are compressed")
    if any(len(places) > 1 for kind, places in track.items() if kind not in (b"trun", b"hdlr")):
        raise _damaged(name, "it has two tables of one kind")

    def number(kind: bytes, offset: int) -> int:
        return sum(_number(data, at + offset) for at in track.get(kind, ()))

    fragments = number(b"trun", 4)
    samples = number(b"stsz", 8) + number(b"stz2", 8)
    chunks = number(b"stco", 4) + number(b"co64", 4)
    in_chunks = _in_chunks(data, track[b"stsc"][0], chunks) if b"stsc" in track else 0
    # Samples of PCM are described one by one, and FFmpeg makes one entry of up to 1024 that follow each other.
    handlers = {data[at + 8 : at + 12] for at in track.get(b"hdlr", ())}
    is_sound = b"soun" in handlers and handlers <= _SOUND_HANDLERS
    if is_sound and number(b"stts", 4) == number(b"stts", 12) == 1 and max(samples, in_chunks) <= size:
        return fragments + chunks + max(samples, in_chunks) // 1024
    return fragments + max(samples, in_chunks)


def _in_chunks(data: bytes, at: int, chunks: int) -> int:
    """Return how many samples a table of the samples in each of `chunks` chunks describes."""
    rows = min(_number(data, at + 4), max(0, len(data) - at - 8) // 12)
    if not rows:
        return 0
    firsts, counts = np.frombuffer(data, ">u4", 3 * rows, at + 8).reshape(rows, 3).astype(np.float64).T[:2]
    ends = np.minimum(np.append(firsts[1:], chunks + 1), chunks + 1)
    return int((np.maximum(ends - firsts, 0) * counts).sum())


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _damaged(name: str, what: str) -> AudioError:
    return AudioError(f"{name} is damaged: {what}; convert it to WAV, with ffmpeg -i {name} out.wav")
