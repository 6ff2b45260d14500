"""A recording as one channel, at its own rate and at 24 kHz: computed once, because an hour of it takes seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..intake.cancel import hear_cancel
from ..types import Waveform
from .loudness import mixed, without_offset
from .resample import resample


@dataclass(frozen=True, eq=False)
class Mix:
    """A recording [C, N] mixed to `mixed` [1, N] without its `offsets` [C, 1], and `mono` [1, M] at 24 kHz.

    problem: why it is not the mix of all channels, or None.
    """

    mixed: Tensor
    offsets: Tensor
    mono: Tensor
    problem: str | None


def mix_of(recording: Waveform) -> Mix:
    """Return the mix of a recording; raises AudioError for a rate that cannot be resampled."""
    plain = without_offset(recording.samples)
    mono, problem = mixed(plain)
    offsets = recording.samples[:, :1] - plain[:, :1]
    hear_cancel()
    return Mix(mono, offsets, resample(mono, recording.sample_rate, SAMPLE_RATE), problem)


def is_finite(samples: Tensor) -> bool:
    """Whether there is neither NaN nor Inf among samples; takes no memory of their size."""
    return samples.numel() == 0 or all(map(math.isfinite, torch.stack(torch.aminmax(samples)).tolist()))
