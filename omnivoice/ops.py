"""Where weighted layers come from, and which library multiplies their matrices.

Every weighted layer in `lm/` and `codec/` is made through an `Ops`, always with `device=` and `dtype=`. `torch.nn` is
the default. ComfyUI supplies `comfy.ops.manual_cast`, which is all it needs for offloading, partial loading and fp8.
Raw parameters (Snake, codebooks) are cast where they are used, with `cast_to_input`.

float32 products on a CPU use oneDNN. `F.linear` uses MKL, which is equally fast on most processors and at half speed on
some. oneDNN is reached through a private operator of torch, so a short probe finds out, once for each process and
number of threads, whether it exists, is right and is not clearly slower. The two differ in the last bit, so a probe
that took whichever is a little faster would give another sound from process to process. No weights are copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.cuda import OutOfMemoryError


class Ops(Protocol):
    """The constructors of a layer library, such as `torch.nn` and `comfy.ops.manual_cast`."""

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


LinearFunction = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]

PROBE_ROWS, PROBE_IN, PROBE_OUT = 128, 1024, 1024  # the order of magnitude of the model's layers
PROBE_RUNS = 15
CLEARLY_SLOWER = 3.0  # a busy machine makes up to 1.8 of equally fast functions
WORTH_ROUNDING = 1.3  # bfloat16 changes the speech slightly, so it must gain more
TOLERANCE = 1e-4  # for products of this size; a broken kernel differs by far more
WIDENED_TOLERANCE = 1e-2  # of a product that a GPU may compute in TF32 for comparison
# Attributes of ComfyUI's layers whose weights are patched when a layer runs, or paged in on demand.
PATCHED, PAGED = ("weight_function", "bias_function"), "_v"
PLAIN_TENSORS: tuple[type, ...] = (Tensor, nn.Parameter)  # without a class of a host's own, such as quantised weights


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute F.linear(x, weight, bias); x [..., in], weight [out, in], bias [out] or None -> [..., out]."""
    if not _is_plain(x) or not _is_plain(weight) or torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    return cpu_backend(torch.get_num_threads())(x, weight, bias)


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute the same with oneDNN's inner product (torch aten/src/ATen/native/mkldnn/Linear.cpp)."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


@lru_cache(maxsize=8)
def cpu_backend(threads: int) -> LinearFunction:
    """Return oneDNN's function, or torch's where that is missing, wrong or clearly slower with this many threads.

    The probe draws no random numbers and keeps nothing.
    """
    if not torch.backends.mkldnn.is_available():
        return F.linear
    x, weight = _probe_operands()
    try:
        difference = (onednn_linear(x, weight) - F.linear(x, weight)).abs().max()
    except (AttributeError, RuntimeError, NotImplementedError):  # another version of torch, or one built without oneDNN
        return F.linear
    if not float(difference) <= TOLERANCE:
        return F.linear
    ours, theirs = fastest_seconds((onednn_linear, F.linear), lambda: (x, weight, None))
    return F.linear if ours > theirs * CLEARLY_SLOWER else onednn_linear


@lru_cache(maxsize=8)
def cpu_has_fast_bf16(threads: int) -> bool:
    """Whether this many threads multiply bfloat16 clearly faster than float32. Processors with avx512_bf16, AMX or
    Arm's BF16 do; all others are slower."""
    x, weight = _probe_operands()
    multiply, given = cpu_backend(threads), (x.to(torch.bfloat16), weight.to(torch.bfloat16))
    exact, rounded = fastest_seconds((lambda: multiply(x, weight, None), lambda: F.linear(*given)), tuple)
    return rounded * WORTH_ROUNDING < exact


def _probe_operands() -> tuple[Tensor, Tensor]:
    x = torch.linspace(-1, 1, PROBE_ROWS * PROBE_IN).view(PROBE_ROWS, PROBE_IN)
    return x, torch.linspace(1, -1, PROBE_OUT * PROBE_IN).view(PROBE_OUT, PROBE_IN) / PROBE_IN**0.5


def fastest_seconds(calls: Sequence[Callable[..., object]], arguments: Callable[[], tuple[object, ...]]) -> list[float]:
    """Return the seconds of the fastest of several runs of each function, which take turns so that a busy machine slows
    all alike; making their arguments is not timed."""
    best = [float("inf")] * len(calls)
    for _ in range(PROBE_RUNS):
        for index, call in enumerate(calls):
            given = arguments()
            start = time.perf_counter()
            call(*given)
            best[index] = min(best[index], time.perf_counter() - start)
    return best


@dataclass(frozen=True)
class LayerLibrary:
    """An `Ops` made of separate constructors."""

    Linear: Callable[..., nn.Module]
    Conv1d: Callable[..., nn.Module]
    ConvTranspose1d: Callable[..., nn.Module]
    Embedding: Callable[..., nn.Module]
    LayerNorm: Callable[..., nn.Module]
    GroupNorm: Callable[..., nn.Module]


def with_fast_linear(base: Ops) -> Ops:
    """Return `base` with linear layers that use the faster library when their weights can be used directly. Layers of a
    host that must move, cast or patch a weight first still do so themselves."""

    class FastLinear(base.Linear):  # type: ignore[name-defined]
        def forward(self, x: Tensor) -> Tensor:
            if weights_are_plain(self, x) and not torch.is_grad_enabled():
                return cpu_backend(torch.get_num_threads())(x, self.weight, self.bias)
            return super().forward(x)

    return LayerLibrary(FastLinear, base.Conv1d, base.ConvTranspose1d, base.Embedding, base.LayerNorm, base.GroupNorm)


def weights_are_plain(module: nn.Module, x: Tensor) -> bool:
    """Whether the weights inside `module` can be read directly for an input like `x`: on a CPU, in float32.

    They cannot if a host keeps them on another device or in another dtype, or changes them when a layer runs.
    """
    if not _is_plain(x) or any(type(p) is not nn.Parameter or not _is_plain(p) for p in module.parameters()):
        return False
    return not any(getattr(layer, name, None) for layer in module.modules() for name in (*PATCHED, PAGED))


def _is_plain(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype == torch.float32


def convert_weights(layer: nn.Module, dtype: torch.dtype) -> None:
    """Convert the weights of a linear layer in place, except those that a host casts whenever the layer runs."""
    if not getattr(layer, "comfy_cast_weights", False):
        layer.to(dtype)


def add_linear(layer: nn.Module, x: Tensor, residual: Tensor) -> Tensor:
    """Return residual + layer(x), for a linear layer without bias; x [R, in], residual [R, out] -> [R, out].

    The result has the dtype of the residual, which may be overwritten. Where a GPU can, the product is added to a
    float32 residual as it is computed: one kernel instead of two, and the product is not rounded to half precision.
    """
    weight = getattr(layer, "weight", None)
    if isinstance(weight, Tensor) and _adds_products(layer, weight, x, residual):
        return torch.addmm(residual, x, weight.t(), out_dtype=residual.dtype, out=residual)
    change: Tensor = layer(x)
    if change.dtype == residual.dtype:
        return change.add_(residual)
    return residual + change if torch.is_grad_enabled() else residual.add_(change)


def _adds_products(layer: nn.Module, weight: Tensor, x: Tensor, residual: Tensor) -> bool:
    """Whether `torch.addmm` may use the weight of this layer directly, and works for these dtypes on this device."""
    return (
        x.device.type == "cuda"
        and not torch.is_grad_enabled()
        and type(weight) in PLAIN_TENSORS
        and weight.device == x.device
        and weight.dtype == x.dtype != residual.dtype
        and not any(getattr(layer, name, None) for name in (*PATCHED, PAGED))
        and _addmm_widens(x.device, x.dtype, residual.dtype)
    )


@lru_cache(maxsize=8)
def _addmm_widens(device: torch.device, dtype: torch.dtype, out_dtype: torch.dtype) -> bool:
    """Whether `torch.addmm` adds products of `dtype` to a tensor of `out_dtype`, in place (torch >= 2.10, CUDA)."""
    x, weight = (t[:, :64].to(device, dtype) for t in _probe_operands())
    residual = torch.ones(PROBE_ROWS, PROBE_OUT, device=device, dtype=out_dtype)
    expected = 1 + x.to(out_dtype) @ weight.to(out_dtype).t()
    try:
        torch.addmm(residual, x, weight.t(), out_dtype=out_dtype, out=residual)
    except OutOfMemoryError:  # says nothing about the operator
        raise
    except (NotImplementedError, RuntimeError, TypeError):
        return False
    return float((residual - expected).abs().max()) <= WIDENED_TOLERANCE


def _unset(layer: type[nn.Module]) -> Callable[..., nn.Module]:
    """Return the same layer, whose weights are not set: the loader fills every one. Drawing them for nothing takes
    time, and drawing those of an embedding on the meta device makes torch import its compiler, which takes a second."""
    return type(layer.__name__, (layer,), {"__module__": __name__, "reset_parameters": lambda self: None})


PLAIN_OPS: Ops = LayerLibrary(
    *map(_unset, (nn.Linear, nn.Conv1d, nn.ConvTranspose1d, nn.Embedding, nn.LayerNorm, nn.GroupNorm))
)
TORCH_OPS: Ops = with_fast_linear(PLAIN_OPS)


def cast_to_input(parameter: Tensor, x: Tensor) -> Tensor:
    """Return `parameter` on the device and in the dtype of `x`; without a copy if it has both already."""
    return parameter.to(device=x.device, dtype=x.dtype)
