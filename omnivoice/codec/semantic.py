"""The semantic encoder: convolutions over HuBERT features (modeling_higgs_audio_v2_tokenizer.py:246-322).

Module names equal the checkpoint's. The semantic decoder is used in training only and is not implemented.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from ..config import CodecConfig
from .layers import LayerFactory


class ResidualUnit(nn.Module):
    """A dilated and a pointwise convolution, each after an ELU, with a residual connection."""

    def __init__(self, channels: int, kernel: int, dilation: int, layers: LayerFactory):
        super().__init__()
        padding = (kernel - 1) // 2 * dilation
        self.conv1 = layers.conv1d(channels, channels, kernel, padding=padding, dilation=dilation, bias=False)
        self.conv2 = layers.conv1d(channels, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, C, L]."""
        return x + self.conv2(F.elu(self.conv1(F.elu(x))))


class SemanticBlock(nn.Module):
    """Residual units, then a convolution that can change width and length."""

    def __init__(self, config: CodecConfig, inputs: int, outputs: int, stride: int, layers: LayerFactory):
        super().__init__()
        units = [ResidualUnit(inputs, config.unit_kernel_size, d, layers) for d in config.block_dilations]
        self.res_units = nn.Sequential(*units)
        kernel = 3 if stride == 1 else 2 * stride
        self.conv = layers.conv1d(inputs, outputs, kernel, stride=stride, padding=(kernel - 1) // 2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, C', L / stride]."""
        return self.conv(self.res_units(x))


class SemanticEncoder(nn.Module):
    """Encodes HuBERT features into the semantic half of the quantizer's input."""

    def __init__(self, config: CodecConfig, layers: LayerFactory):
        super().__init__()
        width, kernel = config.semantic.hidden_size, config.kernel_size
        self.conv = layers.conv1d(width, width, kernel, padding=kernel // 2, bias=False)
        widths = [width, *(int(width * ratio) for ratio in config.channel_ratios)]
        sizes = zip(widths, widths[1:], config.strides)
        self.conv_blocks = nn.Sequential(*(SemanticBlock(config, a, b, stride, layers) for a, b, stride in sizes))

    def forward(self, x: Tensor) -> Tensor:
        """[B, E, L] -> [B, E', L']."""
        return self.conv_blocks(self.conv(x))
