"""The demo voice's codec for training: the engine's modules, with a forward pass that autograd can follow.

`omnivoice.codec` is made for inference (one recording at a time, tiles, reused buffers), so this file has its own
forward pass over the same modules; a test compares the two. Semantic features are not used: their columns of `fc` are
zero. `fc`, `fc2` and the quantizer's projections are identities, so the quantizer works on the encoder's output.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from omnivoice.codec.acoustic import AcousticDecoder, AcousticEncoder, DecoderBlock, EncoderBlock, ResidualUnit, Snake
from omnivoice.codec.layers import LayerFactory
from omnivoice.config import AcousticConfig, CodecConfig, SemanticConfig

WIDTH = 32  # of the acoustic features
SEMANTIC_WIDTH = 16
CODES = 256
SIZES = (256, 256, 256, 256, 64, 64, 64, 64)  # entries used per codebook; the other entries are copies of them
START = 0.8  # standard deviation of the initial weights, times sqrt(fan-in)
SMALL = 0.2  # factor on that for the last layer of each residual unit and of the decoder
ALIVE = 0.1  # entries used less than this share of the average are moved
MAX_DIRECT_CHANNELS = 16  # up to here the weight gradient is one matrix product
DECAY = 0.98  # of the codebooks' moving averages, per step


def codec_config() -> CodecConfig:
    """Return the sizes of the demo codec: 8 codebooks of 256 entries, 25 frames per second, 1.6 kbit/s."""
    strides = (8, 5, 4, 2, 3)
    return CodecConfig(
        acoustic=AcousticConfig(
            encoder_hidden_size=8,
            decoder_hidden_size=256,
            hidden_size=WIDTH,
            downsampling_ratios=strides,
            upsampling_ratios=strides,
        ),
        semantic=SemanticConfig(
            hidden_size=SEMANTIC_WIDTH,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            conv_dim=(8,) * 7,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
        ),
        codebook_size=CODES,
        codebook_dim=WIDTH + 1,
        target_bandwidths=(0.4, 0.8, 1.2, 1.6),
    )


def _snake_forward(x: Tensor, alpha: Tensor) -> Tensor:
    wide = x.float()
    sine = torch.sin(wide * alpha)
    return (wide + sine * sine / (alpha + 1e-9)).to(x.dtype)


def _snake_backward(x: Tensor, alpha: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    wide, change = x.float(), grad.float()
    sine = torch.sin(wide * alpha)
    slope = 2 * sine * torch.cos(wide * alpha)
    steep = change * (wide * slope - sine * sine / alpha) / alpha
    return (change + change * slope).to(x.dtype), steep.sum((0, 2))


@lru_cache(maxsize=1)
def _fused() -> tuple[Callable[..., Tensor], Callable[..., tuple[Tensor, Tensor]]]:
    """Return both functions, compiled if torch finds a compiler, which makes them three times as fast."""
    forward = torch.compile(_snake_forward, dynamic=True)
    backward = torch.compile(_snake_backward, dynamic=True)
    torch._dynamo.config.recompile_limit = 64
    x, alpha = torch.rand(2, 3, 40), torch.rand(1, 3, 1)
    try:
        forward(x, alpha)
        backward(x, alpha, x)
    except RuntimeError as error:
        print(f"codec: not compiled, so slower: {type(error).__name__}", flush=True)
        return _snake_forward, _snake_backward
    return forward, backward


class _Snake(torch.autograd.Function):
    """x + sin(alpha x)^2 / alpha, keeping only x for the backward pass."""

    @staticmethod
    def forward(ctx, x: Tensor, alpha: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        x, alpha = x.detach().contiguous(), alpha.detach()
        ctx.save_for_backward(x, alpha)
        with torch.autocast("cpu", enabled=False):
            return _fused()[0](x, alpha)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        x, alpha = ctx.saved_tensors
        into, steep = _fused()[1](x, alpha, grad.contiguous())
        return into, steep.view_as(alpha)


class _Conv(torch.autograd.Function):
    """A convolution that keeps the length, with torch's gradients.

    With few channels and long audio, the weight's gradient is one matrix product, which takes a third of the time.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:  # type: ignore[no-untyped-def]
        weight, ctx.dilation = weight.to(x.dtype), dilation
        ctx.save_for_backward(x, weight)
        if weight.shape[2] == 1 and weight.shape[0] <= MAX_DIRECT_CHANNELS:
            return torch.matmul(weight[:, :, 0], x).add_(bias.to(x.dtype)[:, None])
        return F.conv1d(x, weight, bias.to(x.dtype), 1, weight.shape[2] // 2 * dilation, dilation)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[no-untyped-def]
        (x, weight), dilation, grad = ctx.saved_tensors, ctx.dilation, grad.contiguous()
        outputs, inputs, taps = weight.shape
        B, _, L = x.shape
        padding = taps // 2 * dilation
        back = torch.ops.aten.convolution_backward
        rest = (None, [1], [padding], [dilation], False, [0], 1)
        if outputs > MAX_DIRECT_CHANNELS:
            into, steep, _ = back(grad, x, weight, *rest, [True, True, False])
        elif taps == 1:
            into = torch.matmul(weight[:, :, 0].T, grad)
            steep = torch.bmm(grad, x.transpose(1, 2)).sum(dim=0)[..., None]
        else:
            into = back(grad, x, weight, *rest, [True, False, False])[0]
            seen = F.pad(x, (padding, padding))
            a, b, _ = seen.stride()
            seen = seen.as_strided((B, inputs, taps, L), (a, b, dilation, 1)).reshape(B, inputs * taps, L)
            steep = torch.bmm(grad, seen.transpose(1, 2)).sum(dim=0).view(outputs, inputs, taps)
        return into, steep.float(), grad.sum(dim=2, dtype=torch.float32).sum(dim=0), None


def conv(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply `layer`, a convolution that keeps the length, to [B, C, L]."""
    assert isinstance(layer, nn.Conv1d)
    result: Tensor = _Conv.apply(x, layer.weight, layer.bias, layer.dilation[0])
    return result


def snake(layer: nn.Module, x: Tensor) -> Tensor:
    """Apply `layer`, a Snake, to [B, C, L]."""
    assert isinstance(layer, Snake)
    result: Tensor = _Snake.apply(x, layer.alpha)
    return result


def residual(unit: nn.Module, x: Tensor) -> Tensor:
    """Apply a residual unit to [B, C, L]."""
    assert isinstance(unit, ResidualUnit)
    return x + conv(unit.conv2, snake(unit.snake2, conv(unit.conv1, snake(unit.snake1, x))))


class DemoCodec(nn.Module):
    """The encoder, the decoder, and residual codebooks between them that are learned as moving averages."""

    def __init__(self) -> None:
        super().__init__()
        layers = LayerFactory(nn, None, torch.float32)
        self.acoustic_encoder = AcousticEncoder(codec_config().acoustic, layers)
        self.acoustic_decoder = AcousticDecoder(codec_config().acoustic, layers)
        self.books = Codebooks()

    def start(self, seed: int) -> None:
        """Set random weights."""
        generator = torch.Generator().manual_seed(seed)
        for module in self.modules():
            if isinstance(module, (nn.Conv1d, nn.ConvTranspose1d)):
                fan = module.weight[0].numel()
                if isinstance(module, nn.ConvTranspose1d):
                    fan = module.weight.shape[0] * 2
                module.weight.data.normal_(0, START * fan**-0.5, generator=generator)
                assert module.bias is not None
                module.bias.data.zero_()
            elif isinstance(module, Snake):
                module.alpha.data.fill_(1.0)
                module.alpha.requires_grad_(True)
        ends = [module.conv2 for module in self.modules() if isinstance(module, ResidualUnit)]
        for end in (*ends, self.acoustic_decoder.conv2):
            assert isinstance(end, nn.Conv1d)
            end.weight.data.mul_(SMALL)

    def encode(self, samples: Tensor) -> Tensor:
        """Encode [B, 1, N] to [B, WIDTH, T]."""
        encoder = self.acoustic_encoder
        x = encoder.conv1(samples)
        for block in encoder.block:
            assert isinstance(block, EncoderBlock)
            for unit in (block.res_unit1, block.res_unit2, block.res_unit3):
                x = residual(unit, x)
            x = block.conv1(snake(block.snake1, x))
        result: Tensor = encoder.conv2(snake(encoder.snake1, x))
        return result

    def decode(self, features: Tensor) -> Tensor:
        """Decode [B, WIDTH, T] to [B, 1, N]."""
        decoder = self.acoustic_decoder
        x = decoder.conv1(features)
        for block in decoder.block:
            assert isinstance(block, DecoderBlock)
            x = block.conv_t1(snake(block.snake1, x))
            for unit in (block.res_unit1, block.res_unit2, block.res_unit3):
                x = residual(unit, x)
        result: Tensor = decoder.conv2(snake(decoder.snake1, x))
        return result


class Codebooks(nn.Module):
    """[codebook, entry, WIDTH] vectors, each the moving average of what it stands for."""

    vectors: Tensor
    counts: Tensor
    sums: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("vectors", torch.zeros(len(SIZES), CODES, WIDTH))
        self.register_buffer("counts", torch.ones(len(SIZES), CODES))
        self.register_buffer("sums", torch.zeros(len(SIZES), CODES, WIDTH))

    def forward(
        self, x: Tensor, used: Tensor, generator: torch.Generator, *, move: bool = True
    ) -> tuple[Tensor, Tensor, float]:
        """Quantize x [B, T, WIDTH] with the first `used` [B] codebooks.

        Returns the quantized x (with a straight-through gradient), the commitment loss, and the share of the first
        codebook's entries in use. With `move`, the codebooks learn.
        """
        rest, total = x.detach(), torch.zeros_like(x)
        commitment = x.new_zeros(())
        for k in range(len(SIZES)):
            flat = rest.flatten(0, 1)
            codes = self._nearest(k, flat)
            found = F.embedding(codes, self.vectors[k]).view_as(rest)
            if move:
                self._move(k, flat, codes, generator)
            counts = (used > k).view(-1, 1, 1)
            target = total + found
            commitment = commitment + ((x - target).square() * counts).mean()
            total = torch.where(counts, target, total)
            rest = rest - found
        alive = float((self.counts[0, : SIZES[0]] > ALIVE * self.counts[0, : SIZES[0]].mean()).float().mean())
        return x + (total - x).detach(), commitment / len(SIZES), alive

    def features(self, codes: Tensor) -> Tensor:
        """Return the features [B, T, WIDTH] of codes [B, K, T]; a copy has its original's."""
        found = [self.vectors[k][codes[:, k] % size] for k, size in enumerate(SIZES)]
        return torch.stack(found).sum(dim=0)

    def _nearest(self, k: int, x: Tensor) -> Tensor:
        book = self.vectors[k, : SIZES[k]]
        return (book.square().sum(dim=1) - 2 * x @ book.T).argmin(dim=1)

    def _move(self, k: int, x: Tensor, codes: Tensor, generator: torch.Generator) -> None:
        size = SIZES[k]
        hits = torch.bincount(codes, minlength=size).to(x.dtype)
        self.counts[k, :size].mul_(DECAY).add_(hits, alpha=1 - DECAY)
        self.sums[k, :size].mul_(DECAY).add_(x.new_zeros(size, WIDTH).index_add_(0, codes, x), alpha=1 - DECAY)
        average = self.counts[k, :size].mean()
        dead = self.counts[k, :size] < ALIVE * average
        if bool(dead.any()):
            chosen = x[torch.randint(len(x), (int(dead.sum()),), generator=generator)]
            self.counts[k, :size][dead] = average
            self.sums[k, :size][dead] = chosen * average
        self.vectors[k, :size] = self.sums[k, :size] / self.counts[k, :size, None]

    def start(self, x: Tensor, generator: torch.Generator, rounds: int = 15) -> None:
        """Initialize the codebooks one after the other by k-means of [N, WIDTH]."""
        for k, size in enumerate(SIZES):
            self.vectors[k, :size] = x[torch.randperm(len(x), generator=generator)[:size]]
            for _ in range(rounds):
                codes = self._nearest(k, x)
                hits = torch.bincount(codes, minlength=size).to(x.dtype)
                means = x.new_zeros(size, WIDTH).index_add_(0, codes, x) / hits.clamp(min=1)[:, None]
                random = x[torch.randint(len(x), (size,), generator=generator)]
                self.vectors[k, :size] = torch.where((hits > 0)[:, None], means, random)
            codes = self._nearest(k, x)
            hits = torch.bincount(codes, minlength=size).to(x.dtype).clamp(min=0.5)
            self.counts[k, :size] = hits * (200 / len(x))  # scaled to the counts of one step
            self.sums[k, :size] = self.vectors[k, :size] * self.counts[k, :size, None]
            x = x - self.vectors[k][codes]
