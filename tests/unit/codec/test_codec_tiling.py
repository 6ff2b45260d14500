"""The codec's shortcuts for speed and memory: tiles, windows, the folded norm, half of HuBERT's last layer.

Each is compared with the plain computation on small models, and must not be used where a host patches the weights.
"""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from omnivoice.codec import CodecDecoder, CodecEncoder, model, tiling
from omnivoice.codec.acoustic import AcousticDecoder, AcousticEncoder, Snake
from omnivoice.codec.hubert import Hubert
from omnivoice.codec.layers import LayerFactory, exact_linear, single_channel_conv, strided_conv
from omnivoice.config import AcousticConfig, CodecConfig, SemanticConfig
from omnivoice.ops import TORCH_OPS, weights_are_plain

STRIDES = (8, 5, 4, 2, 3)
ACOUSTIC = AcousticConfig(
    encoder_hidden_size=4, decoder_hidden_size=64, hidden_size=8, downsampling_ratios=STRIDES, upsampling_ratios=STRIDES
)
SEMANTIC = SemanticConfig(
    hidden_size=16,
    num_attention_heads=2,
    num_hidden_layers=3,
    intermediate_size=24,
    conv_dim=(12, 12, 12, 12),
    conv_kernel=(10, 3, 3, 2),
    conv_stride=(5, 2, 2, 2),
    num_conv_pos_embeddings=8,
    num_conv_pos_embedding_groups=4,
)
LAYERS = LayerFactory(TORCH_OPS, "cpu", torch.float32)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def random_weights(module, seed=0):
    """Weights that keep signals at a size of about one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in module.named_parameters():
        fan_in = parameter[0].numel() if parameter.ndim > 1 and not name.endswith("alpha") else 1
        value = torch.randn(parameter.shape, generator=generator) / math.sqrt(fan_in)
        parameter.copy_(value.abs() + 0.5 if name.endswith(("alpha", "norm.weight")) else value * 0.5)
    return module.requires_grad_(False)


@pytest.fixture(scope="module")
def decoder():
    return random_weights(AcousticDecoder(ACOUSTIC, LAYERS))


@pytest.fixture(scope="module")
def encoder():
    return random_weights(AcousticEncoder(ACOUSTIC, LAYERS))


@pytest.fixture(scope="module")
def hubert():
    return random_weights(Hubert(SEMANTIC, LAYERS))


def noise(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole(monkeypatch):
    """From here on nothing is cut."""
    monkeypatch.setattr(tiling, "run_tiled", lambda run, x, tile, **_: run(x))


def assert_same(got, expected):
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 90), tile=st.integers(1, 40), dilation=st.integers(1, 4), extra=st.integers(0, 3))
def test_tiles_of_a_convolution_are_the_whole(length, tile, dilation, extra):
    weight, reach = noise(3, 2, 3), dilation + extra
    run = lambda x: F.conv1d(x, weight, padding=dilation, dilation=dilation)  # noqa: E731
    x = noise(1, 2, length)
    assert_same(tiling.run_tiled(run, x, tile, before=reach, after=reach), run(x))


@settings(max_examples=60, deadline=None)
@given(length=st.integers(1, 60), tile=st.integers(1, 30), stride=st.integers(2, 5))
def test_tiles_of_an_upsampling_are_the_whole(length, tile, stride):
    weight, cut = noise(2, 3, 2 * stride), {"padding": (stride + 1) // 2, "output_padding": stride % 2}
    run = lambda x: F.conv_transpose1d(x, weight, stride=stride, **cut)  # noqa: E731
    x = noise(1, 2, length)
    assert_same(tiling.run_tiled(run, x, tile, before=2, after=2, up=stride), run(x))


@settings(max_examples=60, deadline=None)
@given(length=st.integers(12, 200), blocks=st.integers(1, 8), stride=st.integers(2, 5))
def test_tiles_of_a_strided_convolution_are_the_whole(length, blocks, stride):
    weight = noise(3, 2, 2 * stride)
    x = noise(1, 2, length)
    for padding in (0, (stride + 1) // 2):
        run = lambda part: F.conv1d(part, weight, stride=stride, padding=padding)  # noqa: B023, E731
        got = tiling.run_tiled(run, x, blocks * stride, before=2 * stride, after=2 * stride, down=stride)
        assert_same(got, run(x))


def test_every_tile_is_small():
    seen = []
    run = lambda x: (seen.append(x.shape[-1]), x)[1]  # noqa: E731
    assert torch.equal(tiling.run_tiled(run, x := noise(1, 1, 1000), 100, before=7, after=5), x)
    assert len(seen) == 10 and max(seen) == 112


@pytest.mark.parametrize("length", [8191, 8192, 8197, 20000, 30001])
def test_acoustic_encoder_in_tiles(encoder, length, monkeypatch):
    samples = noise(1, 1, length)
    got = encoder(samples)
    whole(monkeypatch)
    assert_same(got, encoder(samples))


@pytest.mark.parametrize("frames", [1, 2, 9, 26, 60, 120])
def test_acoustic_decoder_in_tiles(decoder, frames, monkeypatch):
    features = noise(1, 8, frames)
    got = decoder(features)
    whole(monkeypatch)
    assert_same(got, decoder(features))


def test_reach_is_the_receptive_field(decoder):
    before, after = decoder.context_frames()
    assert (before, after) == (10, 10)
    features = noise(1, 8, 40)
    other = features.clone()
    other[..., 20] += 1
    changed = (decoder(features) != decoder(other))[0, 0].unflatten(0, (40, 960)).any(1).nonzero()[:, 0]
    assert changed.tolist() == list(range(20 - after, 20 + before + 1))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("size", [30, 3 * tiling.BLOCK_SIZE // 40])
def test_snake_in_blocks(size, fast):
    snake = random_weights(Snake(40, LAYERS, fast=fast))
    x = noise(1, 40, size) * 30
    kept = x.clone()
    expected = x + torch.sin(snake.alpha * x).square() / snake.alpha
    for strided in (x, noise(1, 40, size + 9)[..., 3 : size + 3].copy_(x)):
        torch.testing.assert_close(snake(strided), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(x, kept)


def test_both_sines_are_the_sine():
    x = torch.linspace(-400, 400, 10_001)
    for sine in (tiling.numpy_sine, torch.sin_, tiling.fastest_sine()):
        values = x.clone()
        assert float((sine(values).double() - x.double().sin()).abs().max()) < 2e-7
        assert torch.equal(values, sine(x.clone()))  # in place


def test_a_sine_that_is_wrong_is_not_used(monkeypatch):
    tiling.fastest_sine.cache_clear()
    monkeypatch.setattr(tiling, "numpy_sine", lambda x: x.sin_().add_(1e-5))
    assert tiling.fastest_sine() is torch.sin_
    tiling.fastest_sine.cache_clear()


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("samples", [90, 2600, 2999, 12345])
def test_normalisation_over_tiles(hubert, samples, plain, monkeypatch):
    """With the weights at hand, and with layers that may only be called."""
    extractor = hubert.feature_extractor
    assert (extractor.stride, extractor.receptive_field) == (40, 10 + 2 * 5 + 2 * 10 + 20)
    x = noise(1, samples) * 3 + 0.7
    expected = nn.Sequential(*extractor.conv_layers)(x[:, None]).transpose(1, 2)
    monkeypatch.setattr("omnivoice.codec.hubert.weights_are_plain", lambda *_: plain)
    assert_same(extractor(x), expected)


def as_on_a_gpu(monkeypatch):
    """From here on tiles are chosen as on other devices than a CPU, but smaller, and no weight is read."""
    monkeypatch.setattr(tiling, "on_cpu", lambda _: False)
    monkeypatch.setattr(tiling, "TILE_LENGTH", 4096)
    for name, value in (("TILE_FRAMES", 32), ("QUERIES", 7), ("weights_are_plain", lambda *_: False)):
        monkeypatch.setattr(f"omnivoice.codec.hubert.{name}", value)


@pytest.mark.parametrize("samples", [2600, 4000])
def test_attention_in_parts(hubert, samples, monkeypatch):
    x = noise(1, samples)
    expected = hubert(x, 2)
    as_on_a_gpu(monkeypatch)
    monkeypatch.setattr("omnivoice.codec.hubert.TILE_FRAMES", 1000)
    assert_same(hubert(x, 2), expected)


def test_frames_that_are_not_wanted_change_nothing(hubert):
    x = noise(1, 4000)
    for step in (1, 2, 3):
        assert_same(hubert(x, step), hubert(x, 1)[:, ::step])


@pytest.mark.parametrize(("inputs", "outputs", "stride", "length"), [(6, 24, 3, 9), (6, 8, 3, 9), (5, 32, 8, 3)])
def test_products_are_the_convolutions(inputs, outputs, stride, length):
    down = random_weights(LAYERS.conv1d(inputs, outputs, 2 * stride, stride=stride, padding=(stride + 1) // 2))
    last = random_weights(LAYERS.conv1d(inputs, 1, 7, padding=3))
    for function, layer, x in (
        (strided_conv, down, noise(1, inputs, length * stride)),
        (strided_conv, down, noise(1, length * stride, inputs).transpose(1, 2)),
        (single_channel_conv, last, noise(1, inputs, length)),
    ):
        assert_same(function(layer, x), layer(x))


def test_products_leave_patched_layers_to_themselves():
    for function, outputs in ((strided_conv, 64), (single_channel_conv, 1)):
        layer = random_weights(LAYERS.conv1d(4, outputs, 3, padding=1))
        x, expected = noise(1, 4, 5), noise(1, 1, 1)
        assert_same(function(layer, x), layer(x))
        layer.forward = lambda _: expected  # noqa: B023
        assert function(layer, x) is not expected
        layer.weight_function = [torch.abs]
        assert function(layer, x) is expected


HOP_320 = replace(SEMANTIC, conv_kernel=(10, 4, 4, 4), conv_stride=(5, 4, 4, 4))
CODEC = CodecConfig(ACOUSTIC, HOP_320, codebook_size=32, codebook_dim=4)


@pytest.fixture(scope="module")
def halves():
    made = (half(CODEC, ops=TORCH_OPS, device="cpu", dtype=torch.float32) for half in (CodecEncoder, CodecDecoder))
    return tuple(random_weights(half) for half in made)


@pytest.mark.parametrize("frames", [1, 13, 120])
def test_the_tiles_of_a_gpu_give_the_same_codes_and_audio(halves, frames, monkeypatch):
    encoder, decoder = halves
    samples = noise(1, 960 * frames) * 0.3
    codes = encoder.encode(samples)
    audio = decoder.decode(codes)
    assert len(codes.unique()) > 4
    as_on_a_gpu(monkeypatch)
    assert torch.equal(encoder.encode(samples), codes)
    assert_same(decoder.decode(codes), audio)


@pytest.mark.parametrize("frames", [1, 16, 26, 27, 32, 100])
def test_windows_change_nothing_and_bound_what_is_decoded_at_once(halves, frames, monkeypatch):
    monkeypatch.setattr(model, "WINDOW_FRAMES", 16)
    decoder = halves[1]
    codes = torch.randint(0, 32, (CODEC.codebooks, frames), generator=torch.Generator().manual_seed(2))
    expected = decoder.decode(codes, windows=False)
    seen = []
    hook = decoder.acoustic_decoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
    got = decoder.decode(codes)
    hook.remove()
    assert got.shape == (1, frames * 960)
    assert_same(got, expected)
    assert max(seen) <= 10 + 16 + 10 and (len(seen) > 1) == (frames > 26)


def test_long_codes_are_decoded_in_windows_unless_told_otherwise(halves):
    decoder = halves[1]
    codes = torch.zeros(CODEC.codebooks, model.WINDOW_FRAMES + 11, dtype=torch.int64)
    seen = []
    hook = decoder.acoustic_decoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
    decoder.decode(codes)
    decoder.decode(codes, windows=False)
    hook.remove()
    assert seen == [810, 21, 811]


class PatchedConv(nn.Conv1d):
    """As ComfyUI makes it: what `weight_function` holds is applied to the weight when the layer runs."""

    weight_function = ()

    def forward(self, x):
        weight = self.weight
        for function in self.weight_function:
            weight = function(weight)
        return self._conv_forward(x, weight, self.bias)


def test_pending_patches_are_honoured(hubert):
    ops = replace(TORCH_OPS, Conv1d=PatchedConv)
    extractor = random_weights(Hubert(SEMANTIC, LayerFactory(ops, "cpu", torch.float32))).feature_extractor
    x = noise(1, 3000)
    assert torch.equal(extractor(x), hubert.feature_extractor(x))
    conv = extractor.conv_layers[0].conv
    conv.weight_function = [lambda weight: weight.flip(2)]
    assert not weights_are_plain(extractor.conv_layers[0], x)
    got = extractor(x)
    conv.weight_function = []
    conv.weight.copy_(conv.weight.flip(2))
    assert_same(got, extractor(x))


def test_weights_elsewhere_or_otherwise_are_not_read():
    x = noise(2, 4)
    assert weights_are_plain(nn.Linear(4, 4), x)
    assert not weights_are_plain(nn.Linear(4, 4, dtype=torch.bfloat16), x)
    assert not weights_are_plain(nn.Linear(4, 4, device="meta"), x)
    assert not weights_are_plain(nn.Linear(4, 4), x.double())
    layer = nn.Linear(4, 4)
    layer.bias_function = [lambda bias: bias + 1]
    assert not weights_are_plain(layer, x)
    assert torch.equal(exact_linear(layer, x), layer(x))
