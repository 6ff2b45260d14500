"""Long signals a piece at a time, so that what a layer makes is still in the cache when the next one reads it.

Unusual: nothing is approximated. A layer's outputs depend on inputs at most so far away; each tile is run with that
much more on both sides, and what that spoils is cut off. On a CPU the codec's tensors of 15-30 MB are otherwise
written to memory and read back at every layer, which costs a third of the time. GPUs take all at once: they have the
bandwidth, and small launches would cost them more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..ops import fastest_seconds

Layer = Callable[[Tensor], Tensor]  # [B, C, L] -> [B, C', L']

TILE = 8192  # rows of the output, or of the input where that is longer
PIECE = 1 << 16  # elements of an elementwise chain at once: 256 kB, its two buffers fit the second-level cache
PROBE_SIZE, PROBE_RANGE = 1 << 15, 300.0
TOLERANCE = 1e-6


def on_cpu(run: Layer, x: Tensor, tile: int, *, before: int, after: int, up: int = 1, down: int = 1) -> Tensor:
    """run(x), on a CPU `tile` positions at a time. x [B, C, L]; `up` positions come out for every `down` that go in.

    An output depends on inputs at most `before` and `after` away; `tile` and `before` must be multiples of `down`.
    """
    return in_tiles(run, x, tile, before=before, after=after, up=up, down=down) if x.device.type == "cpu" else run(x)


def in_tiles(run: Layer, x: Tensor, tile: int, *, before: int, after: int, up: int = 1, down: int = 1) -> Tensor:
    """The same on every device."""
    L = x.shape[-1]
    parts = []
    for start in range(0, L, tile):
        low = max(0, start - before)
        first = (start - low) // down * up
        if start + tile + after >= L:  # the rest is no longer than a tile: with it, and all that `run` makes of it
            parts.append(run(x[..., low:])[..., first:])
            break
        parts.append(run(x[..., low : start + tile + after])[..., first : first + tile // down * up])
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def snake(x: Tensor, alpha: Tensor, *, fast: bool) -> Tensor:
    """x + sin(alpha * x)^2 / alpha on one thread of a CPU: with more, waiting for each other at every piece costs more
    than the cache brings. x [1, C, L], alpha [1, C, 1]. fast: with the quicker of two sines, whose
    last bits may differ from torch's."""
    out, inverse = torch.empty(x.shape, dtype=x.dtype, device=x.device), (alpha + 1e-9).reciprocal()
    sine = fastest_sine() if fast and x.dtype == torch.float32 else torch.sin_
    channels = max(1, PIECE // x.shape[-1])
    for part, a, b, into in zip(*(t.split(channels, dim=1) for t in (x, alpha, inverse, out))):
        torch.addcmul(part, sine(torch.mul(part, a)).square_(), b, out=into)
    return out


def numpy_sine(x: Tensor) -> Tensor:
    """sin(x) in place; float32 within 1e-7, as torch's."""
    values = x.numpy()
    np.sin(values, out=values)
    return x


@lru_cache(maxsize=1)
def fastest_sine() -> Callable[[Tensor], Tensor]:
    """torch's sine or numpy's, which takes half the time where numpy has vector code for the processor: found out by a
    probe of a millisecond, once a process."""
    x = torch.linspace(-PROBE_RANGE, PROBE_RANGE, PROBE_SIZE)
    if not float((numpy_sine(x.clone()) - x.sin()).abs().max()) <= TOLERANCE:
        return torch.sin_
    ours, theirs = (fastest_seconds(call, lambda: (x.clone(),)) for call in (numpy_sine, torch.sin_))
    return numpy_sine if ours < theirs else torch.sin_
