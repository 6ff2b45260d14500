"""Where the documents of a packed row begin and end, and which of their rows are targets.

A batch is a list of documents placed end to end in one row of S positions, without padding. Every linear layer and
norm runs on that row. Attention runs inside each document, without a mask, and positions restart at 0 in each. The
heads, and the last layer's attention and MLP, run on target rows only. The layout is made once per batch and is
constant over the sampling steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Spans:
    """Documents that lie end to end: the length of each, and where they end, [documents + 1] int32 from 0 on.

    bound: the most that kernels are told of the longest document, if that is more.
    """

    lengths: tuple[int, ...]
    ends: Tensor
    bound: int = 0

    @classmethod
    def of(cls, lengths: Sequence[int], device: torch.device) -> Spans:
        """Return the spans of documents of these lengths, at least one."""
        return cls(tuple(lengths), torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device))

    @cached_property
    def longest(self) -> int:
        """The length of the longest document, or a bound of it."""
        return max(self.bound, *self.lengths)

    def first(self, documents: int) -> Spans:
        """Return the spans of the first documents only."""
        return Spans(self.lengths[:documents], self.ends[: documents + 1])


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Constants of one packed row.

    rows: the documents in the row. targets: how many rows of each, at its end, are targets. keys: the rows that each
    document attends to; the same as `rows`, unless some of them are cached. target_rows: [R] int64, the targets'
    positions in the row. rope: (cos, sin) as `rotary_table` makes them.
    """

    rows: Spans
    targets: Spans
    keys: Spans
    target_rows: Tensor
    rope: tuple[Tensor, Tensor]

    @classmethod
    def build(
        cls, lengths: Sequence[int], targets: Sequence[int], *, head_dim: int, theta: float, device: torch.device
    ) -> PackedLayout:
        """Return the layout of documents of `lengths[i]` rows, the last `targets[i]` targets. theta: RoPE base."""
        assert len(lengths) == len(targets) and all(0 < t <= n for n, t in zip(lengths, targets))
        indices = torch.cat([torch.arange(end - t, end) for end, t in zip(accumulate(lengths), targets)])
        positions = torch.cat([torch.arange(n) for n in lengths])
        cos, sin = rotary_table(positions, head_dim, theta)
        rows = Spans.of(lengths, device)
        return cls(rows, Spans.of(targets, device), rows, indices.to(device), (cos.to(device), sin.to(device)))

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of rows of each document."""
        return self.rows.lengths

    @property
    def target_lengths(self) -> tuple[int, ...]:
        """Number of target rows of each document."""
        return self.targets.lengths

    @cached_property
    def rotation(self) -> Tensor:
        """The rotary embedding as matrices [S, 2, 2, D/2] float32: half i of a head times [:, o, i] adds to half o."""
        cos, sin = self.rope
        (c, _), (minus_s, s) = cos.chunk(2, dim=-1), sin.chunk(2, dim=-1)
        return torch.stack((torch.stack((c, minus_s), dim=1), torch.stack((s, c), dim=1)), dim=1)

    def first(self, documents: int) -> PackedLayout:
        """Return the layout of the first `documents` documents only."""
        rows, targets, keys = (spans.first(documents) for spans in (self.rows, self.targets, self.keys))
        cos, sin = (table[: sum(rows.lengths)] for table in self.rope)
        return PackedLayout(rows, targets, keys, self.target_rows[: sum(targets.lengths)], (cos, sin))

    def without_prefix(self) -> PackedLayout:
        """Return the layout of a row that holds only the targets, at the positions they have here. They attend to the
        complete documents, whose other keys and values a cache adds."""
        cos, sin = (table[self.target_rows] for table in self.rope)
        rows = torch.arange(len(self.target_rows), device=self.target_rows.device)
        return PackedLayout(self.targets, self.targets, self.keys, rows, (cos, sin))

    def documents(self) -> list[tuple[slice, PackedLayout]]:
        """Return the rows and the layout of each document separately."""
        parts, start, first, device = [], 0, 0, self.target_rows.device
        for length, targets in zip(self.lengths, self.target_lengths):
            part = slice(start, start + length)
            rows = Spans.of([length], device)
            rope = (self.rope[0][part], self.rope[1][part])
            own = self.target_rows[first : first + targets] - start
            parts.append((part, PackedLayout(rows, Spans.of([targets], device), rows, own, rope)))
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
