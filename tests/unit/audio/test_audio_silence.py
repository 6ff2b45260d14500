"""Silence removal: upstream's result sample for sample, and never nothing."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.silence import grid_clip, remove_silence, silent_ranges, silent_runs, to_grid

RATE = 24000
OUTPUT = {"mid_ms": 500, "lead_ms": 100, "trail_ms": 100}
REFERENCE = {"mid_ms": 200, "lead_ms": 100, "trail_ms": 200}


def tone(seconds: float, rms: float, rate: int = RATE) -> torch.Tensor:
    t = torch.arange(round(seconds * rate), dtype=torch.float64) / rate
    return (torch.sin(2 * torch.pi * 440 * t) * rms * 2**0.5).float()[None]


def silence(seconds: float, rate: int = RATE) -> torch.Tensor:
    return torch.zeros(1, round(seconds * rate))


@pytest.mark.parametrize("name", ["reference", "output", "edges", "short"])
def test_equals_upstream(golden, index, name: str) -> None:
    entry = index[f"silence/out/{name}"]
    mid, lead, trail = entry["ms"]
    samples = golden[f"silence/{entry['in']}"]
    result = remove_silence(samples, entry["rate"], mid_ms=mid, lead_ms=lead, trail_ms=trail)
    assert torch.equal(result, golden[f"silence/out/{name}"])


def test_pauses_of_known_length() -> None:
    clip = torch.cat([silence(0.2), tone(1, 0.1), silence(2), tone(1, 0.1)], dim=1)
    assert abs(remove_silence(clip, RATE, **REFERENCE).shape[1] / RATE - 2.5) <= 0.02
    assert abs(remove_silence(clip, RATE, **OUTPUT).shape[1] / RATE - 3.1) <= 0.02


def test_the_result_lies_on_the_16_bit_grid_truncated_towards_zero() -> None:
    result = remove_silence(tone(0.5, 0.2) + 1e-6, RATE, **OUTPUT) * 32768
    assert torch.equal(result, result.trunc())
    assert to_grid(torch.tensor([0.9 / 32768, -0.9 / 32768, 1.5, -1.5])).tolist() == [0, 0, 32767, -32768]


def test_the_threshold_is_an_rms_of_103_sixteen_bit_steps() -> None:
    for level, expected in [(103, True), (104, False)]:
        clip = grid_clip(torch.full((1, RATE), level / 32768), RATE)
        assert (silent_ranges(clip, 200, -50.0) == [(0, 1000)]) is expected


def test_a_tone_of_minus_54_db_is_not_emptied() -> None:
    quiet = tone(1, 10 ** (-54 / 20))
    for args in (OUTPUT, REFERENCE):
        assert torch.equal(remove_silence(quiet, RATE, **args), quiet)


def test_a_quiet_clip_is_trimmed_relative_to_its_own_level_and_keeps_its_precision() -> None:
    quiet = torch.cat([silence(1), tone(1, 1e-4), silence(1)], dim=1)
    result = remove_silence(quiet, RATE, **OUTPUT)
    assert abs(result.shape[1] / RATE - 1.2) <= 0.02
    assert torch.equal(result, quiet[:, 21600 : 21600 + result.shape[1]])


def test_a_quiet_clip_with_a_short_loud_moment_is_not_emptied() -> None:
    clip = tone(2, 0.001)
    clip[0, 24000:24200] *= 8  # 10 ms above the threshold, no 500 ms window is: upstream returns nothing
    assert remove_silence(clip, RATE, **OUTPUT).shape[1] > RATE


def test_all_zero_comes_back_as_it_is() -> None:
    zero = silence(0.7)
    assert remove_silence(zero, RATE, **OUTPUT) is zero


def test_forty_seconds_take_less_than_a_tenth() -> None:
    torch.manual_seed(1)
    clip = torch.randn(1, 40 * RATE) * torch.rand(40).gt(0.5).repeat_interleave(RATE)
    remove_silence(clip, RATE, **REFERENCE)
    began = time.process_time()
    remove_silence(clip, RATE, **REFERENCE)
    assert time.process_time() - began < 0.5  # 0.05 s measured


def test_the_input_is_not_changed() -> None:
    clip = torch.cat([silence(1), tone(1, 0.1)], dim=1)
    before = clip.clone()
    remove_silence(clip, RATE, **OUTPUT)
    assert torch.equal(clip, before)


def test_silent_runs_are_exact_in_samples() -> None:
    clip = torch.cat([silence(0.5), tone(0.3, 0.1), silence(0.2), tone(0.1, 0.1), silence(0.005)], dim=1)
    runs = silent_runs(grid_clip(clip, RATE))
    assert runs == [(0, 12000), (19200, 24000), (26400, 26520)]


def test_a_burst_that_is_loud_only_forwards_is_not_emptied() -> None:
    clip = torch.zeros(1, RATE + 120)  # half a step longer: backwards the burst falls into two windows
    clip[0, 12000:12240] = 110 / 32768
    assert remove_silence(clip, RATE, mid_ms=0, lead_ms=10, trail_ms=0).shape[1] > 0


levels = st.sampled_from([0.0, 1e-5, 5e-4, 0.00314, 0.00319, 0.02, 0.3, 1.5])
pieces = st.lists(st.tuples(st.integers(0, 9000), levels), max_size=6)


@settings(max_examples=120, deadline=None)
@given(
    pieces,
    st.sampled_from([4000, 11025, 24000, 44100]),
    st.sampled_from([0, 1, 200, 500]),
    st.sampled_from([0, 100]),
    st.integers(0, 2**16),
)
def test_any_clip_gives_something(parts, rate: int, mid_ms: int, edge_ms: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    clip = torch.cat([torch.zeros(0), *(torch.randn(n, generator=generator) * level for n, level in parts)])[None]
    result = remove_silence(clip, rate, mid_ms=mid_ms, lead_ms=edge_ms, trail_ms=edge_ms)
    assert result.dtype == torch.float32
    assert (result.shape[1] > 0) == (clip.shape[1] > 0)
    assert result.shape[1] <= clip.shape[1] + rate // 1000
    peaks = [float(x.abs().max()) if x.numel() else 0.0 for x in (result, clip)]
    assert peaks[0] <= max(1.0, peaks[1])


def test_off_the_grid_is_half_a_step_from_it_whichever_way_rounding_falls() -> None:
    clip = torch.cat([tone(1.0, 0.3), torch.tensor([[0.4 / 32768, -0.9 / 32768, 1.7, -1.7]]).repeat(1, 99)], dim=1)
    halfway = remove_silence(clip, RATE, **OUTPUT, on_grid=False)
    for rounding in (-0.45, 0.0, 0.45):
        grid = remove_silence(clip + rounding / 32768, RATE, **OUTPUT)
        assert halfway.shape == grid.shape
        assert float((halfway - grid).abs().max()) == 0.5 / 32768
