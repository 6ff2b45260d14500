"""A recording as the codec hears it: mono, at 24,000 Hz and at the level of speech, in whole frames; and its codes.

Frame f is samples 960 f to 960 (f + 1). Only the part that is asked for is encoded, with some sound around it, so that
a word in an hour of speech costs no more than in a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..audio.loudness import RMS_FLOOR, SPEECH_RMS, rms
from ..audio.mix import Mix, is_finite, mix_of
from ..constants import HOP
from ..errors import AudioError, InputError
from ..intake.limits import shown
from ..types import Waveform

Encode = Callable[[Tensor], Tensor]  # samples [1, N] at 24 kHz -> codes [K, T]
AROUND = 25  # frames that are encoded on either side, so that the edges of the part are as inside the whole
SILENT = 2 / 32768


@dataclass(frozen=True, eq=False)
class Sound:
    """samples: [1, frames * 960] float32, the recording times `gain`. mix: of the recording. warnings: what is unusual
    about it."""

    samples: Tensor
    gain: float
    mix: Mix
    warnings: tuple[str, ...]

    @property
    def frames(self) -> int:
        """The length in frames; the last one may end in zeros."""
        return int(self.samples.shape[1]) // HOP

    def codes(self, first: int, end: int, encode: Encode) -> Tensor:
        """Return the codes [K, end - first] of frames [first, end)."""
        start, stop = max(0, first - AROUND), min(self.frames, end + AROUND)
        codes = encode(self.samples[:, start * HOP : stop * HOP])
        return codes[:, first - start : end - start]


def sound_of(recording: Waveform) -> Sound:
    """Return the recording as the codec is to hear it; raises AudioError for one that cannot be edited."""
    if not isinstance(recording, Waveform):
        raise InputError(f"the recording must be a Waveform, got {shown(recording)}")
    samples = recording.samples
    if samples.shape[1] == 0:
        raise AudioError("the recording is empty, got 0 samples: give the speech to edit")
    if not is_finite(samples):
        raise AudioError("the recording must be finite, got NaN or infinite samples: export it again")
    mix = mix_of(recording)
    heard = mix.mono
    if heard.shape[1] == 0 or float(heard.max() - heard.min()) < SILENT:
        raise AudioError("the recording is silent: check that the right track was recorded")
    gain = max(1.0, SPEECH_RMS / max(rms(heard), RMS_FLOOR))
    whole = torch.nn.functional.pad(heard, (0, -heard.shape[1] % HOP)).mul_(gain)
    told = (f"the words are read from one channel of the recording: {mix.problem}",) if mix.problem else ()
    return Sound(whole, gain, mix, told)
