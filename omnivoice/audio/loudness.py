"""Levels: RMS, offsets, mixing to one channel, and the level of the output.

The arithmetic is numpy's, whose summation order and float32 rounding upstream uses: the codes of a reference equal
upstream's only if its level does, bit for bit. Nothing here measures loudness by a standard such as LUFS or limits
peaks: gains are plain factors.
"""

from __future__ import annotations

import math
import operator
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from ..intake.cancel import cancellable, hear_cancel

SPEECH_RMS = 0.1  # the level the model speaks at, models/omnivoice.py:775,898
UNVOICED_PEAK = 0.5  # peak of an output without a reference, models/omnivoice.py:903
RMS_FLOOR = 0.005  # the output follows the level of its reference down to 26 dB below speech
SILENT_PEAK = 1e-6  # below it there is nothing to amplify, models/omnivoice.py:902
# A mean of more than this share of the RMS is an offset, not a rounding or a rumble. A smaller one stays below the
# threshold of silence (-50 dB) when speech is at its level, so it changes neither what is silent nor the level.
OFFSET_SHARE = 0.03
# The weights of channels whose roles are known from their number alone, in the order of WAV and FLAC: left, right,
# centre, low frequencies, then the surrounds. They are those of ITU-R BS.775; low frequencies hold no speech.
SIDE, SURROUND = 0.5**0.5, 0.5
ROLE_WEIGHTS = MappingProxyType(
    {6: (SIDE, SIDE, 1.0, 0.0, SURROUND, SURROUND), 8: (SIDE, SIDE, 1.0, 0.0, SURROUND, SURROUND, SURROUND, SURROUND)}
)
LOUD_SHARE = 0.1  # of the RMS; windows of 50 ms below it are silence and do not count for the level of speech
WINDOW_SECONDS = 0.05
CANCELLED = 0.1  # mono RMS against the louder channel's: 20 dB down is no longer a mix but a cancellation


def rms(samples: Tensor) -> float:
    """Return the root mean square of samples [C, N] float32 on the CPU, summed in float32 by numpy; 0 if N is 0."""
    if samples.numel() == 0:
        return 0.0
    values = samples.numpy()
    return float(np.sqrt(np.mean(values**2)))


def level_of_speech(samples: Tensor, sample_rate: int) -> float:
    """Return the RMS of all channels of samples [C, N], in the windows of 50 ms that are not silent; 0 for silence.

    What is left over after the last whole window does not count, unless it is everything.
    """
    C, N = samples.shape
    window = max(1, min(N, round(WINDOW_SECONDS * sample_rate)))
    count = N // window
    if not count:
        return 0.0
    windows = samples[:, : count * window].reshape(C, count, window)  # a view
    energies = torch.linalg.vector_norm(windows, dim=2, dtype=torch.float64).square().mean(0) / window  # [count]
    loud = energies[energies > LOUD_SHARE**2 * energies.mean()]
    return math.sqrt(float(loud.mean())) if loud.numel() else 0.0


def without_offset(samples: Tensor) -> Tensor:
    """Return samples [C, N] without the offset of each channel; the same tensor if none has one (`OFFSET_SHARE`)."""
    if samples.numel() == 0:
        return samples
    values = samples.numpy()
    means = values.mean(axis=1, keepdims=True, dtype=np.float64)
    hear_cancel()
    levels = np.sqrt(np.einsum("cn,cn->c", values, values, dtype=np.float64) / values.shape[1])[:, None]
    hear_cancel()
    offsets = np.where(np.abs(means) > OFFSET_SHARE * levels, means, 0.0).astype(np.float32)
    return torch.from_numpy(values - offsets) if offsets.any() else samples


def to_mono(samples: Tensor) -> tuple[Tensor, str | None]:
    """Return the channels mixed to one, [1, N], without offsets (`without_offset`), and a problem or None.

    Two channels give their mean, as upstream does (models/omnivoice.py:765). Of more channels upstream gives the mean
    too, so that a voice in one of six is 15 dB too quiet. Here they are weighted by their roles where their number
    tells them (`ROLE_WEIGHTS`), and the mix is as loud as the loudest of them, with no higher peak. If channels cancel
    each other out (the mix is 20 dB below what they have), or if the sound is in a channel that is left out, the
    loudest channel is returned instead, and the problem names it.
    """
    return mixed(without_offset(samples))


def mixed(samples: Tensor) -> tuple[Tensor, str | None]:
    """As `to_mono`, for channels that have no offset."""
    hear_cancel()
    C = samples.shape[0]
    if C == 1:
        return samples, None
    weights = ROLE_WEIGHTS.get(C)
    if weights is None:
        weights, mono = (1 / C,) * C, torch.from_numpy(np.mean(samples.numpy(), axis=0, keepdims=True))
    else:
        mono = samples.new_tensor(weights)[None] @ samples
    levels = [rms(channel[None]) for channel in cancellable(samples)]
    loudest = max(range(C), key=levels.__getitem__)
    heard = max(level for level, weight in zip(levels, weights) if weight)
    expected = heard if C == 2 else max(map(operator.mul, weights, levels))
    is_left_out = heard < CANCELLED * levels[loudest]
    if is_left_out or rms(mono) < CANCELLED * expected:
        where = f"channel {loudest + 1} of {C}"
        problem = (
            f"{where} has all its sound"
            if is_left_out
            else f"its channels cancel each other out, {where} is the loudest"
        )
        return samples[loudest : loudest + 1], problem
    if C > 2 and heard > 0:
        mono = mono * min(heard / rms(mono), float(samples.abs().max() / mono.abs().max()))
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
