"""`Ops` with the device and dtype filled in: what every module of the codec makes its layers with.

Unusual: layers are left as the layer library leaves them; the loader fills every weight. Raw parameters are
for leaf modules only, and are cast where they are used (`ops.cast_to_input`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import Ops, weights_are_plain


def exact_linear(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x) through torch's own product, whose rounding is upstream's.

    For what a decision between codes or the decoder's first stages hang on: with some weights, one rounding there is a
    hundred times as large in the sound. The products are small.
    """
    if isinstance(layer, nn.Linear) and weights_are_plain(layer, x):
        return F.linear(x, layer.weight, layer.bias)
    result = layer(x)
    assert isinstance(result, Tensor)
    return result


@dataclass(frozen=True)
class Layers:
    """Constructors of weighted layers on one device, in one dtype."""

    ops: Ops
    device: torch.device | str | None
    dtype: torch.dtype

    def linear(self, inputs: int, outputs: int) -> nn.Module:
        """[..., inputs] -> [..., outputs], with bias."""
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
        """[B, inputs, L] -> [B, outputs, L']."""
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
        """[B, inputs, L] -> [B, outputs, L * stride]: transposed convolution, for odd strides too."""
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
        """Over the last dimension."""
        return self.ops.LayerNorm(width, eps=eps, device=self.device, dtype=self.dtype)

    def channel_norm(self, channels: int) -> nn.Module:
        """[B, channels, L]: each channel on its own over the whole length."""
        return self.ops.GroupNorm(channels, channels, device=self.device, dtype=self.dtype)

    def parameter(self, *shape: int) -> nn.Parameter:
        """A raw parameter, uninitialised."""
        return nn.Parameter(torch.empty(shape, device=self.device, dtype=self.dtype), requires_grad=False)
