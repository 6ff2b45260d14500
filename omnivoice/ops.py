"""The layer seam: where weighted layers come from.

Every weighted layer in `lm/` and `codec/` is made through an `Ops`, always with `device=` and `dtype=`.
`torch.nn` is the default; inside ComfyUI the host passes `comfy.ops.manual_cast`, and that alone buys
offloading, partial loading and fp8. Raw parameters (Snake, codebooks) are cast where they are used, with
`cast_to_input`. This file makes no layers and holds no state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
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


class TorchOps:
    """Plain `torch.nn` layers: weights live on one device, in one dtype."""

    Linear = torch.nn.Linear
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
