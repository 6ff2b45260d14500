"""Convolutions that are quicker on a CPU as matrix products: few positions with wide weights, and one output channel.

A convolution library lays the weights out anew at each call. Where they are tens of megabytes and the positions a
hundred, that takes longer than the sum itself; a product takes the weights as they are stored. Each function is the
layer itself where that does not hold, on other devices, and where a host has to prepare the weights first.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import linear, weights_are_plain

FEW = 8  # outputs of a layer for each position, from which on its weights weigh more


def strided_conv(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x); x [1, C, L] -> [1, C', L']."""
    if isinstance(layer, nn.Conv1d) and weights_are_plain(layer, x):
        (kernel,), (stride,), padding = layer.kernel_size, layer.stride, int(layer.padding[0])
        if FEW * x.shape[2] <= stride * layer.out_channels:
            seen = F.pad(x[0], (padding, padding)).unfold(1, kernel, stride)  # [C, L', kernel]
            return linear(seen.transpose(0, 1).flatten(1), layer.weight.flatten(1), layer.bias).T[None]
    return _itself(layer, x)


def to_one_channel(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x), a convolution to one channel that keeps the length: all taps in one product, then moved and added."""
    if isinstance(layer, nn.Conv1d) and layer.bias is not None and weights_are_plain(layer, x):
        kernel, L = layer.kernel_size[0], x.shape[2]
        taps = F.pad(torch.mm(layer.weight[0].T, x[0]), (kernel // 2, kernel // 2))  # [kernel, L + kernel - 1]
        out = layer.bias + taps[0, :L]
        for tap in range(1, kernel):
            out += taps[tap, tap : tap + L]
        return out[None, None]
    return _itself(layer, x)


def _itself(layer: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = layer(x)
    return result
