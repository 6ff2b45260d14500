"""Convolutions computed as matrix products, which is faster on a CPU for few positions or one output channel.

A convolution library rearranges the weights on every call. For tens of megabytes of weights and a hundred positions,
that takes longer than the sum itself; a matrix product reads the weights as they are stored. Each function calls the
layer itself in all other cases: on other devices, and where a host must prepare the weights first.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import linear, weights_are_plain

OUTPUTS_PER_POSITION = 8  # from this ratio on, rearranging the weights costs more than the sum


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
