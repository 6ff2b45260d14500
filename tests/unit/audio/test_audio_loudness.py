"""Levels: upstream's gains, the floor, and channels that cancel."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.loudness import RMS_FLOOR, match_level, raise_to_speech, rms, to_mono


def noise(channels: int = 1, length: int = 5000, level: float = 0.1) -> torch.Tensor:
    return torch.randn(channels, length, generator=torch.Generator().manual_seed(length)) * level


def test_rms() -> None:
    assert rms(torch.tensor([[3.0, -4.0]])) == pytest.approx(math.sqrt(12.5))
    assert rms(torch.zeros(1, 0)) == 0.0


def test_a_reference_at_or_above_speech_level_changes_nothing() -> None:
    samples = noise()
    assert match_level(samples, 0.1) is samples
    assert match_level(samples, 0.4) is samples
    assert raise_to_speech(samples, 0.1) is samples
    assert raise_to_speech(samples, 0.0) is samples


@pytest.mark.parametrize("level", [0.0934, 0.00934, 0.005])
def test_a_quieter_reference_makes_the_output_as_quiet(level: float) -> None:
    samples = noise()
    assert torch.allclose(match_level(samples, level), samples * (level / 0.1), rtol=1e-6, atol=0)
    assert rms(raise_to_speech(samples * level, rms(samples * level))) == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize("level", [0.001, 1e-9, 0.0])
def test_the_output_is_never_quieter_than_the_floor(level: float) -> None:
    samples = noise()
    assert RMS_FLOOR == 0.005
    assert rms(match_level(samples, level)) == pytest.approx(rms(samples) * 0.05, rel=1e-5)


def test_without_a_reference_the_peak_is_one_half() -> None:
    for level in (0.002, 0.1, 3.0):
        assert float(match_level(noise(level=level), None).abs().max()) == pytest.approx(0.5, abs=1e-6)
    nearly = torch.full((1, 10), 1e-7)
    assert match_level(nearly, None) is nearly


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1), st.floats(1e-5, 1))
def test_levelling_never_raises_a_voice(reference: float, level: float) -> None:
    samples = noise(level=level)
    assert float(match_level(samples, reference).abs().max()) <= float(samples.abs().max())


def test_mono_is_the_mean_of_the_channels() -> None:
    assert to_mono(torch.tensor([[1.0, 0.0], [0.0, 0.5]]))[0].tolist() == [[0.5, 0.25]]
    one = noise()
    assert to_mono(one)[0] is one
    for channels in (2, 3, 8):
        samples = noise(channels)
        mono, warning = to_mono(samples)
        assert torch.allclose(mono[0], samples.mean(0), atol=1e-7)
        assert warning is None


def test_channels_that_cancel_give_the_louder_one_and_a_warning() -> None:
    left = noise()
    mono, warning = to_mono(torch.cat([left * 0.95, -left]))
    assert torch.equal(mono, -left)
    assert warning is not None
    assert "only channel 2 of 2" in warning


def test_one_silent_channel_is_no_cancellation() -> None:
    left = noise()
    mono, warning = to_mono(torch.cat([left, torch.zeros_like(left)]))
    assert torch.equal(mono, left / 2)
    assert warning is None
