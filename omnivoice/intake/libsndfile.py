"""Audio through libsndfile (the package soundfile): WAV, FLAC, Ogg, MP3, AIFF and W64 in, WAV out.

The limits are checked before a sample is decoded, and decoding is block by block. libsndfile believes what a header
says about the length, so this module also looks whether the file holds less than that, or more. Opens no file.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from types import MappingProxyType, ModuleType
from typing import Any, BinaryIO

import numpy as np
import torch

from ..errors import AudioError
from ..types import Waveform
from .limits import check_audio_layout, check_audio_size
from .riff import find_samples, is_wav, repaired
from .sample_buffer import SampleBuffer
from .watched_file import WatchedFile

SUBTYPES = MappingProxyType({"pcm16": ("PCM_16", 2), "float32": ("FLOAT", 4)})  # libsndfile's name, bytes per sample

_LOG = logging.getLogger("omnivoice_nodes")
_BLOCK_FRAMES = 1 << 16
_UNKNOWN_FRAMES = 1 << 62  # libsndfile reports at least this many for a stream whose length nobody wrote down
_OTHER_KIND = (1, 4)  # libsndfile's codes for a format and an encoding that it does not know
_MAX_WAV_BYTES = 0xFFFFFFFF - (1 << 16)  # leaves room for the other chunks
# How more audio begins after the last sample that libsndfile reads: a second stream, or a header that counts too few.
_MORE_AUDIO = MappingProxyType(
    {
        "MP3": re.compile(rb"\A(?:\xff[\xe0-\xff]|ID3)"),
        "OGG": re.compile(rb"OggS"),
        "FLAC": re.compile(rb"\xff[\xf8\xf9]"),
    }
)


# Where the channels of WAV are among those of Vorbis and Opus, which libsndfile leaves in their own order: 5.1, 7.1.
_OGG_ORDER = MappingProxyType({6: (0, 2, 1, 5, 3, 4), 8: (0, 2, 1, 7, 5, 6, 3, 4)})


class UnreadableAudio(Exception):
    """libsndfile cannot read a file; the message is the reason. Another decoder may."""


def is_for_libsndfile(head: bytes) -> bool:
    """Whether a file that starts with these 12 bytes is of a kind that libsndfile may try; it knows many others."""
    if is_wav(head) or head[:4] in (b"fLaC", b"OggS", b"riff") or head[:3] == b"ID3":
        return True
    if head[:4] == b"FORM":
        return head[8:12] in (b"AIFF", b"AIFC")
    # MPEG audio: eleven bits of sync, then the version and a layer that is not 0, which AAC has.
    return len(head) > 1 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[1] & 0x06 != 0


def read_with_libsndfile(
    file: BinaryIO, size: int, name: str, *, require_complete: bool, on_read: Callable[[], None] | None = None
) -> Waveform:
    """Read an open file of `size` bytes as float32 [C, N].

    Raises AudioError for a file that is damaged, empty or beyond the limits, UnreadableAudio for one that PyAV may
    read. A file that is cut short is refused with `require_complete`, otherwise read with a warning in the log.
    on_read is called at every read and may raise to cancel.
    """
    soundfile = _import_soundfile(f"reading {name}")
    chunk = find_samples(file, size)
    file = repaired(file, chunk)
    file.seek(0)
    head = file.read(4)
    has_chunks = head in (b"RIFF", b"RF64", b"FORM")
    # Of an MP3 that does not say how long it is, libsndfile guesses the length from the size of the file.
    is_guess = head[:1] in (b"I", b"\xff") and not _is_length_written(file)
    file.seek(0)
    source, kind = WatchedFile(file, name, on_read), ""
    try:
        with soundfile.SoundFile(source) as sound:
            kind = sound.format
            waveform, announced = _decode(sound, source, name, is_guess=is_guess)
    except soundfile.LibsndfileError as error:
        source.check()
        reason = f"libsndfile: {error.error_string.strip(' .')}"
        # PyAV may read what has no chunks. But what fails halfway is damaged, or else an MP3 with a tag at its end.
        if error.code not in _OTHER_KIND if has_chunks else require_complete and kind not in ("", "MP3"):
            raise AudioError(f"{name} is a damaged audio file ({reason}): copy it again") from error
        raise UnreadableAudio(reason) from error
    except AudioError:
        source.check()
        raise
    source.check()
    if kind in _MORE_AUDIO and _MORE_AUDIO[kind].search(file.read(_BLOCK_FRAMES)):
        raise UnreadableAudio("it holds more audio than its header announces")
    N = waveform.samples.shape[1]
    if N == 0:
        raise AudioError(f"{name} contains no audio: record or export it again")
    if chunk is not None and chunk.is_cut and not (require_complete and chunk.is_streamed):
        announced = round(N * chunk.declared / max(1, chunk.present))
    if announced > N and require_complete:
        raise AudioError(f"{name} is cut short: {N} of {announced} samples are there: copy it again")
    if announced > N:
        _LOG.warning("%s is cut short: %d of %d samples are there", name, N, announced)
    return waveform


def _import_soundfile(action: str) -> ModuleType:
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the package is there, its library is not
        raise AudioError(
            f"{action} needs the package soundfile ({type(error).__name__}): install it with pip install soundfile"
        ) from None
    return soundfile


def _decode(sound: Any, source: WatchedFile, name: str, *, is_guess: bool) -> tuple[Waveform, int]:
    """Decode block by block within the limits; return the audio and the announced number of samples per channel.

    sound: a soundfile.SoundFile that reads `source`. The number is 0 for streams of unknown length, and with
    `is_guess`, which says that the length in `sound` is not to be trusted.
    """
    sound.seekable = lambda: False  # else soundfile seeks after every block, which garbles MP3
    C, rate = check_audio_layout(name, sound.channels, sound.samplerate)
    announced = 0 if is_guess or sound.frames >= _UNKNOWN_FRAMES else sound.frames
    check_audio_size(name, announced, C, rate)
    order = _OGG_ORDER.get(C) if sound.format == "OGG" else None
    samples = SampleBuffer(name, C, rate, announced)
    while samples.room:
        block = sound.read(min(_BLOCK_FRAMES, samples.room), dtype="float32", always_2d=True)  # [n, C]
        if not len(block):
            break
        samples.append(block.T, order)
        source.found(block.size)
    return samples.take(), announced


def _is_length_written(mp3: BinaryIO) -> bool:
    """Whether the first MPEG frame is a Xing header, which says how many follow."""
    mp3.seek(0)
    head = mp3.read(10)
    tag = sum((byte & 0x7F) << shift for byte, shift in zip(head[6:], (21, 14, 7, 0))) + 10
    mp3.seek(tag if head[:3] == b"ID3" else 0)
    first = mp3.read(512)
    return b"Xing" in first or b"Info" in first


def to_pcm16(samples: np.ndarray) -> np.ndarray:
    """Return float32 samples as int16, rounded to the nearest step and clipped to full scale.

    2^15 is also what the reader divides by, so 16-bit audio survives exactly.
    """
    return np.clip(np.rint(samples * np.float32(32768)), -32768, 32767).astype(np.int16)


def encode_wav(waveform: Waveform, *, subtype: str, tail: bytes, name: str) -> io.BytesIO:
    """Return a WAVE file; `audio_files.write_wav` describes the arguments. Raises AudioError for unfit samples.

    tail: chunks for after the samples, where they do not disturb readers that expect the samples at byte 44.
    """
    C, N = waveform.samples.shape
    check_audio_layout(name, C, waveform.sample_rate)
    if subtype not in SUBTYPES:
        raise AudioError(f"subtype must be {' or '.join(SUBTYPES)}, got {subtype!r}")
    kind, width = SUBTYPES[subtype]
    if N * C * width > _MAX_WAV_BYTES:
        raise AudioError(f"{name} would be larger than the 4 GiB that a WAV file can hold: write it in parts")
    if not bool(torch.isfinite(waveform.samples).all()):
        raise AudioError(f"{name} is not written: the audio holds NaN or Inf")
    soundfile = _import_soundfile(f"writing {name}")
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", waveform.sample_rate, C, subtype=kind, format="WAV") as sound:
        for first in range(0, N, _BLOCK_FRAMES):
            block = waveform.samples[:, first : first + _BLOCK_FRAMES].T.contiguous().numpy()  # [n, C]
            sound.write(to_pcm16(block) if subtype == "pcm16" else block)
    size = file.seek(0, io.SEEK_END)
    file.write(tail)
    file.seek(4)
    file.write((size + len(tail) - 8).to_bytes(4, "little"))
    if subtype == "float32":  # libsndfile's PEAK chunk holds the time: equal audio must give equal files
        with file.getbuffer() as data:
            at = bytes(data[:128]).find(b"PEAK")
            data[at + 12 : at + 16] = bytes(4)
    return file
