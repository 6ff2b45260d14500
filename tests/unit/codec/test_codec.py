"""The codec against upstream's recorded results (tests/parity/record_codec.py), its key table and its seams."""

import copy
import json
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

import omnivoice.config
from omnivoice.codec import CodecDecoder, CodecEncoder
from omnivoice.codec.keys import WEIGHT_NORM_PAIRS, WEIGHT_NORM_TARGET, fold_weight_norm, is_training_only
from omnivoice.config import AcousticConfig, CodecConfig, SemanticConfig, parse_codec_config
from omnivoice.errors import AudioError, InputError
from omnivoice.ops import TORCH_OPS

ASSETS = Path(__file__).parents[2] / "assets" / "codec"
IGNORED_KEYS = Path(omnivoice.config.__file__).with_name("config_keys.json")
STRIDES = (8, 5, 4, 2, 3)
PUBLISHED = CodecConfig(AcousticConfig(downsampling_ratios=STRIDES, upsampling_ratios=STRIDES), SemanticConfig())
NAMES = ("published", "varied")
HOP = 960
HALVES = (CodecEncoder, CodecDecoder)


class Codec(nn.Module):
    """Both halves."""

    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder, self.decoder, self.config = encoder, decoder, decoder.config
        self.encode, self.decode = encoder.encode, decoder.decode


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """LayerFactory this small lose more to waiting for a second thread than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def recorded():
    path = ASSETS / "recorded.safetensors"
    with safe_open(path, framework="pt") as file:
        return load_file(path), json.loads(file.metadata()["recording"])


def weights(name):
    """The recorded checkpoint as the loader hands it to the module."""
    prefix = f"{name}/weight/"
    state = {k.removeprefix(prefix): v.float() for k, v in recorded()[0].items() if k.startswith(prefix)}
    ((gain, direction),) = [pair for pair in WEIGHT_NORM_PAIRS if pair[0] in state]
    state[WEIGHT_NORM_TARGET] = fold_weight_norm(state.pop(gain), state.pop(direction))
    return state


def build(name, *, ops=TORCH_OPS, dtype=torch.float32):
    config = parse_codec_config(recorded()[1]["configs"][name], json.loads(IGNORED_KEYS.read_text(encoding="utf-8")))
    halves = [half(config, ops=ops, device="meta", dtype=dtype) for half in HALVES]
    state = weights(name)
    for half in halves:
        half.load_state_dict({k: state[k].to(dtype) for k in half.state_dict()}, strict=True, assign=True)
    return Codec(*halves).eval().requires_grad_(False)


@cache
def shared(name):
    return build(name)


@pytest.fixture(params=NAMES)
def codec(request):
    return shared(request.param)


@pytest.fixture
def published():
    return shared("published")


def recording(samples=9600):
    return recorded()[0]["samples"][:, :samples] / 32768


def random_codes(codec, frames, seed=0):
    shape = (codec.config.codebooks, frames)
    return torch.randint(0, codec.config.codebook_size, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("samples", [960, 1000, 1591, 1920, 2039, 9600])
def test_codes_equal_upstream(name, samples):
    codes = shared(name).encode(recording(samples))
    assert codes.dtype == torch.int64
    assert torch.equal(codes, recorded()[0][f"{name}/codes/{samples}"].long())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("frames", [1, 5])
def test_audio_equals_upstream(name, frames):
    tensors = recorded()[0]
    samples = shared(name).decode(tensors[f"{name}/decode/{frames}/codes"].long())
    torch.testing.assert_close(samples, tensors[f"{name}/decode/{frames}/audio"], rtol=0, atol=1e-5)


def test_every_published_tensor_has_its_place():
    listed = {name: tuple(shape) for name, shape in json.loads((ASSETS / "keys.json").read_text()).items()}
    assert len(listed) == 527
    encoder, decoder = (half(PUBLISHED, ops=TORCH_OPS, device="meta", dtype=torch.float32) for half in HALVES)
    shared_keys = set(encoder.state_dict()) & set(decoder.state_dict())
    assert shared_keys == {name for name in encoder.state_dict() if name.startswith("quantizer.")}
    own = {k: tuple(tensor.shape) for half in (encoder, decoder) for k, tensor in half.state_dict().items()}
    gain, direction = WEIGHT_NORM_PAIRS[0]
    folded = fold_weight_norm(torch.ones(listed[gain]), torch.ones(listed[direction]))
    assert own.pop(WEIGHT_NORM_TARGET) == tuple(folded.shape)
    training = {name for name in listed if is_training_only(name)}
    assert len(training) == 40
    assert own == {k: v for k, v in listed.items() if k not in training | {gain, direction}}


def test_folding_is_torchs_weight_norm_over_the_taps():
    conv = nn.Conv1d(12, 8, 5, groups=2)
    normed = nn.utils.parametrizations.weight_norm(copy.deepcopy(conv), dim=2)
    pair = normed.parametrizations.weight
    with torch.no_grad():
        pair.original0.uniform_(0.5, 2)
        folded = fold_weight_norm(pair.original0, pair.original1)
    torch.testing.assert_close(folded, normed.weight, rtol=1e-6, atol=1e-7)


def test_whole_frames_stay_whole(codec):
    for frames in range(1, 9):
        codes = codec.encode(recording(frames * HOP))
        assert codes.shape == (codec.config.codebooks, frames)
        assert codec.decode(codes).shape == (1, frames * HOP)


@settings(max_examples=40, deadline=None)
@given(samples=st.integers(HOP, 9600))
def test_a_rest_is_at_most_one_frame(samples):
    codes = shared("published").encode(recording(samples))
    assert codes.shape[1] - samples // HOP in (0, 1)


@settings(max_examples=40, deadline=None)
@given(samples=st.integers(HOP, 9600))
def test_acoustic_frames_are_foretold(samples):
    encoder = shared("published").encoder.acoustic_encoder
    with torch.no_grad():
        assert encoder(torch.zeros(1, 1, samples)).shape[2] == encoder.frames(samples)


def test_repeatable_and_inputs_untouched(codec):
    samples, codes = recording(4800), random_codes(codec, 7)
    kept = samples.clone(), codes.clone(), {k: v.clone() for k, v in codec.state_dict().items()}
    assert torch.equal(codec.encode(samples), codec.encode(samples))
    assert torch.equal(codec.decode(codes), codec.decode(codes))
    assert torch.equal(samples, kept[0]) and torch.equal(codes, kept[1])
    assert all(torch.equal(v, kept[2][k]) for k, v in codec.state_dict().items())


@pytest.mark.parametrize("frames", [1, 2, 3, 50])
def test_random_codes_decode_to_finite_sound(codec, frames):
    samples = codec.decode(random_codes(codec, frames))
    assert samples.shape == (1, frames * HOP) and samples.dtype == torch.float32
    assert not samples.requires_grad and bool(samples.isfinite().all()) and samples.abs().max() > 0


def test_receptive_field_of_the_decoder(published):
    codes = random_codes(published, 40)
    other = codes.clone()
    other[:, 20] = (other[:, 20] + 1) % published.config.codebook_size
    changed = (published.decode(codes) != published.decode(other))[0].unflatten(0, (40, HOP)).any(1).nonzero()[:, 0]
    assert changed.tolist() == list(range(20 - 10, 20 + 10 + 1))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (torch.zeros(1, 959), "has 959 samples at 24000 Hz, the codec needs at least 960"),
        (torch.zeros(1, 0), "has 0 samples"),
        (torch.zeros(2, 9600), r"shape \[1, N\], got \[2, 9600\] torch.float32"),
        (torch.zeros(9600), r"got \[9600\]"),
        (torch.zeros(1, 9600, dtype=torch.float64), "got .* torch.float64"),
    ],
)
def test_sound_that_cannot_be_encoded(published, samples, message):
    with pytest.raises(AudioError, match=message):
        published.encode(samples)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (torch.full((5, 3), 96), "codes must be 0-95, got 96 to 96"),
        (torch.full((5, 3), -1), "codes must be 0-95, got -1 to -1"),
        (torch.zeros(4, 3, dtype=torch.int64), r"shape \[5, T\] with T > 0, got \[4, 3\]"),
        (torch.zeros(5, 0, dtype=torch.int64), r"got \[5, 0\]"),
        (torch.zeros(1, 5, 3, dtype=torch.int64), r"got \[1, 5, 3\]"),
        (torch.zeros(5, 3, dtype=torch.int16), "got .* torch.int16"),
    ],
)
def test_codes_that_cannot_be_decoded(published, codes, message):
    with pytest.raises(InputError, match=message):
        published.decode(codes)


def casting(layer):
    """`layer` as a host's library makes it: the weights are brought to the input when the layer runs."""

    class Casting(layer):
        def forward(self, x):
            return layer.forward(copy.deepcopy(self).to(device=x.device, dtype=x.dtype), x)

    return Casting


class CastingOps:
    Linear = casting(nn.Linear)
    Conv1d = casting(nn.Conv1d)
    ConvTranspose1d = casting(nn.ConvTranspose1d)
    LayerNorm = casting(nn.LayerNorm)
    GroupNorm = casting(nn.GroupNorm)


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_used_only_where_ops_can_bring_them(name):
    elsewhere = build(name, ops=CastingOps(), dtype=torch.bfloat16)
    rounded = build(name)
    rounded.load_state_dict({k: v.float() for k, v in elsewhere.state_dict().items()}, strict=True)
    assert torch.equal(elsewhere.encode(recording()), rounded.encode(recording()))
    codes = random_codes(rounded, 6)
    torch.testing.assert_close(elsewhere.decode(codes), rounded.decode(codes), atol=1e-5, rtol=0)


def test_what_a_patcher_relies_on(published):
    for half in (published.encoder, published.decoder):
        assert not list(half.buffers())
        assert not hasattr(half, "device")
        assert half.get_dtype() == torch.float32
        for name, module in half.named_modules():
            assert not (list(module.children()) and list(module.parameters(recurse=False))), name
