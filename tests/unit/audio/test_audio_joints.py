"""The roughness of joints by its definition, hostile recordings, and the search for a smooth place."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from omnivoice.audio.joints import (
    LEAST_STEP_DB,
    STANDARD,
    USUAL_STEP_DB,
    Fade,
    find_fade,
    roughness,
    scale_of,
    scales_of,
)


def speech(count: int, seed: int = 0) -> Tensor:
    """Return [count] at 24 kHz: noise whose level and colour change five times a second."""
    drawn = torch.randn(2, count + 1, generator=torch.Generator().manual_seed(seed))
    time = torch.arange(count) / 24000
    tilt = torch.sin(31 * time)
    return 0.1 * (drawn[0, 1:] + tilt * drawn[0, :-1]) * (1.1 + torch.sin(17 * time))


def reference_levels(samples: np.ndarray) -> np.ndarray:
    """Return the power in 80 bands, written down from the definition: [F, 80]."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    top = 2595 * math.log10(1 + 12000 / 700)
    edges = [700 * (10 ** (top * i / 81 / 2595) - 1) for i in range(82)]
    hz = np.arange(513) * 24000 / 1024
    filters = np.stack([np.interp(hz, edges[i : i + 3], [0, 1, 0], left=0, right=0) for i in range(80)], 1)
    starts = range(0, len(samples) - 1023, 240)
    return np.stack([np.abs(np.fft.rfft(samples[s : s + 1024] * window)) ** 2 @ filters for s in starts])


def reference_steps(powers: np.ndarray, floor: float) -> np.ndarray:
    return np.abs(np.diff(10 * np.log10(np.maximum(powers, floor)), axis=0)).mean(1)


def test_the_scale_is_the_95th_percentile_of_the_steps_in_speech() -> None:
    samples = torch.cat((speech(60_000), torch.zeros(30_000), speech(60_000, 1)))
    powers = reference_levels(samples.double().numpy())
    floor = powers.max() * 1e-7
    levels, steps = powers.sum(1)[1:], reference_steps(powers, floor)
    spoken = np.sort(steps[levels > powers.sum(1)[1:].max() * 1e-4])
    scale = scale_of(samples)
    assert scale.floor == pytest.approx(floor, rel=1e-4)
    assert scale.typical == pytest.approx(spoken[int(0.95 * (len(spoken) - 1))], rel=1e-4)


@pytest.mark.parametrize("start, end", [(30_000, 30_480), (5_000, 5_000), (50_000, 52_000)])
def test_roughness_is_the_largest_step_near_the_fade(start: int, end: int) -> None:
    samples, scale = speech(60_000), scale_of(speech(60_000))
    around = samples[start - 1200 - 512 : end + 1200 + 512].double().numpy()
    expected = reference_steps(reference_levels(around), scale.floor).max() / scale.typical
    assert roughness(samples, start, end, scale) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("gain", [0.1, 0.3, 8.0])
def test_roughness_does_not_depend_on_the_level(gain: float) -> None:
    samples = speech(60_000)
    one, other = (roughness(x, 30_000, 30_240, scale_of(x)) for x in (samples, samples * gain))
    assert other == pytest.approx(one, rel=1e-3)


def test_a_hard_cut_is_rough_and_the_recording_itself_is_not() -> None:
    samples = speech(60_000)
    scale = scale_of(samples)
    cut = torch.cat((samples[:30_000], 0.02 * torch.sin(torch.arange(30_000) * 0.3)))
    untouched = [roughness(samples, at, at, scale) for at in range(3_000, 57_000, 3_000)]
    assert roughness(cut, 30_000, 30_000, scale) > 2
    assert sum(untouched) / len(untouched) < 1


@pytest.mark.parametrize("count", [0, 1, 960, 1023, 1024, 1264, 24_000])
def test_silence_and_very_short_recordings_have_the_usual_step(count: int) -> None:
    for samples in (torch.zeros(count), speech(count)[:5_000]):
        assert scale_of(samples).typical == USUAL_STEP_DB
        assert math.isfinite(roughness(samples, count // 2, count // 2, scale_of(samples)))


@pytest.mark.parametrize("samples", [torch.ones(48_000), torch.sin(torch.arange(48_000) * 0.1)])
def test_a_recording_that_never_changes_has_a_step_above_0(samples: Tensor) -> None:
    assert scale_of(samples).typical == LEAST_STEP_DB
    assert roughness(samples, 24_000, 24_000, scale_of(samples)) < 0.1


@pytest.mark.parametrize("silence", [0, 240_000, 2_400_000])
def test_digital_silence_does_not_make_the_scale_smaller(silence: int) -> None:
    samples = torch.cat((speech(96_000), torch.zeros(silence)))
    assert scale_of(samples).typical == pytest.approx(scale_of(speech(96_000)).typical, rel=0.05)


@pytest.mark.parametrize("seconds", [30, 400])
def test_long_recordings_are_measured_as_short_ones(seconds: int) -> None:
    samples = speech(24_000).repeat(seconds)  # several blocks, of which some are left out
    assert scale_of(samples).typical == pytest.approx(scale_of(speech(24_000).repeat(6)).typical, rel=0.02)


def test_the_search_avoids_what_is_rough() -> None:
    outgoing = speech(20_000)
    incoming = outgoing.clone()
    incoming[9_000:12_001:1_000] += 20  # clicks
    fade = find_fade(outgoing, incoming, 8_700, 18_000, scales_of(speech(96_000)))
    assert fade.start > 12_000 and fade.start < fade.end <= 18_000
    assert fade.correlation == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("room", [0, 1, 7, 119, 120, 121])
def test_the_search_has_an_answer_in_little_room(room: int) -> None:
    fade = find_fade(speech(9_000), speech(9_000, 1), 4_000, 4_000 + room, scales_of(speech(48_000)))
    assert 4_000 <= fade.start <= fade.end <= 4_000 + room
    falling, rising = fade.weights(fade.end - fade.start)
    assert falling.shape == rising.shape == (fade.end - fade.start,)


@pytest.mark.parametrize("correlation, middle", [(1.0, 0.5), (0.0, 0.5**0.5), (0.5, 3**-0.5)])
def test_the_power_is_steady(correlation: float, middle: float) -> None:
    falling, rising = Fade(0, 101, correlation, 0.0).weights(101)
    assert float(falling[50]) == float(rising[50]) == pytest.approx(middle, rel=1e-5)
    power = falling.square() + rising.square() + 2 * correlation * falling * rising
    torch.testing.assert_close(power, torch.ones(101))
    torch.testing.assert_close(falling, rising.flip(0))
    assert float(rising[0]) < 0.01


def test_the_standard_measure_is_the_documented_one() -> None:
    assert (STANDARD.window, STANDARD.hop, STANDARD.bands, STANDARD.floor_db) == (1024, 240, 80, -70.0)
