"""Voices: a recorded one (`VoicePrompt`) and a described one (`VoiceDesign`). Both are frozen and hold plain data.

`VoicePrompt.save` and `.load` use the one writer and reader of voice files, `intake/voice_files.py`. They import it
inside the methods, because modules of `intake` may import this one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from numbers import Real
from os import PathLike
from types import MappingProxyType

import torch
from torch import Tensor

from .errors import InputError

_FINGERPRINT = re.compile("(?:[0-9a-f]{16})?")
DESIGNED, UNKNOWN = "designed", "unknown"
CONSENT_KINDS = MappingProxyType(
    {
        "self": "one's own voice",
        "permission": "its owner agreed",
        "licensed": "a licence allows it",
        DESIGNED: "described and not recorded, nobody's voice",
        UNKNOWN: "nothing is known",
    }
)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def consent_kind(note: str) -> str:
    """Return the one of `CONSENT_KINDS` that a note of consent starts with, "unknown" for any other note.

    A note is free text that is kept and shown, and blocks nothing. With such a word at its start, programs can read it
    too: "permission: Anna, 2 May".
    """
    first = note.strip().partition(" ")[0].rstrip(".,:;-").lower()
    return first if first in CONSENT_KINDS else UNKNOWN


@dataclass(frozen=True, eq=False)
class VoicePrompt:
    """A recording as codes with its transcript, ready to clone (upstream's VoiceClonePrompt, models/omnivoice.py:120).

    codes: [K, T] integers, the codec's codes of the prepared recording, 25 frames a second, on the CPU.
    text: the transcript, as the model reads it.
    rms: root mean square of the recording before it was raised to speech level, 0-1; sets the level of the output.
    name, language, consent (who allowed the use of this voice): labels for a voice library; they do not affect speech.
    codec: fingerprint of the codec that made the codes (`Engine.codec_fingerprint`), "" if unknown.
    Raises InputError if the codes are not integers of shape [K, T], rms is not a finite number >= 0, or codec is not a
    fingerprint.
    """

    codes: Tensor
    text: str
    rms: float
    name: str = ""
    language: str = ""
    warnings: tuple[str, ...] = field(default=())
    consent: str = ""
    codec: str = ""

    def __post_init__(self) -> None:
        codes = self.codes
        if not isinstance(codes, Tensor) or codes.ndim != 2 or 0 in codes.shape or codes.dtype not in _INTEGERS:
            got = f"{tuple(codes.shape)} {codes.dtype}" if isinstance(codes, Tensor) else type(codes).__name__
            raise InputError(f"voice codes must be an integer tensor [K, T] with T > 0, got {got}")
        if int(codes.min()) < 0:
            raise InputError(f"voice codes must be >= 0, got {int(codes.min())}")
        if not isinstance(self.text, str):
            raise InputError(f"voice text must be a string, got {type(self.text).__name__}")
        if not isinstance(self.codec, str) or not _FINGERPRINT.fullmatch(self.codec):
            raise InputError(f"voice codec must be 16 hex digits, or empty if unknown, got {str(self.codec)[:40]!r}")
        rms = self.rms
        if isinstance(rms, bool) or not isinstance(rms, Real) or not math.isfinite(rms) or rms < 0:
            raise InputError(f"voice rms must be a finite number >= 0, got {rms!r}")
        object.__setattr__(self, "rms", float(rms))
        object.__setattr__(self, "codes", codes.detach().to(device="cpu", dtype=torch.int64))

    @property
    def frames(self) -> int:
        """The length in audio frames, 25 a second."""
        return int(self.codes.shape[1])

    def save(self, path: str | PathLike[str]) -> None:
        """Write a safetensors voice file, atomically; raises FileError if that fails."""
        from .intake.voice_files import write_voice

        write_voice(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> VoicePrompt:
        """Read a voice file written by `save`; raises FileError for anything else."""
        from .intake.voice_files import read_voice

        return read_voice(path)


@dataclass(frozen=True)
class VoiceDesign:
    """A voice described by attributes of the model's vocabulary, in the order the user gave them.

    attributes: canonical lower-case words, English or Chinese, e.g. ("female", "british accent"). `parse_design` in
    `text/design.py` makes and checks it, and `render_design` turns it into the model's string. Raises InputError if
    the attributes are not a tuple or list.
    """

    attributes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, (tuple, list)):
            raise InputError(
                f'VoiceDesign takes words as ("female", "high pitch"), got {type(self.attributes).__name__}'
            )
        object.__setattr__(self, "attributes", tuple(self.attributes))
