"""The demo codec for training: it computes what the engine's codec does, with the gradients of torch's layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from demo_voice.making import codec_model
from demo_voice.making.codec_model import CODES, SIZES, WIDTH, Codebooks, DemoCodec
from demo_voice.making.codec_pack import codec_tensors, pack_codec
from demo_voice.making.codes import load_codec


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than these tests."""
    plain = (codec_model._snake_forward, codec_model._snake_backward)
    monkeypatch.setattr(codec_model, "_fused", lambda: plain)


@pytest.fixture(scope="module")
def codec() -> DemoCodec:
    made = DemoCodec()
    made.start(0)
    made.books.vectors.normal_(0, 1, generator=torch.Generator().manual_seed(1))
    for name, parameter in made.named_parameters():
        if name.endswith("alpha"):
            parameter.data.uniform_(0.5, 2.0, generator=torch.Generator().manual_seed(2))
    return made


def test_training_forward_equals_the_engine(codec: DemoCodec) -> None:
    noise = torch.Generator().manual_seed(3)
    audio = 0.1 * torch.randn(1, 1, 12 * 960, generator=noise)
    features = torch.randn(1, WIDTH, 12, generator=noise)
    with torch.no_grad():
        torch.testing.assert_close(codec.encode(audio), codec.acoustic_encoder(audio), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(codec.decode(features), codec.acoustic_decoder(features), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("channels", "taps", "dilation"), [(5, 7, 3), (5, 1, 1), (20, 7, 9), (20, 1, 1)])
def test_gradients_of_a_convolution_equal_torch(channels: int, taps: int, dilation: int) -> None:
    layer = nn.Conv1d(channels, channels, taps, padding=taps // 2 * dilation, dilation=dilation)
    x = torch.randn(2, channels, 40, generator=torch.Generator().manual_seed(0), requires_grad=True)
    wanted = torch.autograd.grad(layer(x).sin().sum(), [x, *layer.parameters()])
    found = torch.autograd.grad(codec_model.conv(layer, x).sin().sum(), [x, *layer.parameters()])
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_gradients_of_snake_equal_autograd() -> None:
    x = torch.randn(2, 3, 20, generator=torch.Generator().manual_seed(0), requires_grad=True)
    alpha = torch.tensor([0.3, 1.0, 2.5]).view(1, 3, 1).requires_grad_()
    plain = x + torch.sin(alpha * x).square() / (alpha + 1e-9)
    torch.testing.assert_close(codec_model._Snake.apply(x, alpha), plain)
    wanted = torch.autograd.grad(plain.square().sum(), [x, alpha])
    found = torch.autograd.grad(codec_model._Snake.apply(x, alpha).square().sum(), [x, alpha])
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_codebooks_learn_the_points_and_pass_gradients_through() -> None:
    noise = torch.Generator().manual_seed(0)
    points = torch.randn(30, WIDTH, generator=noise)
    x = points[torch.randint(30, (4, 300), generator=noise)].requires_grad_()
    books = Codebooks()
    books.start(x.detach().flatten(0, 1), noise)
    quantized, commitment, _ = books(x, torch.tensor([8, 8, 8, 1]), noise)
    assert float(commitment.detach()) < 0.01
    torch.testing.assert_close(quantized, x, atol=0.05, rtol=0)
    (slope,) = torch.autograd.grad(quantized.sum(), x)
    assert bool((slope == 1).all())


def test_packed_codec_gives_the_codes_of_the_nearest_entries(codec: DemoCodec, tmp_path: Path) -> None:
    pack_codec(codec, tmp_path)
    encoder, decoder = load_codec(tmp_path)
    assert encoder.config.codebooks == len(SIZES) == 8 and encoder.config.codebook_size == CODES
    audio = 0.1 * torch.randn(1, 20 * 960, generator=torch.Generator().manual_seed(4))
    codes = encoder.encode(audio)
    assert codes.shape == (8, 20)
    assert all(int(row.max()) < size for row, size in zip(codes, SIZES))
    aliases = codes.clone()
    for k, size in enumerate(SIZES):
        aliases[k] = codes[k] if size == CODES else codes[k] + size
    torch.testing.assert_close(decoder.decode(aliases), decoder.decode(codes))
    with torch.no_grad():
        rest = encoder.acoustic_encoder(audio[None])[0].T
    for row, vectors, size in zip(codes, codec.books.vectors.half().float(), SIZES):
        assert torch.equal(row, torch.cdist(rest, vectors[:size]).argmin(dim=1))
        rest = rest - vectors[row]


def test_packed_codec_is_small_and_finite(codec: DemoCodec, tmp_path: Path) -> None:
    pack_codec(codec, tmp_path)
    assert (tmp_path / "model.safetensors").stat().st_size < 4_500_000
    assert json.loads((tmp_path / "config.json").read_text())["codebook_size"] == CODES
    assert all(bool(tensor.isfinite().all()) for tensor in codec_tensors(codec).values())
