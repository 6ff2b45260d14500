"""Where the documents of a packed row begin and end, and which of their rows are targets.

A batch is a list of documents placed end to end in one row of S positions, without padding. Every linear layer and
norm runs on that row. Attention runs inside each document, without a mask, and positions restart at 0 in each. The
heads, and the last layer's attention and MLP, run on target rows only. The layout is made once per batch and is
constant over the sampling steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Constants of one packed row.

    lengths: rows of each document. target_lengths: how many of them, at the end, are targets. target_rows: [R]
    int64, the targets' positions in the row. rope: (cos, sin) as `rotary_table` makes them.
    """

    lengths: tuple[int, ...]
    target_lengths: tuple[int, ...]
    target_rows: Tensor
    rope: tuple[Tensor, Tensor]

    @classmethod
    def build(
        cls, lengths: Sequence[int], targets: Sequence[int], *, head_dim: int, theta: float, device: torch.device
    ) -> PackedLayout:
        """Return the layout of documents of `lengths[i]` rows, the last `targets[i]` targets. theta: RoPE base."""
        assert len(lengths) == len(targets) and all(0 < t <= n for n, t in zip(lengths, targets))
        rows = torch.cat([torch.arange(end - t, end) for end, t in zip(accumulate(lengths), targets)])
        positions = torch.cat([torch.arange(n) for n in lengths])
        cos, sin = rotary_table(positions, head_dim, theta)
        return cls(tuple(lengths), tuple(targets), rows.to(device), (cos.to(device), sin.to(device)))

    def first(self, documents: int) -> PackedLayout:
        """Return the layout of the first `documents` documents only."""
        lengths, targets = self.lengths[:documents], self.target_lengths[:documents]
        cos, sin = (table[: sum(lengths)] for table in self.rope)
        return PackedLayout(lengths, targets, self.target_rows[: sum(targets)], (cos, sin))

    def without_prefix(self) -> PackedLayout:
        """Return the layout of a row that holds only the targets, at the positions they have here."""
        cos, sin = (table[self.target_rows] for table in self.rope)
        rows = torch.arange(len(self.target_rows), device=self.target_rows.device)
        return PackedLayout(self.target_lengths, self.target_lengths, rows, (cos, sin))

    def documents(self) -> list[tuple[slice, PackedLayout]]:
        """Return the rows and the layout of each document separately."""
        parts, start, first = [], 0, 0
        for length, targets in zip(self.lengths, self.target_lengths):
            rows = slice(start, start + length)
            rope = (self.rope[0][rows], self.rope[1][rows])
            own = self.target_rows[first : first + targets] - start
            parts.append((rows, PackedLayout((length,), (targets,), own, rope)))
            start, first = start + length, first + targets
        return parts


def rotary_table(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return cos and sin [S, D] float32 of the rotary embedding (transformers modeling_qwen3.py:117).

    The first half of sin is negated, so that x * cos + (halves of x swapped) * sin is the rotation. They are computed
    on the CPU, so that every device uses the same numbers.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim  # [D/2]
    angles = positions.to(torch.float32)[:, None] * (1.0 / (theta**exponents))[None, :]  # [S, D/2]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
