"""Runs layers over long signals one tile at a time, which saves time on a CPU and memory everywhere.

Nothing is approximated. An output depends only on inputs within a known distance; each tile is run with that much
context on both sides, and the outputs that lack context are cut off. On a CPU, a tile stays in the cache from layer to
layer; without tiles, the codec's tensors of 15-30 MB are written to memory and read back at every layer, which costs a
third of the time. GPUs have the bandwidth, and small launches would cost them more, so their tiles are large: 5 s of
audio are still one tile, and the memory of a minute is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ..intake.cancel import cancellable
from ..ops import CLEARLY_SLOWER, fastest_seconds

Layer = Callable[[Tensor], Tensor]  # [B, C, L] -> [B, C', L']

# In positions of the output, or of the input where that is longer. The codec's widest stage holds 1 kB per position.
CPU_TILE_LENGTH, TILE_LENGTH = 8192, 1 << 17
BLOCK_SIZE = 1 << 16  # elements of an elementwise chain: 256 kB, so that its two buffers fit the second-level cache
PROBE_SIZE, PROBE_RANGE = 1 << 15, 300.0
TOLERANCE = 1e-6


def on_cpu(x: Tensor) -> bool:
    """Whether `x` is on a CPU, where tiles are small."""
    return x.device.type == "cpu"


def tile_length(*, on_cpu: bool) -> int:
    """Return how many positions a tile has."""
    return CPU_TILE_LENGTH if on_cpu else TILE_LENGTH


def run_tiled(run: Layer, x: Tensor, tile: int, *, before: int, after: int, up: int = 1, down: int = 1) -> Tensor:
    """Return run(x), computed `tile` positions at a time.

    x: [B, C, L]. up, down: `up` outputs for every `down` inputs. before, after: how far away the inputs can be that an
    output depends on. `tile` and `before` must be multiples of `down`.
    """
    L = x.shape[-1]
    parts = []
    for start in cancellable(range(0, L, tile)):
        low = max(0, start - before)
        first = (start - low) // down * up
        if start + tile + after >= L:  # what is left is no longer than a tile: run it together
            parts.append(run(x[..., low:])[..., first:])
            break
        parts.append(run(x[..., low : start + tile + after])[..., first : first + tile // down * up])
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


def snake(x: Tensor, alpha: Tensor, *, fast: bool) -> Tensor:
    """Return x + sin(alpha * x)^2 / alpha, block by block, for one CPU thread; x [1, C, L], alpha [1, C, 1].

    With more threads, waiting for each other at every block costs more than the cache saves. fast: use the faster of
    two sines, whose last bits may differ from torch's.
    """
    out, inverse = torch.empty(x.shape, dtype=x.dtype, device=x.device), (alpha + 1e-9).reciprocal()
    sine = fastest_sine() if fast and x.dtype == torch.float32 else torch.sin_
    channels = max(1, BLOCK_SIZE // x.shape[-1])
    for part, a, b, into in zip(*(t.split(channels, dim=1) for t in (x, alpha, inverse, out))):
        torch.addcmul(part, sine(torch.mul(part, a)).square_(), b, out=into)
    return out


def numpy_sine(x: Tensor) -> Tensor:
    """Replace x by sin(x), float32 and within 1e-7 as torch's sine is, and return it."""
    values = x.numpy()
    np.sin(values, out=values)
    return x


@lru_cache(maxsize=1)
def fastest_sine() -> Callable[[Tensor], Tensor]:
    """Return numpy's sine, or torch's where numpy's is wrong or, by a short probe once per process, clearly slower.

    numpy's takes half the time where numpy has vector code for the processor, and a multiple elsewhere.
    """
    x = torch.linspace(-PROBE_RANGE, PROBE_RANGE, PROBE_SIZE)
    if not float((numpy_sine(x.clone()) - x.sin()).abs().max()) <= TOLERANCE:
        return torch.sin_
    numpys, torchs = fastest_seconds((numpy_sine, torch.sin_), lambda: (x.clone(),))
    return torch.sin_ if numpys > torchs * CLEARLY_SLOWER else numpy_sine
