"""Levels: RMS, mixing to one channel, and the level of the output.

The arithmetic is numpy's, whose summation order and float32 rounding upstream uses: the codes of a reference equal
upstream's only if its level does, bit for bit. Nothing here measures loudness by a standard such as LUFS or limits
peaks: gains are plain factors.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SPEECH_RMS = 0.1  # the level the model speaks at, models/omnivoice.py:775,898
UNVOICED_PEAK = 0.5  # peak of an output without a reference, models/omnivoice.py:903
RMS_FLOOR = 0.005  # the output follows the level of its reference down to 26 dB below speech
SILENT_PEAK = 1e-6  # below it there is nothing to amplify, models/omnivoice.py:902
CANCELLED = 0.1  # mono RMS against the louder channel's: 20 dB down is no longer a mix but a cancellation


def rms(samples: Tensor) -> float:
    """Return the root mean square of samples [C, N] float32 on the CPU, summed in float32 by numpy; 0 if N is 0."""
    if samples.numel() == 0:
        return 0.0
    values = samples.numpy()
    return float(np.sqrt(np.mean(values**2)))


def to_mono(samples: Tensor) -> tuple[Tensor, str | None]:
    """Return the mean of the channels [1, N], as upstream does (models/omnivoice.py:765), and a warning or None.

    If the channels cancel each other out (the mean is 20 dB below the loudest), the loudest one is returned instead,
    with a warning.
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
    """Amplify samples of RMS `level` to RMS 0.1 if they are quieter than that (models/omnivoice.py:775)."""
    return samples * SPEECH_RMS / level if 0 < level < SPEECH_RMS else samples


def match_level(samples: Tensor, reference_rms: float | None, *, peak: float | None = None) -> Tensor:
    """Scale samples [1, N] float32 to the level of the output (models/omnivoice.py:898).

    With a reference of an RMS below 0.1, the output becomes as quiet as the reference was, with a gain of 0.05 to 1.
    Upstream has no lower bound and follows a silent reference into silence. Without a reference (None), the gain
    brings `peak`, by default the peak of the samples, to 0.5.
    """
    if reference_rms is not None:
        level = max(reference_rms, RMS_FLOOR)
        return samples * level / SPEECH_RMS if level < SPEECH_RMS else samples
    if peak is None:
        peak = float(samples.abs().max()) if samples.numel() else 0.0
    return samples / peak * UNVOICED_PEAK if peak > SILENT_PEAK else samples
