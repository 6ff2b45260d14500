"""The factory that every module of the codec makes its layers with: an `Ops` with device and dtype filled in.

Weights are not initialised here, because the loader fills every one. Only leaf modules have raw parameters, which are
cast where they are used (`ops.cast_to_input`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import Ops, weights_are_plain


def exact_linear(layer: nn.Module, x: Tensor) -> Tensor:
    """Return layer(x), computed by torch's own product, which rounds as upstream does.

    It is used where rounding can change a code or reaches the decoder's first stages: with some weights, the audio
    magnifies an error there a hundredfold. The products are small.
    """
    if isinstance(layer, nn.Linear) and weights_are_plain(layer, x):
        return F.linear(x, layer.weight, layer.bias)
    return layer(x)


@dataclass(frozen=True)
class LayerFactory:
    """Makes weighted layers on one device, in one dtype."""

    ops: Ops
    device: torch.device | str | None
    dtype: torch.dtype

    def linear(self, inputs: int, outputs: int) -> nn.Module:
        """Make a linear layer with bias: [..., inputs] -> [..., outputs]."""
        return self.ops.Linear(inputs, outputs, device=self.device, dtype=self.dtype)

    def conv1d(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> nn.Module:
        """Make a convolution: [B, inputs, L] -> [B, outputs, L']."""
        return self.ops.Conv1d(
            inputs,
            outputs,
            kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            bias=bias,
            device=self.device,
            dtype=self.dtype,
        )

    def upsample(self, inputs: int, outputs: int, stride: int) -> nn.Module:
        """Make a transposed convolution: [B, inputs, L] -> [B, outputs, L * stride], also for odd strides."""
        return self.ops.ConvTranspose1d(
            inputs,
            outputs,
            2 * stride,
            stride=stride,
            padding=(stride + 1) // 2,
            output_padding=stride % 2,
            device=self.device,
            dtype=self.dtype,
        )

    def layer_norm(self, width: int, eps: float) -> nn.Module:
        """Make a layer norm over the last dimension."""
        return self.ops.LayerNorm(width, eps=eps, device=self.device, dtype=self.dtype)

    def channel_norm(self, channels: int) -> nn.Module:
        """Make a norm of [B, channels, L] that treats each channel separately, over the whole length."""
        return self.ops.GroupNorm(channels, channels, device=self.device, dtype=self.dtype)

    def parameter(self, *shape: int) -> nn.Parameter:
        """Make a raw parameter, uninitialised."""
        return nn.Parameter(torch.empty(shape, device=self.device, dtype=self.dtype), requires_grad=False)
