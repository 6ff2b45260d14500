"""Decoded audio in the recording's channels: level, side, polarity, silence, offset, and the noise above 12 kHz."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from omnivoice.audio.air import air
from omnivoice.audio.patch_levels import in_channels, levelled
from omnivoice.audio.patches import Patch
from omnivoice.audio.splice import splice
from omnivoice.types import Waveform

HOP = 960
INSIDE = slice(22 * HOP, 38 * HOP)  # of the result at 24 kHz, between the margins and well within the patch


def noise(frames: int, seed: int = 0, level: float = 0.1) -> Tensor:
    return level * torch.randn(1, frames * HOP, generator=torch.Generator().manual_seed(seed))


def level(samples: Tensor) -> float:
    return float(samples.square().mean().sqrt())


def spliced(channels: Tensor, gain: float = 1.0, decoded_level: float = 0.1) -> Tensor:
    patch = Patch(20, 40, 20, noise(40, 1, decoded_level), 10, 10)
    return splice(Waveform(channels, 24000), [patch], gain=gain).waveform.samples


def test_equal_channels_stay_equal() -> None:
    result = spliced(noise(60).repeat(3, 1))
    assert torch.equal(result[0], result[1]) and torch.equal(result[0], result[2])


def test_channels_that_differ_by_rounding_get_the_same_samples() -> None:
    channels = torch.cat((noise(60), noise(60) + noise(60, 2, 1e-5)))
    result = spliced(channels)
    assert torch.equal(result[0, INSIDE], result[1, INSIDE])


@pytest.mark.parametrize("left, right", [(1.0, 0.5), (0.25, 1.0), (1.0, 0.01)])
def test_a_voice_stays_at_its_side(left: float, right: float) -> None:
    result = spliced(noise(60) * torch.tensor([[left], [right]]))
    assert level(result[0, INSIDE]) / level(result[1, INSIDE]) == pytest.approx(left / right, rel=1e-3)
    assert level(result[0, INSIDE]) == pytest.approx(0.1 * left, rel=0.05)


@pytest.mark.parametrize("share", [-1.0, -0.5])
def test_reversed_polarity_stays_reversed(share: float) -> None:
    result = spliced(noise(60) * torch.tensor([[1.0], [share]]))
    torch.testing.assert_close(result[1], result[0] * share, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("silent", [0, 1])
def test_a_silent_channel_stays_silent(silent: int) -> None:
    channels = noise(60).repeat(2, 1)
    channels[silent] = 0
    result = spliced(channels)
    assert float(result[silent].abs().max()) == 0
    assert level(result[1 - silent, INSIDE]) == pytest.approx(0.1, rel=0.05)


def test_a_channel_keeps_its_offset() -> None:
    result = spliced(noise(60).repeat(2, 1) + torch.tensor([[0.0], [0.2]]))
    assert float(result[0, INSIDE].mean()) == pytest.approx(0.0, abs=0.01)
    assert float((result[1] - result[0])[INSIDE].mean()) == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("gain, decoded_level", [(1.0, 0.1), (10.0, 1.0), (10.0, 0.7), (0.5, 0.08)])
def test_the_level_is_that_of_the_recording(gain: float, decoded_level: float) -> None:
    result = spliced(noise(60), gain, decoded_level)
    assert level(result[0, INSIDE]) == pytest.approx(0.1, rel=0.05)


def test_the_level_goes_over_from_one_side_to_the_other() -> None:
    mono = torch.cat((noise(30, 0, 0.2), noise(30, 2, 0.1)), 1)[0]
    changed = levelled(Patch(20, 40, 20, noise(40, 1)[0], 10, 10), mono, 1.0)
    ends = [level(changed[: 10 * HOP]), level(changed[20 * HOP : 21 * HOP]), level(changed[30 * HOP :])]
    assert ends == pytest.approx([0.196, 0.14, 0.1], rel=0.05)  # a quiet side counts a little less


def test_next_to_background_alone_the_level_is_that_of_the_encoded_recording() -> None:
    mono = torch.cat((noise(30, 0, 0.2), noise(40, 2, 0.001), noise(30, 3, 0.2)), 1)[0]
    changed = levelled(Patch(45, 55, 10, noise(30, 1)[0] * 4, 10, 10), mono, 4.0)
    assert level(changed) == pytest.approx(0.1, rel=0.05)


def test_a_silent_recording_gets_the_decoded_audio() -> None:
    result = spliced(torch.zeros(2, 60 * HOP), 2.0)
    assert level(result[:, INSIDE]) == pytest.approx(0.05, rel=0.05)
    assert float(result[:, : 12 * HOP].abs().max()) == 0


def test_inputs_are_not_changed() -> None:
    channels, decoded = noise(20).repeat(2, 1) + 0.3, noise(5)
    before = channels.clone(), decoded.clone()
    in_channels(decoded, channels, channels[:1], torch.full((2, 1), 0.3), 0, 4800)
    assert torch.equal(channels, before[0]) and torch.equal(decoded, before[1])


def high(samples: Tensor, rate: int) -> float:
    """Return the level above 13 kHz."""
    spectrum = torch.fft.rfft(samples.double())
    spectrum[..., torch.fft.rfftfreq(samples.shape[-1], 1 / rate) < 13000] = 0
    return level(torch.fft.irfft(spectrum, samples.shape[-1]))


@pytest.mark.parametrize("rate", [44100, 48000, 96000])
def test_noise_above_12_khz_goes_on_in_a_patch(rate: int) -> None:
    channels = 0.01 * torch.randn(2, 60 * rate // 25, generator=torch.Generator().manual_seed(0))
    patch = Patch(20, 40, 20, noise(40, 1, 0.01), 10, 10)
    result = splice(Waveform(channels, rate), [patch]).waveform.samples
    inside = slice(22 * rate // 25, 38 * rate // 25)
    for channel in range(2):
        assert high(result[channel, inside], rate) == pytest.approx(high(channels[channel, inside], rate), rel=0.1)


@pytest.mark.parametrize("rate", [8000, 24000])
def test_there_is_no_air_without_a_band_for_it(rate: int) -> None:
    assert torch.equal(air(noise(50), rate, 100, 200, 77), torch.zeros(1, 77))


def test_air_of_a_recording_that_is_too_short_is_silent() -> None:
    assert torch.equal(air(torch.ones(2, 1000), 48000, 0, 1000, 9), torch.zeros(2, 9))
