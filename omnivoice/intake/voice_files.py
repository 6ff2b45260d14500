"""Voice files: a `VoicePrompt` as a safetensors file, one writer and one reader.

Format 1: one tensor `codes`, int16 [K, T], and the metadata written below. Other metadata is ignored and is not kept
when the voice is saved again, so keys can be added without a new version. Anyone who has the model can decode the codes
and hear the recording (`Engine.decode_voice`), so a voice file is personal data and contains no preview. The file may
come from a stranger, so every code is checked on the CPU: an index out of range would crash a CUDA process. No paths,
user names or settings are written.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from ..constants import FRAME_RATE
from ..errors import FileError, InputError
from ..voice import VoicePrompt
from .files import read_bytes, write_atomic
from .limits import (
    CODEBOOK_SIZE,
    MAX_CODEBOOKS,
    MAX_CONSENT_CHARS,
    MAX_LABEL_CHARS,
    MAX_VOICE_BYTES,
    MAX_VOICE_FRAMES,
    MAX_VOICE_TEXT_CHARS,
    shown,
)
from .paths import as_path, shown_name
from .tensors import read_small_tensors, write_tensors
from .text_in import clean_text

FORMAT = "omnivoice_voice"
FORMAT_VERSION = 1
NO_TRANSCRIPT = "this voice has no transcript, which harms pace and likeness: save it again with its transcript"
_MAX_CODEBOOK_SIZE = 1 << 15  # the range of int16


def write_voice(path: str | PathLike[str], voice: VoicePrompt, *, overwrite: bool = True) -> Path:
    """Write `voice` atomically and return the path. It replaces a voice file, but never a file of another kind.

    Text and labels are cleaned. Raises FileError if writing fails, and InputError or TextError for a voice beyond the
    limits: 64 codebooks, 60 s, 2000 characters, codes up to 32767.
    """
    codes = check_codes(voice.codes, max(CODEBOOK_SIZE, int(voice.codes.max()) + 1))
    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "codebooks": str(codes.shape[0]),
        "frame_rate": str(FRAME_RATE),
        "text": clean_voice_text(voice.text),
        "rms": repr(float(voice.rms)),
        "name": clean_label(voice.name, "voice name"),
        "language": clean_label(voice.language, "voice language"),
    }
    if voice.codec:
        metadata["codec"] = voice.codec
    if consent := clean_label(voice.consent, "voice consent", MAX_CONSENT_CHARS):
        metadata["consent"] = consent
    if int(codes.max()) >= CODEBOOK_SIZE:
        metadata["codebook_size"] = str(int(codes.max()) + 1)
    return write_tensors(path, {"codes": codes.to(torch.int16)}, metadata, overwrite=overwrite)


def write_voices(voices: Sequence[tuple[Path, VoicePrompt]], *, overwrite: bool = True) -> list[Path]:
    """Write several voices, all or none, and return the paths written; raises as `write_voice`.

    When one cannot be written, those already written are removed again, and files that they replaced come back.
    """
    written: list[tuple[Path, bytes | None]] = []
    try:
        for path, voice in voices:
            old = read_bytes(path, limit=MAX_VOICE_BYTES) if overwrite and os.path.isfile(path) else None
            place = write_voice(path, voice, overwrite=overwrite)
            written.append((place, old if place == path else None))
    except BaseException:
        for place, old in reversed(written):
            with contextlib.suppress(OSError, FileError):
                os.unlink(place) if old is None else write_atomic(place, old)
        raise
    return [place for place, _ in written]


def read_voice(path: str | PathLike[str]) -> VoicePrompt:
    """Read a voice file; raises a FileError that says what is wrong with it and what to do.

    A voice without a transcript gets a warning. The warnings from its encoding are not stored.
    """
    name = shown_name(as_path(path))
    tensors, metadata = read_small_tensors(path, limit=MAX_VOICE_BYTES)
    _check_format(metadata, name)
    if tensors.keys() != {"codes"} or tensors["codes"].dtype != torch.int16:
        raise FileError(f"{name} must hold one int16 tensor, codes: save the voice again")
    try:
        size = _whole(metadata, "codebook_size", 1, _MAX_CODEBOOK_SIZE, default=CODEBOOK_SIZE)
        codes = check_codes(tensors["codes"], size)
        _whole(metadata, "codebooks", codes.shape[0], codes.shape[0])
        text = clean_voice_text(metadata.get("text"))
        return VoicePrompt(
            codes=codes,
            text=text,
            rms=_rms(metadata.get("rms")),
            name=clean_label(metadata.get("name", ""), "voice name"),
            language=clean_label(metadata.get("language", ""), "voice language"),
            warnings=() if text.strip() else (NO_TRANSCRIPT,),
            consent=clean_label(metadata.get("consent", ""), "voice consent", MAX_CONSENT_CHARS),
            codec=metadata.get("codec", ""),
        )
    except InputError as error:
        raise FileError(f"{name}: {error}") from error


def _check_format(metadata: Mapping[str, str], name: str) -> None:
    if metadata.get("format") != FORMAT:
        raise FileError(f"{name} is not a voice file (its format is {shown(metadata.get('format'))})")
    version = metadata.get("format_version", "")
    if not version.isdecimal() or len(version) > 6:
        raise FileError(f"{name}: format_version must be a whole number, got {shown(version)}")
    if int(version) > FORMAT_VERSION:
        raise FileError(
            f"{name} was written by a newer version of this pack (voice format {int(version)}, this one reads "
            f"{FORMAT_VERSION}): update the pack"
        )
    if int(version) < 1:
        raise FileError(f"{name}: format_version must be at least 1, got {int(version)}")
    rate = metadata.get("frame_rate")
    if rate != str(FRAME_RATE):
        raise FileError(f"{name}: frame_rate must be {FRAME_RATE}, got {shown(rate)}")


def _whole(metadata: Mapping[str, str], key: str, low: int, high: int, default: int | None = None) -> int:
    text = metadata.get(key, "" if default is None else str(default))
    if not text.isdecimal() or len(text) > 6 or not low <= int(text) <= high:
        raise InputError(f"{key} must be {low}-{high}, got {shown(text)}")
    return int(text)


def check_codes(codes: Tensor, codebook_size: int) -> Tensor:
    """Return `codes` [K, T] if the shape and every value are within the limits; otherwise raise InputError."""
    if codes.ndim != 2:
        raise InputError(f"voice codes must have shape [K, T], got {list(codes.shape)}")
    K, T = codes.shape
    if not 1 <= K <= MAX_CODEBOOKS or not 1 <= T <= MAX_VOICE_FRAMES:
        raise InputError(f"voice codes must be [1-{MAX_CODEBOOKS}, 1-{MAX_VOICE_FRAMES}], got [{K}, {T}]")
    low, high = int(codes.min()), int(codes.max())
    size = min(codebook_size, _MAX_CODEBOOK_SIZE)
    if low < 0 or high >= size:
        raise InputError(f"voice codes must be 0-{size - 1}, got {low if low < 0 else high}")
    return codes


def clean_voice_text(text: object) -> str:
    """Return a cleaned transcript; raises TextError."""
    return clean_text(text, name="voice text", limit=MAX_VOICE_TEXT_CHARS)


def clean_label(label: object, name: str, limit: int = MAX_LABEL_CHARS) -> str:
    """Return a label on one line, cleaned, of at most `limit` characters; raises TextError."""
    return " ".join(clean_text(label, name=name, limit=limit).split())


def _rms(text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InputError(f"voice rms must be a number, got {shown(text)}") from None
