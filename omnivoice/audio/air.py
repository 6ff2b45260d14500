"""The noise of a recording above 12 kHz, which decoded audio does not have.

Without it, a recording at 44.1 or 48 kHz would sound duller inside a patch than around it. It is taken from a quiet
stretch near the patch, played forwards and backwards by turns. What a voice has above 12 kHz is not made up.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from .joints import cut_padded
from .resample import resample

NEAR_SECONDS = 5.0  # on each side of a patch
EDGE_SECONDS = 0.02  # at each end of what is filtered, where the filter has no neighbours
STRETCH_SECONDS, HOP_SECONDS = 0.2, 0.01
QUIETEST = 5  # the stretch is as loud as the quietest fifth of all; the quietest of all may be digital silence


def air(samples: Tensor, rate: int, start: int, end: int, count: int) -> Tensor:
    """Return `count` samples of noise above 12 kHz, like that of samples [C, N] near its samples `start` to `end`:
    [C, count], zeros where the rate is 24,000 Hz or less or the recording is too short."""
    near = round(NEAR_SECONDS * rate)
    around = samples[:, max(0, start - near) : end + near]
    edge, hop = round(EDGE_SECONDS * rate), round(HOP_SECONDS * rate)
    if rate <= SAMPLE_RATE or around.shape[1] <= 2 * edge + hop:
        return samples.new_zeros(samples.shape[0], count)
    low = resample(resample(around, rate, SAMPLE_RATE), SAMPLE_RATE, rate)
    high = (around - cut_padded(low, 0, around.shape[1]))[:, edge:-edge]
    length = min(high.shape[1], round(STRETCH_SECONDS * rate))
    powers = high.square().sum(0).unfold(0, length, hop).sum(1)
    first = int(powers.argsort()[powers.numel() // QUIETEST]) * hop
    turn = torch.arange(count) % (2 * length)
    return high[:, first + torch.minimum(turn, 2 * length - 1 - turn)]
