"""RIFF/WAVE as bytes: one reader and one writer.

What is unusual: the reader takes what recorders and streams really write (data sizes of 0 or 0xFFFFFFFF, a file cut
short, RF64, WAVE_FORMAT_EXTENSIBLE) and converts piece by piece, within the limits of `limits`; the writer labels
its files in a LIST/INFO chunk after the samples, where readers that expect them at byte 44 are not disturbed.
PCM of 8, 16, 24, 32 bits and float of 32, 64 bits; no compressed format. Opens no file.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import torch

from ..errors import AudioError
from ..types import Waveform
from .limits import check_audio_layout, check_audio_size

_LOG = logging.getLogger("omnivoice_nodes")
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")  # after the two bytes that name the format
_WIDTHS: Mapping[str, int] = MappingProxyType({"pcm16": 2, "float32": 4})
_MAX_DATA_BYTES = 0xFFFFFFFF - (1 << 16)  # room for the other chunks
_MAX_CHUNKS = 1_000
STREAMED_BYTES = 0x7FFF_0000  # what programs write that do not know the length: nearly 2 or 4 GB
_PIECE_FRAMES = 1 << 16


class UnsupportedWav(AudioError):
    """A WAV file in a format this reader does not know, such as ADPCM; another decoder may."""


@dataclass(frozen=True)
class _Format:
    is_float: bool
    channels: int
    sample_rate: int
    sample_bytes: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.sample_bytes


def is_wav(head: bytes) -> bool:
    """Whether a file that begins with these 12 bytes is a little-endian WAVE file."""
    return head[:4] in (b"RIFF", b"RF64", b"BW64") and head[8:12] == b"WAVE"


def read_wav(file: BinaryIO, size: int, name: str, *, whole: bool = False) -> Waveform:
    """The samples of an open WAVE file of `size` bytes, as float32 [C, N] in -1..1; integers are scaled by 2^(bits-1).

    Raises AudioError for a file that is damaged, empty or beyond the limits, UnsupportedWav for another coding.
    A file cut short yields the whole frames it has, with a warning in the log; whole: it is refused, unless it was
    streamed, so that its writer could not know the length.
    """
    layout, start, declared = _find_data(file, size, name)
    present = size - start
    if whole and present < declared < STREAMED_BYTES:
        raise AudioError(f"{name} is cut short, {present} of {declared} bytes of sound are there: copy it again")
    if declared > present:
        _LOG.warning("%s is cut short: %d of %d bytes of sound are there", name, present, declared)
    frames = min(declared, present) // layout.frame_bytes
    if frames == 0:
        raise AudioError(f"{name} contains no sound: record or export it again")
    check_audio_size(name, frames, layout.channels, layout.sample_rate)
    samples = np.empty((layout.channels, frames), dtype=np.float32)
    file.seek(start)
    for first in range(0, frames, _PIECE_FRAMES):
        count = min(_PIECE_FRAMES, frames - first)
        piece = file.read(count * layout.frame_bytes)
        if len(piece) != count * layout.frame_bytes:
            raise AudioError(f"{name} changed while it was read: try again")
        samples[:, first : first + count] = _to_float(piece, layout).reshape(count, layout.channels).T
    return Waveform(torch.from_numpy(samples), layout.sample_rate)


def _find_data(file: BinaryIO, size: int, name: str) -> tuple[_Format, int, int]:
    """(format, where the samples begin, how many bytes the file says they take)."""
    layout: _Format | None = None
    long_size: int | None = None
    position = 12
    for _ in range(_MAX_CHUNKS):
        file.seek(position)
        head = file.read(8)
        if len(head) < 8:
            break
        kind, length = head[:4], int.from_bytes(head[4:], "little")
        position += 8
        if kind == b"fmt ":
            layout = _parse_format(file.read(min(length, 40)), name)
        elif kind == b"ds64":
            long_size = int.from_bytes(file.read(16)[8:16], "little")
        elif kind == b"data":
            if layout is None:
                raise AudioError(f"{name} is a damaged WAV file: its samples come before their format")
            if length == 0xFFFFFFFF and long_size:
                length = long_size
            unknown = length == 0xFFFFFFFF or (length == 0 and not _only_chunks(file, position, size))
            return layout, position, size - position if unknown else length
        position += length + length % 2
    raise AudioError(f"{name} is a damaged WAV file: it has no samples")


def _only_chunks(file: BinaryIO, position: int, size: int) -> bool:
    """Whether the rest of the file is a chain of chunks, such as labels, and not the samples of a stream."""
    for _ in range(_MAX_CHUNKS):
        if position >= size:
            return True
        file.seek(position)
        head = file.read(8)
        length = int.from_bytes(head[4:], "little")
        position += 8 + length + length % 2
        if not (head[:4].isascii() and head[:4].decode().isprintable()) or position > size + 1:
            return False
    return False


def _parse_format(chunk: bytes, name: str) -> _Format:
    if len(chunk) < 16:
        raise AudioError(f"{name} is a damaged WAV file: its format description is too short")
    tag, channels, rate, _, frame_bytes, bits = struct.unpack("<HHIIHH", chunk[:16])
    if tag == _EXTENSIBLE and len(chunk) == 40 and chunk[26:] == _GUID_TAIL:
        tag = int.from_bytes(chunk[24:26], "little")
    check_audio_layout(name, channels, rate)
    # The container decides, not the bits that are valid in it: 20 bits lie in the upper part of three bytes.
    sample_bytes = frame_bytes // channels if frame_bytes else (bits + 7) // 8
    known = (tag == _PCM and sample_bytes in (1, 2, 3, 4)) or (tag == _FLOAT and sample_bytes in (4, 8))
    if not known or frame_bytes % channels or not 1 <= bits <= 8 * sample_bytes:
        raise UnsupportedWav(f"{name} is a WAV file of format {tag} with {bits} bits, which is not read directly")
    return _Format(tag == _FLOAT, channels, rate, sample_bytes)


def _to_float(raw: bytes, layout: _Format) -> np.ndarray:
    """Interleaved samples as float32, integers scaled by the power of two that is their range."""
    if layout.is_float:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes Inf, and is refused where it matters
            return np.frombuffer(raw, dtype=f"<f{layout.sample_bytes}").astype(np.float32)
    if layout.sample_bytes == 1:
        return (np.frombuffer(raw, dtype=np.uint8).astype(np.float32) - 128) / 128
    if layout.sample_bytes == 3:
        wide = np.zeros((len(raw) // 3, 4), dtype=np.uint8)
        wide[:, 1:] = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 3)
        return wide.view("<i4").reshape(-1).astype(np.float32) / np.float32(2**31)
    integers = np.frombuffer(raw, dtype=f"<i{layout.sample_bytes}")
    return integers.astype(np.float32) / np.float32(2 ** (8 * layout.sample_bytes - 1))


def render_wav(waveform: Waveform, *, subtype: str, comment: str | None, name: str) -> bytes:
    """The bytes of a WAVE file; see `audio_files.write_wav`. Raises AudioError for samples that are not finite."""
    C, N = waveform.samples.shape
    if subtype not in _WIDTHS:
        raise AudioError(f"subtype must be {' or '.join(_WIDTHS)}, got {subtype!r}")
    if N * C * _WIDTHS[subtype] > _MAX_DATA_BYTES:
        raise AudioError(f"{name} would be larger than the 4 GiB a WAV file can hold: write it in parts")
    if not bool(torch.isfinite(waveform.samples).all()):
        raise AudioError(f"{name} is not written: the sound holds NaN or Inf")
    interleaved = waveform.samples.T.contiguous().numpy()  # [N, C]
    width = _WIDTHS[subtype]
    if subtype == "pcm16":
        # 2^15 is also what the reader divides by, so 16-bit sound survives exactly. In place: it can be an hour.
        scaled = np.multiply(interleaved, np.float32(32768))
        np.rint(scaled, out=scaled)
        np.clip(scaled, -32768, 32767, out=scaled)
        data, tag = scaled.astype("<i2").tobytes(), _PCM
    else:
        data, tag = interleaved.astype("<f4").tobytes(), _FLOAT
    rate = waveform.sample_rate
    layout = struct.pack("<HHIIHH", tag, C, rate, rate * C * width, C * width, 8 * width)
    chunks = [_chunk(b"fmt ", layout if tag == _PCM else layout + b"\0\0")]
    chunks += [] if tag == _PCM else [_chunk(b"fact", struct.pack("<I", N))]
    chunks += [_chunk(b"data", data)]
    chunks += [] if comment is None else [_chunk(b"LIST", b"INFO" + _chunk(b"ICMT", comment.encode() + b"\0"))]
    length = 4 + sum(map(len, chunks))
    return b"".join([b"RIFF", length.to_bytes(4, "little"), b"WAVE", *chunks])


def _chunk(kind: bytes, body: bytes) -> bytes:
    return kind + len(body).to_bytes(4, "little") + body + b"\0" * (len(body) % 2)
