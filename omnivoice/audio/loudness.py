"""Levels: RMS, one channel out of many, and the level of the output.

numpy does the arithmetic, because its summation order and its float32 roundings are upstream's: the reference's
level, and through it the reference's codes, equal upstream's only bit for bit. Nothing here measures loudness in the
sense of a standard (LUFS), and nothing limits peaks by ear: gains are plain factors.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SPEECH_RMS = 0.1  # the level the model speaks at, models/omnivoice.py:775,898
UNVOICED_PEAK = 0.5  # peak of an output without a reference, models/omnivoice.py:903
RMS_FLOOR = 0.005  # an output follows its reference's level down to 26 dB below speech, not further
SILENT_PEAK = 1e-6  # below it there is nothing to scale, models/omnivoice.py:902
CANCELLED = 0.1  # mono RMS against the louder channel's: 20 dB down is no longer a mix but a cancellation


def rms(samples: Tensor) -> float:
    """Root mean square of samples [C, N] float32 on the CPU, in float32 as numpy sums it; 0 where N is 0."""
    if samples.numel() == 0:
        return 0.0
    values = samples.numpy()
    return float(np.sqrt(np.mean(values**2)))


def to_mono(samples: Tensor) -> tuple[Tensor, str | None]:
    """[C, N] -> ([1, N], warning): the channels' mean, as upstream (models/omnivoice.py:765).

    Where the channels cancel (the mean is 20 dB below the louder one), the louder channel alone, and a warning.
    """
    if samples.shape[0] == 1:
        return samples, None
    mono = torch.from_numpy(np.mean(samples.numpy(), axis=0, keepdims=True))
    levels = [rms(channel[None]) for channel in samples]
    loudest = max(range(len(levels)), key=levels.__getitem__)
    if rms(mono) < CANCELLED * levels[loudest]:
        return samples[loudest : loudest + 1], (
            f"the reference's channels cancel each other out: only channel {loudest + 1} of {len(levels)} is used"
        )
    return mono, None


def raise_to_speech(samples: Tensor, level: float) -> Tensor:
    """Samples whose RMS is `level`, raised to RMS 0.1 if they are quieter (models/omnivoice.py:775)."""
    return samples * SPEECH_RMS / level if 0 < level < SPEECH_RMS else samples


def match_level(samples: Tensor, reference_rms: float | None, *, peak: float | None = None) -> Tensor:
    """[1, N] float32 -> the same at the output's level (models/omnivoice.py:898).

    With a reference: as quiet as it was, if it was below RMS 0.1, but no quieter than for RMS 0.005: the gain is
    within 0.05-1. Upstream has no such floor, and follows a very quiet or silent reference into silence.
    Without one (None): peak 0.5, by the gain that brings `peak` there, if given. A peak never rises above 1 by this.
    """
    if reference_rms is not None:
        level = max(reference_rms, RMS_FLOOR)
        return samples * level / SPEECH_RMS if level < SPEECH_RMS else samples
    if peak is None:
        peak = float(samples.abs().max()) if samples.numel() else 0.0
    return samples / peak * UNVOICED_PEAK if peak > SILENT_PEAK else samples
