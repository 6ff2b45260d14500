"""Audio from files that libsndfile cannot read (M4A, AAC, WebM, video), through PyAV if it is installed.

FFmpeg can open network addresses: a playlist inside a file makes it fetch them. So it gets an open file, a list of
plain formats and no protocol. Decoded samples are counted as they arrive, because a header can claim any rate and 87 kB
can hold ten minutes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from ..errors import AudioError
from ..types import Waveform
from .limits import MIB, check_audio_layout, check_audio_size
from .mp4_boxes import check_boxes, is_mp4
from .sample_buffer import SampleBuffer
from .watched_file import WatchedFile

_LOG = logging.getLogger("omnivoice_nodes")
_MP4, _OTHERS = "mov", "wav,w64,aiff,flac,ogg,mp3,aac,matroska"  # FFmpeg's names of formats
_OLDEST_PYAV = (14, 2)  # the oldest that ComfyUI brings
# FFmpeg before PyAV 17.1 corrupts memory when it parses IAMF, which an MP4 announces with a box of this name.
_SAFE_IAMF_PYAV = (17, 1)
# From here on PyAV reads tags that are not UTF-8 by itself, and no longer takes the option for it.
_LENIENT_TAGS_PYAV = (19,)
# PyAV counts the planes of a frame up to a null pointer. FFmpeg has none after eight, and reading a ninth crashes.
_MOST_PLANES = 7
_IAMF_BOX = re.compile(rb"[\0-\x10].{3}iacb", re.DOTALL)


def read_container(
    file: BinaryIO, name: str, reason: str, *, require_complete: bool, on_read: Callable[[], None] | None = None
) -> Waveform:
    """Read the first audio stream of an open file as float32 [C, N]; reason: why libsndfile did not read it.

    Damaged packets are skipped with a warning; with `require_complete` they are refused. on_read is called at every
    read and packet and may raise to cancel. Raises AudioError.
    """
    av = _import_av(file, name, reason)
    if is_mp4(file.read(12)):
        check_boxes(file, name)
    file.seek(0)
    source = WatchedFile(file, name, on_read)
    try:
        waveform = _decode(av, source, name, require_complete=require_complete)
    except AudioError:
        source.check()
        raise
    except (av.error.FFmpegError, ValueError, EOFError) as error:
        source.check()
        raise AudioError(
            f"{name} cannot be decoded ({type(error).__name__}): convert it to WAV, with ffmpeg -i {name} out.wav"
        ) from error
    source.check()
    return waveform


def _import_av(file: BinaryIO, name: str, reason: str) -> ModuleType:
    advice = f"or convert it with ffmpeg -i {name} out.wav"
    try:
        import av
        import av.error
    except ImportError:
        raise AudioError(f"{name} cannot be read ({reason}): install PyAV (pip install av), {advice}") from None
    version = _version(av)
    if version < _OLDEST_PYAV:
        raise AudioError(
            f"{name} needs PyAV 14.2 or newer, got {av.__version__}: update it (pip install -U av), {advice}"
        )
    if version < _SAFE_IAMF_PYAV and _has_iamf(file):
        raise AudioError(
            f"{name} holds IAMF audio, for which PyAV {av.__version__} is too old to be safe: update it to 17.1 or "
            f"newer (pip install -U av), {advice}"
        )
    return av


def _version(av: ModuleType) -> tuple[int, ...]:
    return tuple(int(part) for part in av.__version__.split(".")[:2] if part.isdecimal())


def _has_iamf(file: BinaryIO) -> bool:
    """Whether the file contains the box that makes FFmpeg parse IAMF. Leaves the file at its start."""
    tail, found = b"", False
    while not found and (block := file.read(MIB)):
        found = _IAMF_BOX.search(tail + block) is not None
        tail = block[-7:]
    file.seek(0)
    return found


def _decode(av: ModuleType, source: WatchedFile, name: str, *, require_complete: bool) -> Waveform:
    """Decode the first audio stream; each piece is counted before it is kept."""
    samples: SampleBuffer | None = None
    damaged = 0
    layout = (0, 0)  # channels, sample rate
    packer: Any = None
    head = source.read(12)
    source.seek(0)
    options = {"format_whitelist": _MP4 if is_mp4(head) else _OTHERS, "protocol_whitelist": "none"}
    lenient = {} if _version(av) >= _LENIENT_TAGS_PYAV else {"metadata_errors": "replace"}
    with av.open(source, mode="r", options=options, **lenient) as container:
        if not container.streams.audio:
            raise AudioError(f"{name} contains no audio")
        for packet in container.demux(container.streams.audio[0]):
            try:
                decoded = packet.decode()
            except av.error.InvalidDataError:
                damaged += 1
                decoded = ()
            for frame in decoded:
                found = (len(frame.layout.channels), frame.sample_rate)
                if samples is None:
                    layout = check_audio_layout(name, *found)
                    samples = SampleBuffer(name, *layout)
                elif found != layout:
                    raise AudioError(f"{name} changes its sample rate or channels midway: convert it to WAV first")
                check_audio_size(name, samples.count + frame.samples, *layout)
                packer = packer or av.AudioResampler(format=frame.format.packed.name)
                for one in _readable(frame, packer):
                    samples.append(_to_float(one.to_ndarray(), layout[0], planar=one.format.is_planar, name=name))
            source.packet(sum(frame.samples for frame in decoded) * layout[0])
    if samples is None or not samples.count:
        raise AudioError(f"{name} contains no audio: it is damaged or empty")
    if damaged and require_complete:
        raise AudioError(f"{name} is damaged, {damaged} packets of audio cannot be read: copy or convert it again")
    if damaged:
        _LOG.warning("%s is damaged: %d packets of audio were skipped", name, damaged)
    return samples.take()


def _readable(frame: Any, packer: Any) -> list[Any]:
    """Return the frames that hold the samples of `frame`: itself, or packed ones if it has too many planes to read."""
    many = frame.format.is_planar and len(frame.layout.channels) > _MOST_PLANES
    return list(packer.resample(frame)) if many else [frame]


def _to_float(raw: np.ndarray, channels: int, *, planar: bool, name: str) -> np.ndarray:
    """Return a decoded piece, planar [C, n] or interleaved [1, n * C], as float32 [C, n], scaled as libsndfile does."""
    samples = raw if planar else raw.reshape(-1, channels).T
    if raw.dtype.kind == "f":
        return samples.astype(np.float32)
    if raw.dtype == np.uint8:
        return (samples.astype(np.float32) - 128) / 128
    if raw.dtype in (np.int16, np.int32):
        return samples.astype(np.float32) / np.float32(2 ** (8 * raw.itemsize - 1))
    raise AudioError(f"{name} decodes to samples of type {raw.dtype}: convert it to WAV first")
