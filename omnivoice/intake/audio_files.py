"""Audio files: any recording in, WAV files out.

What is unusual: WAVE is read by our own reader, so the usual case needs no package; everything else goes through
PyAV if the user installed it. FFmpeg is a network client by nature (a playlist inside a file makes it fetch), so it
gets our own open file, a list of plain formats, and no protocol at all; and what it decodes is counted as it comes,
since 87 kB of FLAC can hold ten minutes and a header can claim any rate. Nothing is resampled or mixed here.
"""

from __future__ import annotations

import logging
import os
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

import numpy as np
import torch

from ..errors import AudioError, FileError
from ..types import Waveform
from .files import open_regular, write_atomic
from .limits import MAX_AUDIO_BYTES, MAX_COMMENT_CHARS, MIB, check_audio_layout, check_audio_size
from .paths import as_path, shown_name
from .text_in import clean_text
from .wav import UnsupportedWav, is_wav, read_wav, render_wav

AI_COMMENT = "AI-generated speech (OmniVoice)"

_LOG = logging.getLogger("omnivoice_nodes")
_MIN_PYAV = (17, 1)  # earlier FFmpeg: memory corruption in its IAMF reader
_OPTIONS = (("format_whitelist", "wav,w64,aiff,flac,ogg,mp3,aac,mov,matroska"), ("protocol_whitelist", "none"))


def read_audio(path: str | PathLike[str], *, whole: bool = False) -> Waveform:
    """The recording in a file, as float32 [C, N] at its own sample rate; at most 600 s and 256 MB decoded.

    WAV needs nothing; FLAC, Ogg, Opus, MP3, AAC/M4A, AIFF and WebM need PyAV (pip install av). Samples may be NaN
    if the file holds NaN. whole: a file that is cut short or damaged is refused; else it is used, with a warning in the
    log. Raises AudioError that says what to do, FileError when the file cannot be opened.
    """
    with open_regular(path) as (file, size):
        name = shown_name(path)
        if size == 0:
            raise AudioError(f"{name} is empty: record or export it again")
        unread = f"{name} is not a WAV file"
        if is_wav(file.read(12)):
            try:
                return read_wav(file, size, name, whole=whole)
            except UnsupportedWav as error:
                unread = str(error)
        if size > MAX_AUDIO_BYTES:
            raise AudioError(f"{name} must be at most {MAX_AUDIO_BYTES // MIB} MB, got {size / MIB:.0f}: shorten it")
        file.seek(0)
        return _read_with_pyav(file, name, unread, whole=whole)


def _read_with_pyav(file: BinaryIO, name: str, unread: str, *, whole: bool) -> Waveform:
    av = _import_av(name, unread)
    try:
        return _decode(av, file, name, whole=whole)
    except AudioError:
        raise
    except (av.error.FFmpegError, ValueError, EOFError) as error:
        raise AudioError(
            f"{name} cannot be decoded ({type(error).__name__}): convert it to WAV, with ffmpeg -i {name} out.wav"
        ) from error


def _import_av(name: str, unread: str) -> ModuleType:
    try:
        import av
        import av.error
    except ImportError:
        raise AudioError(
            f"{unread}: install PyAV (pip install av), or convert it with ffmpeg -i {name} out.wav"
        ) from None
    version = tuple(int(part) for part in av.__version__.split(".")[:2] if part.isdecimal())
    if version < _MIN_PYAV:
        raise AudioError(
            f"{unread}, and PyAV {av.__version__} is too old to be safe: pip install -U av (17.1 or newer)"
        )
    return av


def _decode(av: ModuleType, file: BinaryIO, name: str, *, whole: bool) -> Waveform:
    """Every frame of the first audio stream, counted before it is kept; damaged packets are skipped with a warning, or
    refused."""
    pieces: list[np.ndarray] = []
    frames, damaged = 0, 0
    layout = (0, 0)  # channels, sample rate
    with av.open(file, mode="r", options=dict(_OPTIONS), metadata_errors="replace") as container:
        if not container.streams.audio:
            raise AudioError(f"{name} contains no sound")
        for packet in container.demux(container.streams.audio[0]):
            try:
                decoded = packet.decode()
            except av.error.InvalidDataError:
                damaged += 1
                continue
            for frame in decoded:
                found = (len(frame.layout.channels), frame.sample_rate)
                if not pieces:
                    layout = check_audio_layout(name, *found)
                elif found != layout:
                    raise AudioError(f"{name} changes its sample rate or channels midway: convert it to WAV first")
                frames += frame.samples
                check_audio_size(name, frames, *layout)
                pieces.append(_to_float(frame.to_ndarray(), layout[0], planar=frame.format.is_planar, name=name))
    if not frames:
        raise AudioError(f"{name} contains no sound: it is damaged or empty")
    if damaged and whole:
        raise AudioError(f"{name} is damaged, {damaged} packets of sound cannot be read: copy or convert it again")
    if damaged:
        _LOG.warning("%s is damaged: %d packets of sound were skipped", name, damaged)
    return Waveform(torch.from_numpy(np.concatenate(pieces, axis=1)), layout[1])


def _to_float(raw: np.ndarray, channels: int, *, planar: bool, name: str) -> np.ndarray:
    """A decoded frame, planar [C, n] or interleaved [1, n * C], as float32 [C, n], scaled as `wav` scales."""
    samples = raw if planar else raw.reshape(-1, channels).T
    if raw.dtype.kind == "f":
        return samples.astype(np.float32)
    if raw.dtype == np.uint8:
        return (samples.astype(np.float32) - 128) / 128
    if raw.dtype in (np.int16, np.int32):
        return samples.astype(np.float32) / np.float32(2 ** (8 * raw.itemsize - 1))
    raise AudioError(f"{name} decodes to samples of type {raw.dtype}: convert it to WAV first")


def check_wav_target(path: str | PathLike[str]) -> None:
    """Refuse, with FileError and before any work is done, a path that `write_wav` could not write to.

    Something else than a WAVE file is there, or the file or its folder is missing or write-protected.
    """
    where = as_path(path)
    name = shown_name(where)
    if not os.path.isdir(where.parent):
        raise FileError(f"folder {shown_name(where.parent)} does not exist: make it first")
    if os.path.lexists(where):
        with open_regular(where) as (file, _):
            if not is_wav(file.read(12)):
                raise FileError(f"{name} exists and is not a WAV file: choose another name")
    if not os.access(where if os.path.lexists(where) else where.parent, os.W_OK):
        raise FileError(f"cannot write {name}: the folder or file is write-protected: choose another folder")


def write_wav(
    path: str | PathLike[str],
    waveform: Waveform,
    *,
    subtype: str = "pcm16",
    comment: str | None = AI_COMMENT,
    overwrite: bool = True,
) -> Path:
    """Write a WAVE file atomically and return the path written.

    subtype: "pcm16" (rounded to nearest, clipped to full scale) or "float32" (as it is). comment: a line of text that
    the file carries (LIST/INFO ICMT), None for none; it never touches the samples. An existing file is replaced only
    with `overwrite`, and only when it is a WAVE file. Raises AudioError for NaN or Inf, FileError when writing fails.
    """
    where = as_path(path)
    name = shown_name(where)
    if overwrite:
        check_wav_target(where)
    line = None if comment is None else clean_text(comment, name="comment", limit=MAX_COMMENT_CHARS)
    return write_atomic(where, render_wav(waveform, subtype=subtype, comment=line, name=name), overwrite=overwrite)
