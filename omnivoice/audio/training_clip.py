"""Preparing a recording for training: one channel, 24 kHz, peak 0.9, a whole number of frames.

On an ordinary clip the samples equal those of upstream's data extraction (data/dataset.py:434, utils/audio.py:69), up
to the last frame: upstream pads it with zeros, this module drops the samples that do not fill a frame. Offsets and
further channels are treated as in `loudness.to_mono`, unlike upstream. It also refuses recordings that teach nothing,
on which upstream trains. Silences stay, so that the model learns where people pause.
"""

from __future__ import annotations

from torch import Tensor

from ..constants import HOP
from ..errors import AudioError
from ..intake.limits import MAX_CLIP_SECONDS, MIN_CLIP_SECONDS
from ..types import Waveform
from .loudness import to_mono
from .reference import resample_audible

VERSION = 2  # increase it whenever the same recording gives other samples: cached codes are then encoded again
PEAK, PEAK_FLOOR = 0.9, 1e-7  # data/dataset.py:434
LOUDEST = 1e6  # far above 16-bit integers that were stored as floats


def prepare_clip(waveform: Waveform) -> Tensor:
    """Return a recording of any rate and channel count as [1, N] float32 at 24 kHz, N a multiple of the codec's hop.

    Raises AudioError for a recording that is shorter than 0.5 s or longer than 30 s, is silent, holds NaN or infinite
    samples, has channels that cancel each other out, or has a rate outside 4,000-384,000 Hz.
    """
    _refuse_unusable(waveform)
    mono, problem = to_mono(waveform.samples)
    if problem:
        raise AudioError(f"{problem}: save one of them as mono")
    samples = resample_audible(mono, waveform.sample_rate, "it is silent")
    samples = samples / (samples.abs().max() + PEAK_FLOOR) * PEAK
    N = samples.shape[1] // HOP * HOP
    return samples[:, :N].contiguous()


def _refuse_unusable(waveform: Waveform) -> None:
    seconds = waveform.seconds
    if seconds < MIN_CLIP_SECONDS:
        raise AudioError(f"it must be at least {MIN_CLIP_SECONDS} s long, got {seconds:.2f} s")
    if seconds > MAX_CLIP_SECONDS:
        raise AudioError(f"it must be at most {MAX_CLIP_SECONDS} s long, got {seconds:.1f} s: cut it between sentences")
    if not float(waveform.samples.abs().max()) <= LOUDEST:  # also true for NaN
        raise AudioError(f"it holds samples that are NaN, infinite or beyond {LOUDEST:g}: export it again")
