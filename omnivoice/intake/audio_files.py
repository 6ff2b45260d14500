"""Audio files: any recording in, WAV files out.

libsndfile reads and writes them (`libsndfile`). What it cannot read, such as M4A, AAC, WebM and video, goes to PyAV
(`container_audio`). Both packages are imported where they are used. Nothing is resampled or mixed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path

from torch import Tensor

from ..errors import AudioError, FileError
from ..types import Waveform
from .container_audio import read_container
from .files import open_regular, write_parts_atomic
from .libsndfile import UnreadableAudio, encode_wav, is_for_libsndfile, read_with_libsndfile
from .limits import MAX_AUDIO_BYTES, too_large
from .marks import SYNTHETIC, Mark
from .paths import as_path, shown_name
from .riff import chapter_chunks, is_wav, mark_chunks, pcm16_head


def read_audio(
    path: str | PathLike[str], *, require_complete: bool = False, on_read: Callable[[], None] | None = None
) -> Waveform:
    """Read a recording as float32 [C, N] at its own sample rate; at most 600 s and 256 MiB once decoded.

    libsndfile reads WAV, FLAC, Ogg, MP3, AIFF and W64, PyAV everything else if it is installed. Integers are scaled by
    2^(bits-1); samples may be NaN if the file holds NaN. A file that is cut short or damaged is refused with
    `require_complete`; otherwise what it has is used, with a warning in the log. on_read is called again and again
    while the file is read and decoded, several times a second, and may raise to cancel. A file that takes much work
    but holds little audio is refused.
    Raises AudioError that says what to do, FileError if the file cannot be opened.
    """
    with open_regular(path) as (file, size):
        name = shown_name(path)
        if size == 0:
            raise AudioError(f"{name} is empty: record or export it again")
        reason = "it is not WAV, FLAC, Ogg, MP3 or AIFF"
        if is_for_libsndfile(file.read(12)):
            try:
                return read_with_libsndfile(file, size, name, require_complete=require_complete, on_read=on_read)
            except UnreadableAudio as error:
                reason = str(error)
        if size > MAX_AUDIO_BYTES:
            raise too_large(name, size)
        file.seek(0)
        return read_container(file, name, reason, require_complete=require_complete, on_read=on_read)


def check_wav_target(path: str | PathLike[str]) -> None:
    """Refuse a path that `write_wav` could not write to, with FileError and before any work is done.

    Refused: something other than a WAVE file is there, or the file or its folder is missing or write-protected.
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
    mark: Mark | None = SYNTHETIC,
    overwrite: bool = True,
) -> Path:
    """Write a WAVE file atomically and return the path written.

    subtype: "pcm16" (rounded to nearest, clipped to full scale) or "float32" (unchanged). mark: says that the speech is
    synthetic, None for no mark; it never touches the samples. An existing file is replaced only with `overwrite`, and
    only if it is a WAVE file. Raises AudioError for NaN or Inf, FileError if writing fails.
    """
    where = as_path(path)
    name = shown_name(where)
    if overwrite:
        check_wav_target(where)
    with encode_wav(waveform, subtype=subtype, tail=mark_chunks(mark), name=name).getbuffer() as data:
        return write_parts_atomic(where, (data,), size=len(data), overwrite=overwrite)


def fits_pcm16(waveform: Waveform) -> bool:
    """Whether every sample is a 16-bit one, so that a "pcm16" file keeps it as it is."""
    scaled = waveform.samples * 32768
    return bool(((scaled == scaled.round()) & (scaled >= -32768) & (scaled <= 32767)).all())


def write_long_wav(
    path: str | PathLike[str],
    pieces: Iterable[Tensor],
    *,
    samples: int,
    sample_rate: int,
    mark: Mark | None = SYNTHETIC,
    chapters: Sequence[tuple[int, str]] = (),
) -> Path:
    """Write a mono 16-bit WAVE file atomically with one piece in memory at a time, and return the path written.

    pieces: [N_i] int16, `samples` in all. mark: as in `write_wav`. chapters: (sample, label), which editors show. A
    WAVE file at `path` is replaced. Raises FileError, also for another number of samples.
    """
    where = as_path(path)
    check_wav_target(where)
    tail = mark_chunks(mark) + chapter_chunks(chapters)
    head = pcm16_head(samples, sample_rate, after=len(tail))

    def blocks() -> Iterator[bytes]:
        yield head
        count = 0
        for piece in pieces:
            count += len(piece)
            yield piece.numpy().astype("<i2", copy=False).tobytes()
        if count != samples:
            raise FileError(f"{shown_name(where)} would have {count} samples instead of {samples}: nothing is written")
        yield tail

    return write_parts_atomic(where, blocks(), size=len(head) + 2 * samples + len(tail))
