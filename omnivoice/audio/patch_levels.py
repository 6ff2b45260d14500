"""Levels of decoded audio that is put into a recording: as loud as its surroundings, in each channel.

Decoded audio is mono. Every channel gets the same signal with a gain of its own: the level of the channel near the
patch against that of the mix, negative where the channel has the polarity reversed. Differences of time or of sound
between channels are not imitated.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..constants import HOP
from .patches import Patch

CONTEXT_FRAMES = 10  # on each side of a patch
# A side that is 13 dB below the mean level of the recording counts half: what is heard there is background.
QUIET_SHARE = 0.05
MOST_CHANGE = math.log(4.0)
REVERSED = -0.3  # a correlation with the mix below this one means reversed polarity
ALIKE = 0.01  # channels that differ by less than that share of their level, 40 dB down, get the same samples


def levelled(patch: Patch, mono: Tensor, gain: float) -> Tensor:
    """Return the decoded audio [n] of a patch at the level of the recording, mono [N] at 24 kHz, that it replaces.

    The change of level on each side is that of at most 10 frames there, and goes over from one side to the other within
    the new frames. Where the recording is quiet it is 1 / `gain`, the factor by which it was amplified to be encoded.
    """
    decoded, power = patch.decoded, float(mono.square().mean()) * QUIET_SHARE
    edge, count = patch.before, min(patch.before, CONTEXT_FRAMES) * HOP
    left = _change(_before(decoded, edge * HOP, count), _before(mono, patch.start * HOP, count), power, gain)
    edge, count = (patch.before + patch.new) * HOP, min(patch.after, CONTEXT_FRAMES) * HOP
    right = _change(decoded[edge : edge + count], mono[patch.end * HOP :][:count], power, gain)
    left, right = (right if left is None else left), (left if right is None else right)
    if left is None or right is None:
        return decoded / gain
    steady = torch.full((patch.before * HOP,), left), torch.full((patch.after * HOP,), right)
    return decoded * torch.cat((steady[0], torch.linspace(left, right, patch.new * HOP), steady[1])).exp()


def _before(samples: Tensor, end: int, count: int) -> Tensor:
    """Return at most `count` samples of [N] that end at sample `end`."""
    return samples[max(0, end - count) : max(0, end)]


def _change(decoded: Tensor, original: Tensor, quiet: float, gain: float) -> float | None:
    """Return the logarithm of the factor that brings decoded [n] to the level of original [m]; None if either is empty.
    `quiet` is the power at which it counts half."""
    if not decoded.numel() or not original.numel():
        return None
    usual = -math.log(gain)
    powers = float(decoded.square().mean()), float(original.square().mean())
    if min(powers) <= 1e-20:
        return usual
    change = max(-MOST_CHANGE, min(MOST_CHANGE, math.log(powers[1] / powers[0]) / 2 - usual))
    return usual + change * powers[1] / (powers[1] + quiet)


def in_channels(decoded: Tensor, samples: Tensor, mixed: Tensor, offsets: Tensor, start: int, end: int) -> Tensor:
    """Return decoded [1, n] in the channels of a recording [C, N] that was mixed to [1, N]: [C, n].

    offsets: those of the channels, [C, 1], which the mix does not have. The levels of the channels are those between
    the samples `start` and `end`, or where nothing is heard there, those of the whole recording. A silent channel stays
    silent, and a channel keeps its offset.
    """
    near, mix = samples[:, start:end], mixed[:, start:end]
    if not mix.numel() or float(mix.abs().max()) == 0:
        near, mix = samples, mixed
    return decoded * _gains(near.double() - offsets, mix.double()).to(decoded.dtype)[:, None] + offsets


def _gains(channels: Tensor, mix: Tensor) -> Tensor:
    """Return the gain of each of channels [C, N] against mix [1, N]: [C] float64."""
    levels, level = channels.norm(dim=1), float(mix.norm())
    if level == 0:
        return torch.ones_like(levels)
    correlations = (channels * mix).sum(1) / (levels * level).clamp(min=1e-30)
    gains = levels / level * torch.where(correlations < REVERSED, -1.0, 1.0)
    for later in range(1, len(gains)):
        for earlier in range(later):
            for sign in (1.0, -1.0):
                if float((channels[later] - sign * channels[earlier]).norm()) < ALIKE * float(levels[earlier]):
                    gains[later] = sign * gains[earlier]
    return gains
