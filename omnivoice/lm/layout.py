"""Where the documents of a packed row begin and end, and which of their rows are targets.

A batch is not a padded rectangle but a list of documents laid end to end in one row of S positions. Every
linear and norm runs on that row; attention runs inside each document, without a mask; positions restart at
0 in each; heads, and the last layer's queries and MLP, run on target rows only (design.md, "No padding").
The layout is made once per batch and is constant over the sampling steps. It knows no weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class PackedLayout:
    """Constants of one packed row.

    spans: [start, end) of each document in the row. target_spans: of each document's targets within the row
    of targets only. target_rows: [R] int64, the targets' positions in the row. rope, target_rope: (cos, sin)
    float32 [S, D] and [R, D].
    """

    spans: tuple[Span, ...]
    target_spans: tuple[Span, ...]
    target_rows: Tensor
    rope: tuple[Tensor, Tensor]
    target_rope: tuple[Tensor, Tensor]

    @classmethod
    def build(
        cls, lengths: Sequence[int], targets: Sequence[int], *, head_dim: int, theta: float, device: torch.device
    ) -> PackedLayout:
        """`lengths[i]` rows of which the last `targets[i]` are targets; D = head_dim, theta = RoPE base."""
        assert len(lengths) == len(targets) and all(0 < t <= n for n, t in zip(lengths, targets))
        spans, target_spans = _spans(lengths), _spans(targets)
        rows = torch.cat([torch.arange(end - t, end) for (_, end), t in zip(spans, targets)])
        positions = torch.cat([torch.arange(n) for n in lengths])
        cos, sin = rotary_table(positions, head_dim, theta)
        rows, cos, sin = rows.to(device), cos.to(device), sin.to(device)
        return cls(spans, target_spans, rows, (cos, sin), (cos[rows], sin[rows]))


def _spans(lengths: Sequence[int]) -> tuple[Span, ...]:
    spans, start = [], 0
    for length in lengths:
        spans.append((start, start + length))
        start += length
    return tuple(spans)


def rotary_table(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """cos and sin [S, D] float32 of the rotary embedding (transformers modeling_qwen3.py:117).

    Computed on the CPU, so that every device rotates by the same numbers.
    """
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim  # [D/2]
    angles = positions.to(torch.float32)[:, None] * (1.0 / (theta**exponents))[None, :]  # [S, D/2]
    angles = torch.cat((angles, angles), dim=-1)  # [S, D]
    return angles.cos(), angles.sin()
