"""Root mean square normalisation, and the scale that a group of attention heads shares.

The weights are raw parameters of leaf modules in float32: a few kilobytes, which are not worth offloading or rounding.
Everything is computed in float32 and rounded once at the end. The reference rounds before it multiplies by
the weight (transformers modeling_qwen3.py:51); in float32 the two are equal. On a CPU, torch's own `rms_norm` is a
chain of twenty calls over the tensor. Here the sum of squares is one pass, and everything else is computed per row.
"""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import cast_to_input


class Scale(nn.Module):
    """One factor per feature: `weight` [..., D], float32 or wider whatever the dtype of the model."""

    def __init__(self, *shape: int, device: torch.device, dtype: torch.dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(shape, device=device, dtype=wide(dtype)))

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D], multiplied in place."""
        return x.mul_(cast_to_input(self.weight, x))


class RMSNorm(Scale):
    """Normalise to a mean square of 1, then scale. dtype: that of the result."""

    def __init__(self, width: int, eps: float, *, device: torch.device, dtype: torch.dtype):
        super().__init__(width, device=device, dtype=dtype)
        self.eps, self.dtype = eps, dtype

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] of the residual stream -> [..., D], a new tensor."""
        if x.device.type != "cpu":  # one kernel, and one more to round
            return F.rms_norm(x, self.weight.shape, cast_to_input(self.weight, x), self.eps).to(self.dtype)
        return super().forward(normalize(x, self.eps)).to(self.dtype)


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the residual stream and of what is computed between two matrix products."""
    return torch.promote_types(dtype, torch.float32)


def normalize(x: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dimension; x float32 or float64 -> a new tensor of the same dtype."""
    width = x.shape[-1]
    if x.device.type != "cpu":
        return F.rms_norm(x, (width,), None, eps)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    mean_square = torch.addcmul(_constant(eps), length, length, value=1 / width)  # eps + length^2 / width
    return x * mean_square.rsqrt_()


@lru_cache(maxsize=8)
def _constant(value: float) -> Tensor:
    """Return a scalar on the CPU that autograd accepts even if it is made in inference mode."""
    with torch.inference_mode(False):
        return torch.full((), value)
