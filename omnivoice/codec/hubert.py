"""HuBERT as a feature extractor: the mean of all its hidden states (transformers modeling_hubert.py:45-477).

Only the variant that the codec uses is implemented: a norm after the first convolution only, a layer norm after each
residual, no mask, no dropout. The positional convolution has a plain weight; checkpoints store it weight-normed and
the loader folds it (`keys.fold_weight_norm`). Module names equal the checkpoint's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import SemanticConfig
from ..intake.cancel import cancellable, hear_cancel
from ..ops import weights_are_plain
from . import tiling
from .layers import LayerFactory

# Frames of a tile. The first layer and its activation hold 0.26 MB per frame.
CPU_TILE_FRAMES, TILE_FRAMES = 64, 512
QUERIES = 512
LARGE = 1024.0  # a level beside which the epsilon of a norm is nothing; a power of two, so that it cancels exactly


class ConvLayer(nn.Module):
    """A strided convolution without padding, then GELU; the first layer also normalises each channel over time."""

    def __init__(self, config: SemanticConfig, index: int, layers: LayerFactory):
        super().__init__()
        inputs = config.conv_dim[index - 1] if index else 1
        outputs, kernel, stride = config.conv_dim[index], config.conv_kernel[index], config.conv_stride[index]
        self.conv = layers.conv1d(inputs, outputs, kernel, stride=stride, bias=config.conv_bias)
        self.layer_norm = layers.channel_norm(outputs) if index == 0 else None

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, C', (L - kernel) // stride + 1]."""
        x = self.conv(x)
        return F.gelu(x if self.layer_norm is None else self.layer_norm(x))


def tile_frames(*, on_cpu: bool) -> int:
    """Return how many frames a tile has."""
    return CPU_TILE_FRAMES if on_cpu else TILE_FRAMES


def _fold_norm(layer: nn.Module, samples: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the first layer with its norm over all of `samples` [1, N] folded into its convolution.

    The mean and variance of the convolution's output follow from the mean and the 10 x 10 covariance of its input
    windows. They are computed in float64, because they subtract nearly equal numbers. A bias of the convolution
    cancels out.
    """
    assert isinstance(layer, ConvLayer) and layer.layer_norm is not None
    conv, norm = layer.conv, layer.layer_norm
    assert isinstance(conv, nn.Conv1d) and isinstance(norm, nn.GroupNorm)
    weight, stride = conv.weight[:, 0].double(), conv.stride[0]  # [C, kernel]
    windows = samples[0].unfold(0, weight.shape[1], stride).double()  # [L, kernel]
    mean = windows.mean(dim=0)
    covariance = (windows - mean).T @ (windows - mean) / len(windows)
    scale = norm.weight.double() * (((weight @ covariance) * weight).sum(dim=1) + norm.eps).rsqrt()
    kernel = (weight * scale[:, None])[:, None].to(samples.dtype)
    shift = (norm.bias.double() - scale * (weight @ mean)).to(samples.dtype)
    return lambda x: F.gelu(F.conv1d(x, kernel, shift, stride))


def _measure_norm(layer: nn.Module, samples: Tensor, tile: int) -> Callable[[Tensor], Tensor]:
    """Return the same function without reading a weight, which a host may cast, move or patch when a layer runs.

    A first pass over `samples` in tiles of so many samples measures the mean and variance of each channel. What the
    norm multiplies and adds shows in what it makes of -LARGE and LARGE.
    """
    assert isinstance(layer, ConvLayer) and layer.layer_norm is not None
    conv, norm = layer.conv, layer.layer_norm
    assert isinstance(conv, nn.Conv1d) and isinstance(norm, nn.GroupNorm)
    kernel, stride = conv.kernel_size[0], conv.stride[0]
    starts = range(0, samples.shape[1] - kernel + 1, tile // stride * stride)
    parts = [samples[:, None, start : start + starts.step + kernel - stride] for start in starts]
    hear_cancel()
    moments = [torch.var_mean(conv(part), dim=2, keepdim=True, correction=0) for part in parts]
    lengths = samples.new_tensor([(part.shape[2] - kernel) // stride + 1 for part in parts])
    variances, means = (torch.cat(moment, dim=2) for moment in zip(*moments))  # [1, C, parts]
    share = lengths / lengths.sum()
    mean = (means * share).sum(dim=2, keepdim=True)
    variance = ((variances + (means - mean).square()) * share).sum(dim=2, keepdim=True)
    low, high = norm(samples.new_tensor([-LARGE, LARGE]).expand(1, conv.out_channels, 2)).split(1, dim=2)
    scale, shift = (high - low) / 2 * (variance + norm.eps).rsqrt(), (high + low) / 2
    return lambda x: F.gelu(conv(x).sub_(mean).mul_(scale).add_(shift))


class FeatureExtractor(nn.Module):
    """The stack of convolutions: 16 kHz audio to 50 frames per second.

    It runs in tiles, because the first layer turns every 5 samples into 512 values. Only its norm depends on the whole
    recording, and that is computed first.
    """

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        self.conv_layers = nn.ModuleList([ConvLayer(config, i, layers) for i in range(len(config.conv_dim))])
        self.stride, self.receptive_field = 1, 1  # in samples
        for kernel, stride in zip(config.conv_kernel, config.conv_stride):
            self.receptive_field += (kernel - 1) * self.stride
            self.stride *= stride

    def forward(self, samples: Tensor) -> Tensor:
        """[B, N] -> [B, L, C]."""
        first, others = self.conv_layers[0], nn.Sequential(*self.conv_layers[1:])
        tile = tile_frames(on_cpu=tiling.on_cpu(samples)) * self.stride
        plain = weights_are_plain(first, samples)
        first_layer = _fold_norm(first, samples) if plain else _measure_norm(first, samples, tile)
        x, context = samples[:, None], {"before": 0, "after": self.receptive_field}
        x = tiling.run_tiled(lambda part: others(first_layer(part)), x, tile, **context, down=self.stride)
        return x.transpose(1, 2)


class FeatureProjection(nn.Module):
    """A layer norm, if configured, and a linear map to the transformer's width."""

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        width = config.conv_dim[-1]
        self.layer_norm = layers.layer_norm(width, config.layer_norm_eps) if config.feat_proj_layer_norm else None
        self.projection = layers.linear(width, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, C] -> [B, L, E]."""
        return self.projection(x if self.layer_norm is None else self.layer_norm(x))


class PositionalConv(nn.Module):
    """A grouped convolution over time that serves as position embedding."""

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        kernel, groups = config.num_conv_pos_embeddings, config.num_conv_pos_embedding_groups
        self.conv = layers.conv1d(config.hidden_size, config.hidden_size, kernel, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, E] -> [B, L, E]."""
        length = x.shape[1]
        x = self.conv(x.transpose(1, 2))[..., :length]  # an even kernel gives one frame too many
        return F.gelu(x).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention with biases, in which every frame attends to all frames.

    Where torch has no fused attention in float32 (MPS, some AMD and Intel GPUs), the scores of all frames are a matrix.
    Asking for `QUERIES` frames at a time bounds it.
    """

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        E = config.hidden_size
        self.heads = config.num_attention_heads
        self.k_proj = layers.linear(E, E)
        self.v_proj = layers.linear(E, E)
        self.q_proj = layers.linear(E, E)
        self.out_proj = layers.linear(E, E)

    def forward(self, x: Tensor, keep_every: int = 1) -> Tensor:
        """[B, L, E] -> [B, L / keep_every, E]."""
        q, k, v = (
            project(part).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, H, L, D]
            for project, part in ((self.q_proj, x[:, ::keep_every]), (self.k_proj, x), (self.v_proj, x))
        )
        size = q.shape[2] if tiling.on_cpu(x) else QUERIES
        parts = [F.scaled_dot_product_attention(part, k, v) for part in q.split(size, dim=2)]
        attended = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
        return self.out_proj(attended.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear maps with a GELU between them."""

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        self.intermediate_dense = layers.linear(config.hidden_size, config.intermediate_size)
        self.output_dense = layers.linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, E] -> [B, L, E]."""
        return self.output_dense(F.gelu(self.intermediate_dense(x)))


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each followed by a residual connection and a layer norm."""

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        self.attention = Attention(config, layers)
        self.layer_norm = layers.layer_norm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config, layers)
        self.final_layer_norm = layers.layer_norm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, keep_every: int = 1) -> Tensor:
        """[B, L, E] -> [B, L / keep_every, E]."""
        x = self.layer_norm(x[:, ::keep_every] + self.attention(x, keep_every))
        return self.final_layer_norm(x + self.feed_forward(x))


class Encoder(nn.Module):
    """Positional convolution and transformer layers."""

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        self.pos_conv_embed = PositionalConv(config, layers)
        self.layer_norm = layers.layer_norm(config.hidden_size, config.layer_norm_eps)
        self.layers = nn.ModuleList([EncoderLayer(config, layers) for _ in range(config.num_hidden_layers)])

    def forward(self, x: Tensor, keep_every: int) -> Tensor:
        """Return the mean of the first layer's input and all layers' outputs: [B, L, E] -> [B, L / keep_every, E].

        The other frames influence the result only through the last layer's keys and values, so that layer computes
        nothing else for them.
        """
        x = self.layer_norm(x + self.pos_conv_embed(x))
        total = x[:, ::keep_every].clone()
        for layer in cancellable(self.layers[:-1]):
            x = layer(x)
            total += x[:, ::keep_every]
        hear_cancel()
        return (total + self.layers[-1](x, keep_every)) / (len(self.layers) + 1)


class Hubert(nn.Module):
    """Turns audio at 16 kHz into semantic features, 50 per second, and returns every n-th of them."""

    def __init__(self, config: SemanticConfig, layers: LayerFactory):
        super().__init__()
        self.feature_extractor = FeatureExtractor(config, layers)
        self.feature_projection = FeatureProjection(config, layers)
        self.encoder = Encoder(config, layers)

    def forward(self, samples: Tensor, keep_every: int) -> Tensor:
        """[1, N] -> [1, L / keep_every, E]."""
        return self.encoder(self.feature_projection(self.feature_extractor(samples)), keep_every)
