"""The layer seam: where weighted layers come from, and which library multiplies their matrices.

Every weighted layer in `lm/` and `codec/` is made through an `Ops`, always with `device=` and `dtype=`.
`torch.nn` is the default; inside ComfyUI the host passes `comfy.ops.manual_cast`, and that alone buys
offloading, partial loading and fp8. Raw parameters (Snake, codebooks) are cast where they are used, with
`cast_to_input`.

Unusual: float32 products on a CPU go to the faster of the two libraries that torch carries. `F.linear` goes to MKL,
which runs at half speed on some processors; oneDNN is reached through a private operator of torch, so whether it is
there, right and faster is found out by a probe of milliseconds, once a process and thread count. No weights are
copied or repacked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Ops(Protocol):
    """The constructors that a layer library must offer; `torch.nn` and `comfy.ops.manual_cast` both do."""

    @property
    def Linear(self) -> Callable[..., nn.Module]: ...

    @property
    def Conv1d(self) -> Callable[..., nn.Module]: ...

    @property
    def ConvTranspose1d(self) -> Callable[..., nn.Module]: ...

    @property
    def Embedding(self) -> Callable[..., nn.Module]: ...

    @property
    def LayerNorm(self) -> Callable[..., nn.Module]: ...

    @property
    def GroupNorm(self) -> Callable[..., nn.Module]: ...

    @property
    def RMSNorm(self) -> Callable[..., nn.Module]: ...


LinearFunction = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]

PROBE_ROWS, PROBE_IN, PROBE_OUT = 128, 1024, 1024  # the model's own order of size
PROBE_RUNS = 5
WORTH_IT = 1.05  # a gain below that may be noise
TOLERANCE = 1e-4  # of products of this size; a broken kernel is off by far more


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear(x, weight, bias); x [..., in], weight [out, in], bias [out] or None -> [..., out]."""
    if x.device.type != "cpu" or x.dtype != torch.float32 or weight.dtype != torch.float32 or torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    return cpu_backend(torch.get_num_threads())(x, weight, bias)


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same through oneDNN's inner product (torch aten/src/ATen/native/mkldnn/Linear.cpp)."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


@lru_cache(maxsize=8)
def cpu_backend(threads: int) -> LinearFunction:
    """The backend for this many threads; the probe draws no random numbers and leaves nothing behind."""
    if not torch.backends.mkldnn.is_available():
        return F.linear
    x = torch.linspace(-1, 1, PROBE_ROWS * PROBE_IN).view(PROBE_ROWS, PROBE_IN)
    weight = torch.linspace(1, -1, PROBE_OUT * PROBE_IN).view(PROBE_OUT, PROBE_IN) / PROBE_IN**0.5
    try:
        difference = (onednn_linear(x, weight) - F.linear(x, weight)).abs().max()
    except (AttributeError, RuntimeError, NotImplementedError):  # another torch, or built without it
        return F.linear
    if not float(difference) <= TOLERANCE:
        return F.linear
    ours, theirs = (_fastest(call, x, weight) for call in (onednn_linear, F.linear))
    return onednn_linear if ours * WORTH_IT < theirs else F.linear


def _fastest(call: LinearFunction, x: Tensor, weight: Tensor) -> float:
    """Seconds of the fastest of a few runs."""
    best = float("inf")
    for _ in range(PROBE_RUNS):
        start = time.perf_counter()
        call(x, weight, None)
        best = min(best, time.perf_counter() - start)
    return best


class FastLinear(torch.nn.Linear):
    """torch.nn's linear layer, through `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


class TorchOps:
    """Plain `torch.nn` layers: weights live on one device, in one dtype."""

    Linear = FastLinear
    Conv1d = torch.nn.Conv1d
    ConvTranspose1d = torch.nn.ConvTranspose1d
    Embedding = torch.nn.Embedding
    LayerNorm = torch.nn.LayerNorm
    GroupNorm = torch.nn.GroupNorm
    RMSNorm = torch.nn.RMSNorm


TORCH_OPS: Ops = TorchOps()


def cast_to_input(parameter: Tensor, x: Tensor) -> Tensor:
    """`parameter` on the device and in the dtype of `x`; the parameter itself when it is there already."""
    return parameter.to(device=x.device, dtype=x.dtype)
