"""How many tokens each step reveals (upstream models/omnivoice.py:1330-1350, 1598; as of 0.1.5).

A shifted time grid has steps + 1 points: t' = shift * t / (1 + (shift - 1) * t). Step i reveals the share of all
K * T tokens between two points, rounded up, while any are left; the last step reveals the remaining ones. Before 0.1.5
upstream's grid was one point too long, and ports of that version are off by a step.
"""

from __future__ import annotations

import math

import torch

from ..types import Sampling


def reveal_counts(tokens: int, steps: int, shift: float) -> tuple[int, ...]:
    """Return how many tokens each step reveals. They sum to `tokens`; once none are left, the rest are 0.

    The grid is computed in float32, as in upstream, because that decides how the shares are rounded.
    """
    t = torch.linspace(0.0, 1.0, steps + 1)
    grid, left, counts = (shift * t / (1 + (shift - 1) * t)).tolist(), tokens, []
    for step in range(steps):
        share = math.ceil(tokens * (grid[step + 1] - grid[step]))
        count = left if step == steps - 1 else min(share, left)
        counts.append(count)
        left -= count
    return tuple(counts)


def reveals(frames: int, codebooks: int, sampling: Sampling) -> list[tuple[range, tuple[int, ...]]]:
    """Return the stages of decoding `frames` frames: the codebooks of each, and how many tokens each step reveals.

    There is one stage for all codebooks, or one for each if the sampling has steps for each codebook.
    """
    if not sampling.codebook_steps:
        return [(range(codebooks), reveal_counts(codebooks * frames, sampling.steps, sampling.t_shift))]
    return [
        (range(book, book + 1), reveal_counts(frames, steps, sampling.t_shift))
        for book, steps in enumerate(sampling.codebook_steps)
    ]
