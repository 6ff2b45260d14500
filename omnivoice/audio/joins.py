"""Where sounds begin, end and meet: linear fades, silence between chunks, pads at the ends.

Ramps are numpy's float64 `linspace` rounded to float32, as upstream's; torch's differ in the last bit. No overlap:
"cross-fade" upstream means fade out, zeros, fade in. Inputs are never changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def _ramp(first: float, last: float, count: int) -> Tensor:
    return torch.from_numpy(np.linspace(first, last, count, dtype=np.float32))


def fade(samples: Tensor, *, fade_in: int, fade_out: int) -> Tensor:
    """[C, N] -> a copy whose first and last samples rise from and fall to zero; each at most half of N."""
    faded = samples.clone()
    half = samples.shape[1] // 2
    fade_in, fade_out = min(fade_in, half), min(fade_out, half)
    if fade_in > 0:
        faded[:, :fade_in] *= _ramp(0, 1, fade_in)
    if fade_out > 0:
        faded[:, -fade_out:] *= _ramp(1, 0, fade_out)
    return faded


def gap_samples(sample_rate: int, gap_seconds: float = 0.3) -> int:
    """Zeros between two chunks: a third of the gap, the rest being fades (utils/audio.py:329)."""
    return int(gap_seconds * sample_rate) // 3


def join_chunks(chunks: Sequence[Tensor], sample_rate: int, *, gap_seconds: float = 0.3) -> Tensor:
    """Chunks [1, N_i] float32 -> [1, sum(N_i) + zeros]: fade out, zeros, fade in, a third of the gap each.

    As upstream utils/audio.py:307, but a chunk shorter than two fades fades over half its length at each end:
    upstream fades a short chunk over its whole length. A single chunk comes back as it is.
    """
    if len(chunks) == 1:
        return chunks[0]
    count = gap_samples(sample_rate, gap_seconds)
    parts: list[Tensor] = []
    for i, chunk in enumerate(chunks):
        if i > 0:
            parts.append(chunk.new_zeros(chunk.shape[0], count))
        parts.append(fade(chunk, fade_in=count if i > 0 else 0, fade_out=count if i < len(chunks) - 1 else 0))
    return torch.cat(parts, dim=1)
