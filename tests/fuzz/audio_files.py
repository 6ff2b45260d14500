"""Recordings of every kind, damaged and forged, through the reader of audio files.

Four in five go through `read_audio`, which gives each to libsndfile or PyAV or both; the others go to PyAV directly,
also those that libsndfile would have read. What is accepted must be within the limits, and a cancel must come out.
Mutated pages of Ogg get their checksum again, since both decoders skip pages with a wrong one.
"""

from __future__ import annotations

import io
import logging
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import soundfile

from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.container_audio import read_container
from omnivoice.intake.limits import MAX_AUDIO_BYTES, MAX_AUDIO_SECONDS, MAX_CHANNELS, MAX_SAMPLE_RATE, MIN_SAMPLE_RATE
from omnivoice.types import Waveform
from tests.audio_encoding import encode, noise, tone
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.mutations import HOSTILE_INTEGERS, below, mutate, pick, set_integer

_SOUNDS = (  # libsndfile's format, encoding, rate, channels
    ("WAV", "PCM_16", 24_000, 1),
    ("WAV", "PCM_24", 44_100, 2),
    ("WAV", "PCM_U8", 8_000, 1),
    ("WAV", "FLOAT", 48_000, 1),
    ("WAV", "DOUBLE", 48_000, 1),
    ("WAV", "ULAW", 8_000, 1),
    ("WAV", "IMA_ADPCM", 22_050, 1),
    ("WAV", "MS_ADPCM", 22_050, 2),
    ("WAV", "GSM610", 8_000, 1),
    ("WAVEX", "PCM_16", 48_000, 6),
    ("RF64", "PCM_16", 24_000, 1),
    ("W64", "PCM_16", 24_000, 2),
    ("AIFF", "PCM_16", 44_100, 2),
    ("AIFF", "FLOAT", 44_100, 1),
    ("FLAC", "PCM_16", 44_100, 1),
    ("FLAC", "PCM_24", 48_000, 2),
    ("OGG", "VORBIS", 44_100, 1),
    ("OGG", "OPUS", 48_000, 2),
    ("MP3", "MPEG_LAYER_III", 44_100, 1),
)
_CONTAINERS = (  # FFmpeg's container, encoding, rate, channels, options of the container
    ("mp3", "libmp3lame", 44_100, 2, {}),
    ("mp3", "libmp3lame", 22_050, 1, {"write_xing": "0", "id3v2_version": "0"}),
    ("flac", "flac", 48_000, 1, {}),
    ("ogg", "libopus", 48_000, 1, {}),
    ("mp4", "aac", 44_100, 1, {}),
    ("mp4", "aac", 48_000, 2, {"movflags": "+frag_keyframe+empty_moov+default_base_moof"}),
    ("mov", "pcm_s16le", 24_000, 1, {"movflags": "faststart"}),
    ("ipod", "alac", 44_100, 2, {}),
    ("adts", "aac", 44_100, 1, {}),
    ("webm", "libopus", 48_000, 1, {}),
    ("matroska", "pcm_s16le", 48_000, 2, {}),
    ("matroska", "flac", 44_100, 1, {}),
    ("wav", "pcm_s16le", 16_000, 1, {}),
)
# Names that stand before or after numbers: rates, channels, counts, sizes.
_FIELDS = re.compile(
    rb"RIFF|RF64|riff|fmt |data|fact|ds64|LIST|FORM|COMM|SSND|fLaC|OggS|OpusHead|\x01vorbis|ID3|Xing|Info|LAME"
    rb"|moov|mvhd|tkhd|mdhd|hdlr|elst|stsd|mp4a|alac|sowt|esds|stts|stsc|stsz|stco|co64|moof|mfhd|tfhd|tfdt|trun|mdat"
    rb"|\x1a\x45\xdf\xa3|\x15\x49\xa9\x66|\x16\x54\xae\x6b|\x1f\x43\xb6\x75"
)
_HEAD_BYTES = 200
_RATES = (0, 1, 3_999, 4_000, 7_999, 22_051, 384_000, 384_001, 1 << 20, (1 << 31) - 1, (1 << 32) - 1)


class Cancelled(BaseException):
    """What a host raises while a file is read."""


@dataclass(frozen=True)
class Seed:
    """A whole recording, and where in it the names of fields are."""

    data: bytes
    places: tuple[int, ...]


def attack(run: Run) -> None:
    """Damage and read recordings."""
    rng, path = run.rng, run.folder / "x.bin"
    seeds = _seeds(run.folder)
    whole = [seed.data for seed in seeds]
    with _quiet():
        while run.more():
            data = _mutant(rng, pick(rng, seeds), whole)
            stop_at = below(rng, 20) if rng.random() < 0.05 else None
            _read(run, path, data, stop_at)


def _read(run: Run, path: Path, data: bytes, stop_at: int | None) -> None:
    """Read one recording; stop_at: the read at which the host cancels."""
    strict, direct = run.rng.random() < 0.5, run.rng.random() < 0.2
    reads, cancelled, found = 0, False, None

    def on_read() -> None:
        nonlocal reads
        reads += 1
        if stop_at is not None and reads > stop_at:
            raise Cancelled

    with run.input(data):
        try:
            if direct:
                found = read_container(io.BytesIO(data), "x.bin", "", require_complete=strict, on_read=on_read)
            else:
                path.write_bytes(data)
                found = read_audio(path, require_complete=strict, on_read=on_read)
        except Cancelled:
            cancelled = True
    run.tally("given to PyAV at once", int(direct))
    run.tally("cancelled", int(cancelled))
    if stop_at is not None and reads > stop_at and not cancelled:
        run.finding(data, "a cancel was lost")
    if found is not None and (complaint := _complaint(found)):
        run.finding(data, complaint)


def _complaint(audio: Waveform) -> str:
    """Return what is wrong with accepted audio, nothing for none."""
    C, N = audio.samples.shape
    if not 1 <= C <= MAX_CHANNELS or not MIN_SAMPLE_RATE <= audio.sample_rate <= MAX_SAMPLE_RATE:
        return f"accepted {C} channels at {audio.sample_rate} Hz"
    if not 1 <= N <= MAX_AUDIO_SECONDS * audio.sample_rate or 4 * C * N > MAX_AUDIO_BYTES:
        return f"accepted {N} samples of {C} channels"
    return "" if audio.samples.is_contiguous() else "not contiguous"


def _mutant(rng: Random, seed: Seed, others: list[bytes]) -> bytes:
    """Return a damaged recording: forged fields, a damaged head or body, or parts of several."""
    kind, data = rng.random(), seed.data
    if kind < 0.4:
        data = _forge(rng, seed)
        while rng.random() < 0.4:
            data = _forge(rng, Seed(data, seed.places))
    elif kind < 0.6:
        data = mutate(rng, data[:_HEAD_BYTES], others) + data[_HEAD_BYTES:]
    elif kind < 0.9:
        data = mutate(rng, data, others)
    elif kind < 0.95:
        data = data[below(rng, len(data)) :] + pick(rng, others)
    else:
        data = data[: below(rng, len(data))] + data * (1 + below(rng, 4))
    return _with_checksums(data) if data[:4] == b"OggS" and rng.random() < 0.6 else data


def _forge(rng: Random, seed: Seed) -> bytes:
    """Return the recording with a number near the name of a field replaced."""
    data, place = seed.data, pick(rng, seed.places)
    at = max(0, place - 8 + below(rng, 48))
    if rng.random() < 0.3:
        return data[:at] + set_integer(rng, data[at : at + 8]) + data[at + 8 :]
    size = pick(rng, (1, 2, 3, 4, 4, 4, 8))
    number = pick(rng, _RATES if rng.random() < 0.4 else HOSTILE_INTEGERS) % (1 << 8 * size)
    return data[:at] + number.to_bytes(size, "little" if rng.random() < 0.5 else "big") + data[at + size :]


def _seeds(folder: Path) -> list[Seed]:
    """Return one short recording of every kind."""
    made = []
    for form, subtype, rate, channels in _SOUNDS:
        file = io.BytesIO()
        samples = np.repeat(tone(rate, 0.06)[:, None], channels, axis=1)
        soundfile.write(file, samples, rate, format=form, subtype=subtype)
        made.append(file.getvalue())
    for kind, codec, rate, channels, options in _CONTAINERS:
        path = encode(folder / "seed", kind, codec, noise(rate, 0.06), rate, channels, options=options)
        made.append(path.read_bytes())
    streamed = bytearray(made[0])
    streamed[40:44] = bytes(4)  # a recorder that did not know the length
    made += [bytes(streamed), made[10].replace(b"RF64", b"BW64", 1), b"ID3\x04\0\0\0\0\x01\0" + bytes(128) + made[18]]
    made += [one + two for one, two in ((made[16], made[17]), (made[14], made[14]), (made[0], made[18]))]
    return [Seed(data, tuple(match.start() for match in _FIELDS.finditer(data)) or (0,)) for data in made]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back our warnings of damaged files, and what the decoder of MP3 writes to the standard error by itself."""
    log = logging.getLogger("omnivoice_nodes")
    level, stderr, nowhere = log.level, os.dup(2), os.open(os.devnull, os.O_WRONLY)
    log.setLevel(logging.ERROR)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
        log.setLevel(level)


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        crc = value << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7) & 0xFFFFFFFF if crc >> 31 else crc << 1
        table.append(crc)
    return table


_CRC = _crc_table()


def _with_checksums(data: bytes) -> bytes:
    """Return an Ogg file with the right checksum in the pages of its first 2 KiB, where the headers are."""
    fixed = bytearray(data)
    for match in re.finditer(b"OggS", data[:2048]):
        at = match.start()
        count = data[at + 26] if len(data) > at + 26 else 0
        end = at + 27 + count + sum(data[at + 27 : at + 27 + count])
        if end > min(len(data), 4096 + at):
            continue
        fixed[at + 22 : at + 26] = bytes(4)
        crc = 0
        for byte in fixed[at:end]:
            crc = (crc << 8 & 0xFFFFFFFF) ^ _CRC[crc >> 24 ^ byte]
        fixed[at + 22 : at + 26] = struct.pack("<I", crc)
    return bytes(fixed)


CAMPAIGN = Campaign(name="audio files", unit="audio files", goal=2_000_000, share=20, attack=attack, suite=1_200)
