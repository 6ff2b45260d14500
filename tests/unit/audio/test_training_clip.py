"""Recordings made ready to be trained on: upstream's samples, whole frames, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from omnivoice.audio.resample import resample
from omnivoice.audio.training_clip import prepare_clip
from omnivoice.errors import AudioError
from omnivoice.types import Waveform


def noise(seconds: float, rate: int = 24_000, channels: int = 1) -> torch.Tensor:
    return 0.1 * torch.randn(channels, round(seconds * rate), generator=torch.Generator().manual_seed(3))


def test_samples_are_upstreams() -> None:
    """Recorded from omnivoice 0.2.1, data/dataset.py JsonlDatasetReader, for one second of stereo at 44.1 kHz."""
    time = np.arange(44_100) / 44_100
    left = (0.3 * np.sin(2 * np.pi * (200 * time + 150 * time * time))).astype(np.float32)
    right = (0.1 * np.cos(2 * np.pi * 330 * time)).astype(np.float32)
    made = prepare_clip(Waveform(torch.from_numpy(np.stack([left, right])), 44_100))
    recorded = [
        -0.73817122,
        0.525148749,
        -0.314879417,
        0.772086203,
        -0.538634658,
        0.583530068,
        -0.716869056,
        -0.137905121,
        0.466162115,
        -0.490212888,
    ]
    assert made.shape == (1, 24_000) and made.dtype == torch.float32
    torch.testing.assert_close(made[0, 100:24_000:2390], torch.tensor(recorded), rtol=0, atol=1e-7)


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_051, 24_000, 48_000])
@pytest.mark.parametrize("channels", [1, 2, 5])
def test_formula_and_whole_frames(rate: int, channels: int) -> None:
    samples = noise(1.03, rate, channels)
    before = samples.clone()
    made = prepare_clip(Waveform(samples, rate))
    mono = resample(torch.from_numpy(samples.numpy().mean(axis=0, keepdims=True)), rate, 24_000)
    expected = mono / (mono.abs().max() + 1e-7) * 0.9
    assert made.shape[1] == mono.shape[1] // 960 * 960 == 25 * 960
    if channels > 2:  # those are scaled before, which only rounds
        torch.testing.assert_close(made, expected[:, : made.shape[1]])
    else:
        assert torch.equal(made, expected[:, : made.shape[1]])
    assert torch.equal(samples, before)


def test_the_peak_is_that_of_the_whole_recording() -> None:
    samples = noise(1.0 + 959 / 24_000)
    samples[0, -1] = 5.0  # in the rest that is cut
    assert float(prepare_clip(Waveform(samples, 24_000)).abs().max()) < 0.2


def test_silences_stay_and_quiet_clips_are_raised() -> None:
    samples = torch.cat([torch.zeros(1, 48_000), 0.001 * noise(1)], dim=1)
    made = prepare_clip(Waveform(samples, 24_000))
    assert made.shape[1] == 72_000 and float(made[:, :48_000].abs().max()) == 0
    assert float(made.abs().max()) == pytest.approx(0.9, rel=1e-3)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (torch.zeros(1, 0), r"it must be at least 0\.5 s long, got 0\.00 s"),
        (noise(0.499), r"it must be at least 0\.5 s long, got 0\.50 s"),
        (noise(30.01), r"it must be at most 30 s long, got 30\.0 s: cut it"),
        (torch.zeros(1, 24_000), "it is silent"),
        (torch.full((1, 24_000), 0.5), "it is silent"),
        (torch.cat([noise(1), torch.tensor([[math.nan]])], dim=1), r"NaN, infinite or beyond 1e\+06"),
        (torch.cat([noise(1), torch.tensor([[-math.inf]])], dim=1), "infinite"),
        (noise(1) * 1e38, "beyond"),
        (
            torch.cat([noise(1), -noise(1)]),
            "its channels cancel each other out, channel 1 of 2 is the loudest: save one of them as mono",
        ),
    ],
)
def test_refusals(samples: torch.Tensor, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        prepare_clip(Waveform(samples, 24_000))


def test_limits_are_inside() -> None:
    assert prepare_clip(Waveform(noise(0.5), 24_000)).shape[1] == 12 * 960
    assert prepare_clip(Waveform(noise(30), 24_000)).shape[1] == 750 * 960


def test_what_only_dogs_hear_is_silent() -> None:
    time = torch.arange(96_000) / 96_000
    with pytest.raises(AudioError, match="it is silent"):
        prepare_clip(Waveform(0.001 * torch.sin(2 * math.pi * 40_000 * time)[None], 96_000))


@pytest.mark.parametrize("offset", [0.02, -0.3, 2.0])
def test_an_offset_changes_nothing(offset: float) -> None:
    clean = noise(1.5) - noise(1.5).mean()
    made = prepare_clip(Waveform(clean + offset, 24_000))
    torch.testing.assert_close(made, prepare_clip(Waveform(clean, 24_000)), atol=1e-5, rtol=0)
    assert float(made.abs().max()) == pytest.approx(0.9, abs=1e-5)


def test_a_voice_in_the_centre_of_six_channels() -> None:
    centre, rumble = noise(1.5), 0.3 * torch.sin(torch.arange(36_000) / 200)[None]
    film = torch.cat([0 * centre, 0 * centre, centre, rumble, 0 * centre, 0 * centre])
    torch.testing.assert_close(prepare_clip(Waveform(film, 24_000)), prepare_clip(Waveform(centre, 24_000)))
