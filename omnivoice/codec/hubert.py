"""HuBERT as a feature extractor: the mean of all its hidden states (transformers modeling_hubert.py:45-477).

Unusual: only the variant that the codec uses: normalisation of the first convolution alone, layer norm after
each residual, no mask, no dropout. The positional convolution has a plain weight; checkpoints store it
weight-normed and the loader folds it (`keys.fold_weight_norm`). Module names equal the checkpoint's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from ..config import SemanticConfig
from ..ops import weights_are_plain
from . import tiles
from .layers import Layers

FRAMES = 64  # per tile: 8 MB after the first layer


class ConvLayer(nn.Module):
    """Strided convolution without padding, GELU; the first one also normalises each channel over time."""

    def __init__(self, config: SemanticConfig, index: int, layers: Layers):
        super().__init__()
        inputs = config.conv_dim[index - 1] if index else 1
        outputs, kernel, stride = config.conv_dim[index], config.conv_kernel[index], config.conv_stride[index]
        self.conv = layers.conv1d(inputs, outputs, kernel, stride=stride, bias=config.conv_bias)
        self.layer_norm = layers.channel_norm(outputs) if index == 0 else None

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, C', (L - kernel) // stride + 1]."""
        x = self.conv(x)
        return F.gelu(x if self.layer_norm is None else self.layer_norm(x))


def _normalised(layer: nn.Module, samples: Tensor) -> Callable[[Tensor], Tensor]:
    """The first layer, with its normalisation over all of `samples` [1, N] made part of its convolution.

    The mean and variance of a convolution's output follow from the mean and covariance of the stretches of input that
    its outputs see, a matrix of 10 x 10; in float64, since that subtracts. A bias of the convolution cancels.
    """
    assert isinstance(layer, ConvLayer) and layer.layer_norm is not None
    conv, norm = layer.conv, layer.layer_norm
    assert isinstance(conv, nn.Conv1d) and isinstance(norm, nn.GroupNorm)
    weight, stride = conv.weight[:, 0].double(), conv.stride[0]  # [C, kernel]
    seen = samples[0].unfold(0, weight.shape[1], stride).double()  # [L, kernel]
    mean = seen.mean(dim=0)
    covariance = (seen - mean).T @ (seen - mean) / len(seen)
    scale = norm.weight.double() * (((weight @ covariance) * weight).sum(dim=1) + norm.eps).rsqrt()
    kernel = (weight * scale[:, None])[:, None].to(samples.dtype)
    shift = (norm.bias.double() - scale * (weight @ mean)).to(samples.dtype)
    return lambda x: F.gelu(F.conv1d(x, kernel, shift, stride))


class FeatureExtractor(nn.Module):
    """The stack of convolutions: 16 kHz sound to 50 frames a second.

    On a CPU it runs in tiles, since the first layer makes 1,600 values of every 5 samples: the only thing in it that
    depends on the whole recording is the normalisation, and that is known beforehand (`_normalised`).
    """

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        self.conv_layers = nn.ModuleList([ConvLayer(config, i, layers) for i in range(len(config.conv_dim))])
        self.stride, self.field = 1, 1  # samples from one frame to the next, and samples that a frame sees
        for kernel, stride in zip(config.conv_kernel, config.conv_stride):
            self.field += (kernel - 1) * self.stride
            self.stride *= stride

    def forward(self, samples: Tensor) -> Tensor:
        """[B, N] -> [B, L, C]."""
        x, first = samples[:, None], self.conv_layers[0]
        if not weights_are_plain(first, x):
            return nn.Sequential(*self.conv_layers)(x).transpose(1, 2)
        start, rest = _normalised(first, samples), nn.Sequential(*self.conv_layers[1:])
        tile = FRAMES * self.stride
        x = tiles.in_tiles(lambda part: rest(start(part)), x, tile, before=0, after=self.field, down=self.stride)
        return x.transpose(1, 2)


class FeatureProjection(nn.Module):
    """Layer norm (if configured) and a linear map to the transformer's width."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        width = config.conv_dim[-1]
        self.layer_norm = layers.layer_norm(width, config.layer_norm_eps) if config.feat_proj_layer_norm else None
        self.projection = layers.linear(width, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, C] -> [B, L, E]."""
        return self.projection(x if self.layer_norm is None else self.layer_norm(x))


class PositionalConv(nn.Module):
    """Grouped convolution over time that stands in for position embeddings."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        kernel, groups = config.num_conv_pos_embeddings, config.num_conv_pos_embedding_groups
        self.conv = layers.conv1d(config.hidden_size, config.hidden_size, kernel, padding=kernel // 2, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, E] -> [B, L, E]."""
        length = x.shape[1]
        x = self.conv(x.transpose(1, 2))[..., :length]  # an even kernel makes one frame too many
        return F.gelu(x).transpose(1, 2)


class Attention(nn.Module):
    """Self-attention with biases; every frame sees every other one."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        E = config.hidden_size
        self.heads = config.num_attention_heads
        self.k_proj = layers.linear(E, E)
        self.v_proj = layers.linear(E, E)
        self.q_proj = layers.linear(E, E)
        self.out_proj = layers.linear(E, E)

    def forward(self, x: Tensor, step: int = 1) -> Tensor:
        """[B, L, E] -> [B, every `step`-th of L, E]."""
        q, k, v = (
            project(part).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # [B, H, L, D]
            for project, part in ((self.q_proj, x[:, ::step]), (self.k_proj, x), (self.v_proj, x))
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Two linear maps with GELU between."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        self.intermediate_dense = layers.linear(config.hidden_size, config.intermediate_size)
        self.output_dense = layers.linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """[B, L, E] -> [B, L, E]."""
        return self.output_dense(F.gelu(self.intermediate_dense(x)))


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with a residual and a layer norm after it."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        self.attention = Attention(config, layers)
        self.layer_norm = layers.layer_norm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config, layers)
        self.final_layer_norm = layers.layer_norm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, step: int = 1) -> Tensor:
        """[B, L, E] -> [B, every `step`-th of L, E]."""
        x = self.layer_norm(x[:, ::step] + self.attention(x, step))
        return self.final_layer_norm(x + self.feed_forward(x))


class Encoder(nn.Module):
    """Positional convolution and transformer layers."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        self.pos_conv_embed = PositionalConv(config, layers)
        self.layer_norm = layers.layer_norm(config.hidden_size, config.layer_norm_eps)
        self.layers = nn.ModuleList([EncoderLayer(config, layers) for _ in range(config.num_hidden_layers)])

    def forward(self, x: Tensor, step: int) -> Tensor:
        """[B, L, E] -> [B, every `step`-th of L, E], the mean over the input of the first layer and the output of each.

        Frames that are left out still matter to the others, but not after the last layer's keys and values.
        """
        x = self.layer_norm(x + self.pos_conv_embed(x))
        total = x[:, ::step].clone()
        for layer in self.layers[:-1]:
            x = layer(x)
            total += x[:, ::step]
        return (total + self.layers[-1](x, step)) / (len(self.layers) + 1)


class Hubert(nn.Module):
    """Sound at 16 kHz to semantic features, 50 a second, of which every `step`-th is wanted."""

    def __init__(self, config: SemanticConfig, layers: Layers):
        super().__init__()
        self.feature_extractor = FeatureExtractor(config, layers)
        self.feature_projection = FeatureProjection(config, layers)
        self.encoder = Encoder(config, layers)

    def forward(self, samples: Tensor, step: int) -> Tensor:
        """[1, N] -> [1, every `step`-th of L, E]."""
        return self.encoder(self.feature_projection(self.feature_extractor(samples)), step)
