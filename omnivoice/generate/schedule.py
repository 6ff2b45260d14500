"""How many tokens each step reveals (upstream models/omnivoice.py:1330-1350, 1598; as of 0.1.5).

A shifted time grid of steps + 1 points: t' = shift * t / (1 + (shift - 1) * t). Step i reveals the share of
all K * T tokens that lies between two points, rounded up, as long as any are left; the last step reveals
the rest. Before 0.1.5 upstream's grid was one point too long; ports of that age are off by a step.
"""

from __future__ import annotations

import math

import torch


def time_grid(steps: int, shift: float) -> list[float]:
    """steps + 1 points from 0 to 1, shifted; float32 arithmetic, as upstream's, since it decides roundings."""
    t = torch.linspace(0.0, 1.0, steps + 1)
    return (shift * t / (1 + (shift - 1) * t)).tolist()


def reveal_counts(tokens: int, steps: int, shift: float) -> tuple[int, ...]:
    """Tokens to reveal at each step; they sum to `tokens`, and 0 follows once none are left."""
    grid, left, counts = time_grid(steps, shift), tokens, []
    for step in range(steps):
        share = math.ceil(tokens * (grid[step + 1] - grid[step]))
        count = left if step == steps - 1 else min(share, left)
        counts.append(count)
        left -= count
    return tuple(counts)
