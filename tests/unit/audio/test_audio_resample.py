"""Resampling: equal to torchaudio at common rates, right against float64 at all others, bounded, on any length."""

from __future__ import annotations

import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio import resample as module
from omnivoice.audio.resample import resample
from omnivoice.errors import AudioError

RATES = [
    (8000, 24000),
    (11025, 24000),
    (16000, 24000),
    (22050, 24000),
    (32000, 24000),
    (44100, 24000),
    (48000, 24000),
    (96000, 24000),
    (192000, 24000),
    (24000, 16000),
    (24000, 44100),
    (11025, 16000),
    (47952, 24000),
]
ODD_RATES = [(22051, 24000), (23999, 24000), (7999, 24000), (383999, 24000), (24001, 4000), (4001, 384000)]


def reference(samples: torch.Tensor, old: int, new: int, outputs: torch.Tensor) -> torch.Tensor:
    """Chosen outputs in float64 straight from the formula: a sum over every input sample."""
    cutoff = 0.99 * min(old, new)
    times = outputs[:, None].double() / new - torch.arange(samples.shape[1])[None].double() / old
    t = (times * cutoff).clamp(-6, 6)
    return (samples.double() * torch.sinc(t) * torch.cos(t * math.pi / 12) ** 2 * cutoff / old).sum(1)


@pytest.mark.parametrize(("old", "new"), [*RATES, (23976, 24000)])
def test_equals_torchaudio(golden, old: int, new: int) -> None:
    expected = golden[f"resample/{old}/{new}"]
    result = resample(golden["resample/in"], old, new)
    assert result.shape == expected.shape
    assert float((result - expected).abs().max()) <= 1e-6


@pytest.mark.parametrize(("old", "new"), RATES)
def test_the_gpu_form_gives_the_same(golden, monkeypatch, old: int, new: int) -> None:
    monkeypatch.setattr(module, "_convolve", module._multiply)
    result = resample(golden["resample/in"], old, new)
    assert float((result - golden[f"resample/{old}/{new}"]).abs().max()) <= 1e-6


@pytest.mark.parametrize(("old", "new"), RATES)
def test_the_form_for_odd_rates_agrees_at_common_ones(golden, monkeypatch, old: int, new: int) -> None:
    monkeypatch.setattr(module, "MAX_BANK_TAPS", 0)
    result = resample(golden["resample/in"], old, new)
    expected = golden[f"resample/{old}/{new}"].double()
    assert result.shape == expected.shape
    assert 20 * math.log10((result - expected).norm() / expected.norm()) < -90


@pytest.mark.parametrize(("old", "new"), ODD_RATES + RATES)
def test_error_against_float64_is_below_minus_90_db(old: int, new: int) -> None:
    torch.manual_seed(3)
    samples = torch.rand(1, old // 4) * 2 - 1
    result = resample(samples, old, new)[0]
    outputs = torch.randint(0, result.numel(), (150,))
    expected = reference(samples, old, new, outputs)
    assert 20 * math.log10((result[outputs] - expected).norm() / expected.norm()) < -90


@pytest.mark.parametrize(("old", "new"), ODD_RATES)
def test_a_second_at_an_odd_rate_takes_less_than_a_second(old: int, new: int) -> None:
    began = time.process_time()
    resample(torch.zeros(1, old), old, new)
    assert time.process_time() - began < 2  # 0.2 s measured; the usual implementation takes 30-50 s


def test_blocks_do_not_change_the_result(monkeypatch) -> None:
    torch.manual_seed(4)
    samples = torch.rand(2, 30000) * 2 - 1
    whole = resample(samples, 22051, 24000)
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 5000)
    assert torch.equal(resample(samples, 22051, 24000), whole)


def test_channels_are_independent() -> None:
    torch.manual_seed(5)
    samples = torch.rand(3, 1000) * 2 - 1
    for pair in [(44100, 24000), (44101, 24000)]:
        together = resample(samples, *pair)
        for i in range(3):
            assert torch.allclose(together[i], resample(samples[i : i + 1], *pair)[0], atol=1e-6)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 900), st.integers(4000, 384000), st.integers(4000, 384000))
def test_any_length_at_any_rate(length: int, old: int, new: int) -> None:
    samples = torch.ones(1, length)
    result = resample(samples, old, new)
    assert result.dtype == torch.float32
    assert result.shape == (1, -(-length * new // old))
    assert bool(torch.isfinite(result).all())
    assert float(result.abs().max() if length else 0) < 1.26  # two ones alone: the sinc overshoots by 0.25


def test_equal_rates_give_the_input_itself() -> None:
    samples = torch.rand(1, 100)
    assert resample(samples, 24000, 24000) is samples


@pytest.mark.parametrize("rate", [0, -1, 3999, 384001, 10**12, 44100.0, True, "44100"])
def test_a_rate_out_of_range_is_refused(rate) -> None:
    with pytest.raises(AudioError, match=r"sample rate must be a whole number of Hz within 4000-384000, got"):
        resample(torch.zeros(1, 10), rate, 24000)


def test_another_shape_is_refused() -> None:
    with pytest.raises(AudioError, match=r"must be a float tensor \[C, N\], got \(10,\)"):
        resample(torch.zeros(10), 8000, 24000)
