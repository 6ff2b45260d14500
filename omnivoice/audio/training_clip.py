"""A recording made ready to be trained on: one channel, 24 kHz, peak 0.9, whole frames.

On an ordinary clip the samples equal what upstream's extraction of training data computes (data/dataset.py:434,
utils/audio.py:69), up to the last frame: upstream fills it with zeros, here what does not fill a frame is cut. What is
unusual are the refusals; upstream trains on whatever it can read. Nothing is trimmed, silences stay: the model learns
where people pause. This file encodes nothing and knows no transcript.
"""

from __future__ import annotations

from torch import Tensor

from ..constants import HOP, SAMPLE_RATE
from ..errors import AudioError
from ..intake.limits import MAX_CLIP_SECONDS, MIN_CLIP_SECONDS
from ..types import Waveform
from .loudness import to_mono
from .reference import SILENT_RANGE
from .resample import resample

VERSION = 1  # goes up whenever the same recording gives other samples: codes that were kept are then made anew
PEAK, PEAK_FLOOR = 0.9, 1e-7  # data/dataset.py:434
LOUDEST = 1e6  # far beyond 16-bit numbers that somebody stored as floats


def prepare_clip(waveform: Waveform, *, sample_rate: int = SAMPLE_RATE, hop: int = HOP) -> Tensor:
    """Waveform of any rate and channel count -> [1, N] float32 at `sample_rate`, N a multiple of `hop`.

    Raises AudioError for a recording that is shorter than 0.5 s or longer than 30 s, silent, not finite, of channels
    that cancel each other, or of a rate outside 4,000-384,000 Hz.
    """
    _refuse_unusable(waveform)
    mono, cancelled = to_mono(waveform.samples)
    if cancelled:
        raise AudioError("its channels cancel each other out: save one of them as mono")
    _refuse_silent(mono)
    samples = resample(mono, waveform.sample_rate, sample_rate)
    _refuse_silent(samples)  # all of it may have been above the new Nyquist frequency
    samples = samples / (samples.abs().max() + PEAK_FLOOR) * PEAK
    whole = samples.shape[1] // hop * hop
    return samples[:, :whole].contiguous()


def _refuse_unusable(waveform: Waveform) -> None:
    seconds = waveform.seconds
    if seconds < MIN_CLIP_SECONDS:
        raise AudioError(f"it must be at least {MIN_CLIP_SECONDS} s long, got {seconds:.2f} s")
    if seconds > MAX_CLIP_SECONDS:
        raise AudioError(f"it must be at most {MAX_CLIP_SECONDS} s long, got {seconds:.1f} s: cut it between sentences")
    if not float(waveform.samples.abs().max()) <= LOUDEST:  # NaN is not, either
        raise AudioError(f"it holds samples that are NaN, infinite or beyond {LOUDEST:g}: export it again")


def _refuse_silent(samples: Tensor) -> None:
    if float(samples.max() - samples.min()) < SILENT_RANGE:
        raise AudioError("it is silent")
