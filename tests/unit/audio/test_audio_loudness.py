"""Levels: upstream's gains, the floor, and channels that cancel."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.loudness import RMS_FLOOR, match_level, raise_to_speech, rms, to_mono, without_offset


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


def test_mono_and_stereo_are_as_upstream() -> None:
    assert to_mono(torch.tensor([[1.0, 0.0, -1.0], [0.0, 0.5, -0.5]]))[0].tolist() == [[0.5, 0.25, -0.75]]
    one = noise()
    assert to_mono(one)[0] is one
    two = torch.cat([noise(), noise(level=0.02).flip(1)])
    mono, problem = to_mono(two)
    assert torch.equal(mono, torch.from_numpy(np.mean(two.numpy(), axis=0, keepdims=True))) and problem is None


def spread(channels: int, **at: torch.Tensor) -> torch.Tensor:
    """Return channels of silence except those given, such as c3 for the third."""
    samples = torch.zeros(channels, 5000)
    for name, sound in at.items():
        samples[int(name[1:]) - 1] = sound[0]
    return samples


@pytest.mark.parametrize("channels", [3, 4, 5, 6, 7, 8, 16])
def test_a_voice_in_one_channel_of_many_keeps_its_level(channels: int) -> None:
    """The mean of six channels would be 15.6 dB below a voice in the centre."""
    voice = noise()
    for number in range(1, channels + 1):
        mono, problem = to_mono(spread(channels, **{f"c{number}": voice}))
        torch.testing.assert_close(mono, voice)
        assert (problem is not None) == (channels in (6, 8) and number == 4)  # where 5.1 has low frequencies


@pytest.mark.parametrize("channels", [3, 5, 6, 8])
def test_the_same_in_every_channel_is_that(channels: int) -> None:
    torch.testing.assert_close(to_mono(noise().expand(channels, -1))[0], noise())


def test_low_frequencies_of_a_film_are_left_out() -> None:
    voice, boom = noise(), 0.5 * torch.sin(torch.arange(5000) / 100)[None]
    for channels in (6, 8):
        mono, problem = to_mono(spread(channels, c3=voice, c4=boom))
        torch.testing.assert_close(mono, voice)
        assert problem is None


def test_the_centre_stands_before_the_surrounds() -> None:
    voice, room = noise(), noise(1, 5000).flip(1) * 0.5
    mono, _ = to_mono(spread(6, c3=voice, c1=room, c2=room, c5=room, c6=room))
    assert float(torch.corrcoef(torch.cat([mono, voice]))[0, 1]) > 0.6
    assert rms(mono) == pytest.approx(rms(voice), rel=1e-5)
    assert float(mono.abs().max()) <= float(voice.abs().max())


@settings(max_examples=50, deadline=None)
@given(st.integers(3, 16), st.integers(0, 2**16), st.floats(1e-6, 1))
def test_a_mix_is_never_louder_than_its_channels(channels: int, seed: int, level: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    samples = torch.randn(channels, 500, generator=generator) * torch.rand(channels, 1, generator=generator) * level
    samples -= samples.mean(1, keepdim=True)
    mono, _ = to_mono(samples)
    assert mono.shape == (1, 500) and bool(torch.isfinite(mono).all())
    assert float(mono.abs().max()) <= float(samples.abs().max()) * 1.0001


@pytest.mark.parametrize("channels", [2, 3, 6])
def test_silence_stays_silence(channels: int) -> None:
    mono, problem = to_mono(torch.zeros(channels, 100))
    assert torch.equal(mono, torch.zeros(1, 100)) and problem is None
    assert to_mono(torch.zeros(channels, 0))[0].shape == (1, 0)


def test_channels_that_cancel_give_the_louder_one_and_a_problem() -> None:
    left = noise()
    mono, problem = to_mono(torch.cat([left * 0.95, -left]))
    assert torch.equal(mono, -left)
    assert problem == "its channels cancel each other out, channel 2 of 2 is the loudest"
    for channels in (4, 6):
        many = spread(channels, c1=left, c2=-left)
        assert torch.equal(to_mono(many)[0], left)


@pytest.mark.parametrize("offset", [0.5, -0.02, 0.004])
def test_an_offset_is_removed_from_each_channel(offset: float) -> None:
    clean = noise() - noise().mean()
    for samples in (clean + offset, torch.cat([clean, clean + offset]), torch.cat([clean - offset, clean + offset])):
        torch.testing.assert_close(to_mono(samples)[0], clean, atol=1e-6, rtol=0)
    mono, problem = to_mono(torch.cat([clean + offset, offset - clean]))  # they cancel, whatever the offset
    torch.testing.assert_close(mono, clean, atol=1e-6, rtol=0)
    assert problem is not None


@pytest.mark.parametrize("share", [0, 0.01, 0.025, -0.029])
def test_without_an_offset_nothing_is_changed(share: float) -> None:
    """Real recordings have a mean of up to 2.5 % of their RMS without any offset."""
    clean = noise() - noise().mean()
    samples = clean + share * rms(clean)
    assert without_offset(samples) is samples
    assert to_mono(samples)[0] is samples
    assert without_offset(torch.zeros(2, 0)).shape == (2, 0)


def test_one_silent_channel_is_no_cancellation() -> None:
    left = noise()
    mono, warning = to_mono(torch.cat([left, torch.zeros_like(left)]))
    assert torch.equal(mono, left / 2)
    assert warning is None
