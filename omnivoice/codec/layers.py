"""Makes the codec's layers, and computes a few of them as plain matrix products.

`LayerFactory` is an `Ops` with device and dtype filled in. Weights are not initialised here, because the loader fills
every one. Only leaf modules have raw parameters, which are cast where they are used (`ops.cast_to_input`).

The functions call the layer itself on other devices than the CPU, and where a host must prepare the weights first. A
matrix product reads the weights as they are stored. A convolution library rearranges them on every call, which takes
longer than the sum itself for tens of megabytes of weights and a hundred positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import Ops, linear, weights_are_plain

OUTPUTS_PER_POSITION = 8  # from this ratio on, rearranging the weights costs more than the sum


def exact_linear(layer: nn.Module, x: Tensor) -> Tensor:
    """Return layer(x), computed by torch's own product, which rounds as upstream does.

    It is used where rounding can change a code or reaches the decoder's first stages: with some weights, the audio
    magnifies an error there a hundredfold. The products are small.
    """
    if isinstance(layer, nn.Linear) and weights_are_plain(layer, x):
        return F.linear(x, layer.weight, layer.bias)
    return layer(x)


def strided_conv(layer: nn.Module, x: Tensor) -> Tensor:
    """Return layer(x); x [1, C, L] -> [1, C', L']."""
    if isinstance(layer, nn.Conv1d) and weights_are_plain(layer, x):
        (kernel,), (stride,), padding = layer.kernel_size, layer.stride, int(layer.padding[0])
        if OUTPUTS_PER_POSITION * x.shape[2] <= stride * layer.out_channels:
            inputs = F.pad(x[0], (padding, padding)).unfold(1, kernel, stride)  # [C, L', kernel]
            return linear(inputs.transpose(0, 1).flatten(1), layer.weight.flatten(1), layer.bias).T[None]
    return layer(x)


def single_channel_conv(layer: nn.Module, x: Tensor) -> Tensor:
    """Return layer(x) of a convolution to one channel that keeps the length: one product for all taps, then shifts."""
    if isinstance(layer, nn.Conv1d) and layer.bias is not None and weights_are_plain(layer, x):
        kernel, L = layer.kernel_size[0], x.shape[2]
        taps = F.pad(torch.mm(layer.weight[0].T, x[0]), (kernel // 2, kernel // 2))  # [kernel, L + kernel - 1]
        out = layer.bias + taps[0, :L]
        for tap in range(1, kernel):
            out += taps[tap, tap : tap + L]
        return out[None, None]
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

    def conv1d(self, inputs: int, outputs: int, kernel: int, *, bias: bool = True, **geometry: int) -> nn.Module:
        """Make a convolution: [B, inputs, L] -> [B, outputs, L']. geometry: stride, padding, dilation, groups."""
        return self.ops.Conv1d(inputs, outputs, kernel, bias=bias, device=self.device, dtype=self.dtype, **geometry)

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
