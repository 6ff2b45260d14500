"""The acoustic half: DAC encoder and decoder (descript-audio-codec; transformers modeling_dac.py:85-474).

It differs from DAC in two points: the decoder has no final tanh, and its transposed convolutions have
output_padding = stride % 2, so that every stride multiplies the length exactly
(modeling_higgs_audio_v2_tokenizer.py:473-485). DAC's own quantizer is not part of this codec.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..config import AcousticConfig
from ..ops import cast_to_input
from . import tiling
from .layers import LayerFactory, single_channel_conv, strided_conv

DILATIONS = (1, 3, 9)
EXACT_BLOCKS = 2  # of the decoder: with some weights, the audio magnifies their rounding errors a hundredfold
RESIDUAL_REACH = 3 * sum(DILATIONS)  # positions to each side that three residual units depend on


class Snake(nn.Module):
    """The activation x + sin(alpha * x)^2 / alpha, with one alpha per channel. fast: see `tiling.snake`."""

    def __init__(self, channels: int, layers: LayerFactory, *, fast: bool):
        super().__init__()
        self.fast = fast
        self.alpha = layers.parameter(1, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, C, L], with one new buffer: at the last stage, each takes 123 kB per frame."""
        alpha = cast_to_input(self.alpha, x)
        if x.device.type == "cpu" and torch.get_num_threads() == 1:
            return tiling.snake(x, alpha, fast=self.fast)
        wave = torch.mul(alpha, x).sin_().square_()
        return wave.mul_((alpha + 1e-9).reciprocal()).add_(x)


class ResidualUnit(nn.Module):
    """A dilated convolution of width 7 and a pointwise one, with a residual connection; keeps the length."""

    def __init__(self, channels: int, dilation: int, layers: LayerFactory, *, fast: bool = False):
        super().__init__()
        self.snake1 = Snake(channels, layers, fast=fast)
        self.conv1 = layers.conv1d(channels, channels, 7, padding=3 * dilation, dilation=dilation)
        self.snake2 = Snake(channels, layers, fast=fast)
        self.conv2 = layers.conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, C, L]."""
        return self.conv2(self.snake2(self.conv1(self.snake1(x)))).add_(x)


class EncoderBlock(nn.Module):
    """Three residual units, then a convolution that divides the length by `stride` and doubles the channels."""

    def __init__(self, channels: int, stride: int, layers: LayerFactory):
        super().__init__()
        self.res_unit1, self.res_unit2, self.res_unit3 = (ResidualUnit(channels, d, layers) for d in DILATIONS)
        self.snake1 = Snake(channels, layers, fast=False)
        self.conv1 = layers.conv1d(channels, 2 * channels, 2 * stride, stride=stride, padding=(stride + 1) // 2)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, 2C, about L / stride]."""
        return strided_conv(self.conv1, self.snake1(self.res_unit3(self.res_unit2(self.res_unit1(x)))))


class DecoderBlock(nn.Module):
    """A transposed convolution that multiplies the length by `stride`, then three residual units."""

    def __init__(self, channels: int, outputs: int, stride: int, layers: LayerFactory, *, fast: bool):
        super().__init__()
        self.snake1 = Snake(channels, layers, fast=fast)
        self.conv_t1 = layers.upsample(channels, outputs, stride)
        units = (ResidualUnit(outputs, d, layers, fast=fast) for d in DILATIONS)
        self.res_unit1, self.res_unit2, self.res_unit3 = units

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, outputs, L * stride]."""
        return self.res_unit3(self.res_unit2(self.res_unit1(self.conv_t1(self.snake1(x)))))


class AcousticEncoder(nn.Module):
    """Encodes audio into acoustic features; the product of the strides is the number of samples per frame."""

    def __init__(self, config: AcousticConfig, layers: LayerFactory):
        super().__init__()
        self.strides = config.downsampling_ratios
        width = config.encoder_hidden_size
        self.conv1 = layers.conv1d(1, width, 7, padding=3)
        self.block = nn.ModuleList([EncoderBlock(width * 2**i, s, layers) for i, s in enumerate(self.strides)])
        self.snake1 = Snake(width * 2 ** len(self.strides), layers, fast=False)
        self.conv2 = layers.conv1d(width * 2 ** len(self.strides), config.hidden_size, 3, padding=1)

    def frames(self, samples: int) -> int:
        """Return how many frames `samples` samples give."""
        for s in self.strides:
            samples = (samples + 2 * ((s + 1) // 2) - 2 * s) // s + 1
        return samples

    def forward(self, samples: Tensor) -> Tensor:
        """[B, 1, N] -> [B, E, frames(N)]."""
        x, first_block = samples, nn.Sequential(self.conv1, self.block[0])
        length = tiling.tile_length(on_cpu=tiling.on_cpu(x))
        for stride, run in zip(self.strides, [first_block, *self.block[1:]]):
            tile, reach = (-(-n // stride) * stride for n in (length, RESIDUAL_REACH + 3 + 2 * stride))
            x = tiling.run_tiled(run, x, tile, before=reach, after=reach, down=stride)
        return self.conv2(self.snake1(x))


class AcousticDecoder(nn.Module):
    """Decodes acoustic features into audio.

    Receptive field with the published strides (8, 5, 4, 2, 3): the features of frame t reach the samples
    960 t - 9458 to 960 t + 10392, so a sample depends on its own frame, the 10 before it and the 10 after it,
    and so does `CodecDecoder.decode` on the codes.
    """

    def __init__(self, config: AcousticConfig, layers: LayerFactory):
        super().__init__()
        self.strides = strides = config.upsampling_ratios
        width = config.decoder_hidden_size
        self.conv1 = layers.conv1d(config.hidden_size, width, 7, padding=3)
        self.block = nn.ModuleList(
            [
                DecoderBlock(width // 2**i, width // 2 ** (i + 1), s, layers, fast=i >= EXACT_BLOCKS)
                for i, s in enumerate(strides)
            ]
        )
        self.snake1 = Snake(width // 2 ** len(strides), layers, fast=True)
        self.conv2 = layers.conv1d(width // 2 ** len(strides), 1, 7, padding=3)

    def context_frames(self) -> tuple[int, int]:
        """Return how many frames before and after a frame its samples depend on."""
        low, high = -3, math.prod(self.strides) + 2  # the inputs of the last convolution for the samples of frame 0
        for stride in reversed(self.strides):
            low, high = low - RESIDUAL_REACH, high + RESIDUAL_REACH
            padding = (stride + 1) // 2
            low, high = (low + padding) // stride - 1, (high + padding) // stride
        return 3 - low, high + 3

    def forward(self, features: Tensor) -> Tensor:
        """[B, E, T] -> [B, 1, T * product of the strides]."""
        x, length = self.conv1(features), tiling.tile_length(on_cpu=tiling.on_cpu(features))
        for i, (stride, run) in enumerate(zip(self.strides, [*self.block[:-1], self._last_block])):
            reach, tile = -(-(RESIDUAL_REACH + 3) // stride) + 2, max(1, length // stride)
            # Tiles round differently at their edges, so the exact blocks, with at most 1/24 of the samples, run whole.
            x = run(x) if i < EXACT_BLOCKS else tiling.run_tiled(run, x, tile, before=reach, after=reach, up=stride)
        return x

    def _last_block(self, x: Tensor) -> Tensor:
        """Run the last block, the final activation and the convolution to one channel."""
        return single_channel_conv(self.conv2, self.snake1(self.block[-1](x)))
