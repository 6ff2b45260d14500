"""The chunks of WAV and AIFF files: where the samples start, and how many bytes of them the file claims to have; and
those of WAV files that are written piece by piece.

libsndfile reads the samples. It does not report that a file is cut short, and it believes a length of 0, which some
recorders write when they do not know the length. This module detects the first and repairs the second. Opens no file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast

from .marks import Mark

_MAX_CHUNKS = 1_000
_UNKNOWN = 0xFFFFFFFF
_STREAMED_BYTES = 0x7FFF_0000  # programs that stream write nearly 2 or 4 GB as the length


@dataclass(frozen=True)
class SampleChunk:
    """The chunk that holds the samples.

    start: position of its first byte. declared: its length in bytes according to the file. present: how many bytes
    follow. order: of the bytes in numbers, "little" or "big".
    """

    start: int
    declared: int
    present: int
    order: Literal["little", "big"]

    @property
    def is_cut(self) -> bool:
        """Whether bytes are missing."""
        return self.present < self.declared

    @property
    def is_streamed(self) -> bool:
        """Whether the writer did not know the length, so that it proves nothing."""
        return self.declared >= _STREAMED_BYTES


def is_wav(head: bytes) -> bool:
    """Whether a file that starts with these 12 bytes is a little-endian WAVE file."""
    return head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:12] == b"WAVE"


def find_samples(file: BinaryIO, size: int) -> SampleChunk | None:
    """Find the samples of an open WAV or AIFF file of `size` bytes; None for other files and damaged ones."""
    file.seek(0)
    head = file.read(12)
    if not is_wav(head) and head[:4] != b"FORM":
        return None
    order: Literal["little", "big"] = "big" if head[:4] == b"FORM" else "little"
    wanted = b"SSND" if order == "big" else b"data"
    position, long_size = 12, 0
    for _ in range(_MAX_CHUNKS):
        kind, length = _chunk_head(file, position, order)
        position += 8
        if kind == b"ds64":
            long_size = int.from_bytes(file.read(16)[8:16], "little")
        elif kind == wanted:
            declared = long_size or size - position if length == _UNKNOWN else length
            return SampleChunk(position, declared, max(0, size - position), order)
        elif not kind:
            break
        position += length + length % 2
    return None


def repaired(file: BinaryIO, chunk: SampleChunk | None) -> BinaryIO:
    """Return the file as libsndfile should see it. chunk: what `find_samples` returned for it.

    Two headers are changed: a length of 0 with samples after it, and BW64, the broadcasters' name for RF64. Lists of
    tags (LIST) are hidden in WAVE files: where a read returns nothing, libsndfile searches them for ever.
    """
    file.seek(0)
    head = file.read(12)
    changes = [(0, b"RF64")] if head.startswith(b"BW64") else []
    samples = range(0)
    if chunk is not None:
        is_stream = chunk.declared == 0 and not _only_chunks_follow(file, chunk)
        changes += [(chunk.start - 4, b"\xff" * 4)] if is_stream else []
        samples = range(chunk.start, chunk.start + (chunk.present if is_stream else chunk.declared))
    return cast(BinaryIO, _Changed(file, changes, samples)) if changes or is_wav(head) else file


class _Changed:
    """A file with other bytes at some positions, and with another name for the LIST chunks outside the samples.

    Its content is not copied. libsndfile reads the name of a chunk with one read.
    """

    def __init__(self, file: BinaryIO, changes: Sequence[tuple[int, bytes]], samples: range) -> None:
        self._file, self._changes, self._samples = file, changes, samples
        self.seek, self.tell = file.seek, file.tell

    def read(self, count: int = -1) -> bytes:
        at = self._file.tell()
        data = self._file.read(count)
        for position, new in self._changes:
            first, last = max(position, at), min(position + len(new), at + len(data))
            if first < last:
                data = data[: first - at] + new[first - position : last - position] + data[last - at :]
        return data if at in self._samples else data.replace(b"LIST", b"JUNK")


def pcm16_head(samples: int | None, sample_rate: int, *, before: bytes = b"", after: int = 0) -> bytes:
    """Return what a mono 16-bit WAV file starts with. samples: None for a stream whose length is not known yet.

    before: chunks that precede the samples, for a stream, which has none after them. after: bytes of the chunks that
    follow the samples.
    """
    size = _UNKNOWN if samples is None else 2 * samples
    whole = _UNKNOWN if samples is None else 36 + len(before) + size + after
    form = struct.pack("<HHIIHH", 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", whole)
        + b"WAVE"
        + _chunk(b"fmt ", form)
        + before
        + b"data"
        + struct.pack("<I", size)
    )


def mark_chunks(mark: Mark | None) -> bytes:
    """Return the chunks of a mark: its comment (LIST/INFO ICMT) and its XMP packet (_PMX); nothing for None."""
    if mark is None:
        return b""
    comment = _chunk(b"ICMT", mark.comment.encode() + b"\0")
    return _chunk(b"LIST", b"INFO" + comment) + _chunk(b"_PMX", mark.xmp())


def chapter_chunks(chapters: Sequence[tuple[int, str]]) -> bytes:
    """Return the chunks of chapters (sample, label): cue points with their labels; nothing without chapters."""
    if not chapters:
        return b""
    points = [struct.pack("<II4sIII", i, at, b"data", 0, 0, at) for i, (at, _) in enumerate(chapters, 1)]
    labels = [
        _chunk(b"labl", struct.pack("<I", i) + label.encode() + b"\0") for i, (_, label) in enumerate(chapters, 1)
    ]
    cues = _chunk(b"cue ", struct.pack("<I", len(chapters)) + b"".join(points))
    return cues + _chunk(b"LIST", b"adtl" + b"".join(labels))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _only_chunks_follow(file: BinaryIO, chunk: SampleChunk) -> bool:
    """Whether what follows the chunk is a chain of chunks, such as labels, and not the samples of a stream."""
    position, end = chunk.start, chunk.start + chunk.present
    for _ in range(_MAX_CHUNKS):
        if position >= end:
            return True
        kind, length = _chunk_head(file, position, chunk.order)
        position += 8 + length + length % 2
        if not (kind.isascii() and kind.decode().isprintable()) or position > end + 1:
            return False
    return False


def _chunk_head(file: BinaryIO, position: int, order: Literal["little", "big"]) -> tuple[bytes, int]:
    """Read the name and length of the chunk at `position`; the name is empty past the end."""
    file.seek(position)
    head = file.read(8)
    return (head[:4], int.from_bytes(head[4:], order)) if len(head) == 8 else (b"", 0)
