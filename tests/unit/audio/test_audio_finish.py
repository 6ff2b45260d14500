"""The finish: upstream's output within a 16-bit step, exact lengths, and never an empty or silent result."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.finish import drop_silence, finish_speech
from omnivoice.errors import NumericError
from tests.tensor_peak import tensor_peak

RATE = 24000


def noise(seconds: float, level: float = 0.1) -> torch.Tensor:
    count = round(seconds * RATE)
    return torch.randn(1, count, generator=torch.Generator().manual_seed(count)) * level


def silence(seconds: float) -> torch.Tensor:
    return torch.zeros(1, round(seconds * RATE))


def finish(*chunks: torch.Tensor, rms: float | None = 0.1, target: int | None = None, **options) -> torch.Tensor:
    settings_ = {"post_process": True, "pad_seconds": 0.1, "fade_seconds": 0.1} | options
    return finish_speech(chunks, reference_rms=rms, target_samples=target, **settings_)


@pytest.mark.parametrize("rounding", [0.0, 1e-7])
@pytest.mark.parametrize("name", ["voice", "auto"])
def test_within_a_16_bit_step_of_upstream_whatever_the_rounding_of_the_model(golden, index, name, rounding) -> None:
    """auto: the gain is 1.85, so a sample that rounding moves by a whole step before it must not be off by one."""
    entry = index[f"finish/out/{name}"]
    chunks = [golden[f"finish/in/{i}"] for i in range(entry["chunks"])]
    chunks = [
        chunk + rounding * torch.randn(chunk.shape, generator=torch.Generator().manual_seed(1)) for chunk in chunks
    ]
    result = finish(*chunks, rms=entry["rms"], pad_seconds=entry["pad"], fade_seconds=entry["fade"])
    assert result.shape == golden[f"finish/out/{name}"].shape
    assert float((result - golden[f"finish/out/{name}"]).abs().max()) <= 1 / 32767


@pytest.mark.parametrize("peak", [0.05, 0.24, 0.26, 0.35, 0.49, 0.6, 1.2])
def test_the_gain_enlarges_no_16_bit_step(peak: float) -> None:
    """Upstream truncates, then divides by the truncated peak; at a gain above 2 only the very same samples will do."""
    samples = noise(1)
    samples = samples / samples.abs().max() * peak
    truncated = (samples * 32768).clamp(-32768, 32767).trunc() / 32768
    expected = truncated / truncated.abs().max() * 0.5
    result = finish(samples, rms=None, pad_seconds=0.0, fade_seconds=0.0)
    assert float((result - expected).abs().max()) <= 1 / 32767
    assert torch.equal(finish(samples, rms=0.1, pad_seconds=0.0, fade_seconds=0.0), truncated)


def test_a_quiet_output_survives_post_processing() -> None:
    quiet = noise(2, 0.002)
    for rms in (None, 0.1, 0.0):
        result = finish(quiet, rms=rms)
        assert result.shape[1] == quiet.shape[1] + 4800
        assert float(result.abs().max()) > 1e-4


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_result_that_is_not_finite_is_an_error(bad: float) -> None:
    spoilt = noise(1)
    spoilt[0, 7] = bad
    with pytest.raises(NumericError, match="NaN or Inf"):
        finish(noise(1), spoilt)


def test_digital_silence_is_an_error() -> None:
    for chunk in (silence(1), silence(0), noise(1, 1e-8)):
        with pytest.raises(NumericError, match="digital silence"):
            finish(chunk)


def test_too_short_gets_silence_at_its_end() -> None:
    result = finish(noise(1), target=3 * RATE)
    assert result.shape[1] == 3 * RATE
    assert torch.equal(result[:, :28800], finish(noise(1)))
    assert not result[:, 26400:].any()


def test_pads_give_way_first() -> None:
    result = finish(noise(1), target=RATE + 1000)
    assert result.shape[1] == RATE + 1000
    body = finish(noise(1), pad_seconds=0.0)
    assert torch.equal(result, torch.nn.functional.pad(body, (500, 500)))


def test_duration_without_pads_is_exact() -> None:
    assert finish(noise(3), pad_seconds=0.0, target=72000).shape == (1, 72000)


def test_then_silence_is_dropped_and_all_sound_is_kept() -> None:
    loud = [noise(0.4), noise(0.5), noise(0.3)]
    clip = torch.cat([silence(0.3), loud[0], silence(0.4), loud[1], silence(0.2), loud[2], silence(0.3)], dim=1)
    options = {"post_process": False, "pad_seconds": 0.0, "fade_seconds": 0.0}
    for target in (58000, 48000, 38000, 33600):
        result = finish(clip, target=target, **options)
        assert result.shape[1] == target
        assert torch.equal(result[result != 0], clip[clip != 0])
    order = drop_silence(clip, 6000)  # the end's 0.25 s go first, and nothing else
    assert torch.equal(order, clip[:, :-6000])


def test_sound_is_cut_only_when_it_cannot_fit() -> None:
    result = finish(torch.cat([silence(0.2), noise(2)], dim=1), target=RATE, fade_seconds=0.01)
    assert result.shape[1] == RATE
    expected = finish(noise(2)[:, :RATE], pad_seconds=0.0, fade_seconds=0.01, post_process=False)
    assert float((result - expected).abs().max()) <= 1 / 32768
    assert float(result[0, -1]) == 0.0


def test_a_quiet_output_loses_no_sound_to_the_target() -> None:
    quiet = torch.cat([noise(0.5, 0.001), silence(0.5), noise(0.5, 0.001)], dim=1)
    result = finish(quiet, target=30000, post_process=False, pad_seconds=0.0, fade_seconds=0.0)
    assert torch.equal(result[result != 0], quiet[quiet != 0])


def test_chunks_are_not_changed() -> None:
    chunks = [noise(0.5), noise(0.6)]
    before = [chunk.clone() for chunk in chunks]
    finish(*chunks, rms=0.01, target=20000)
    assert all(torch.equal(a, b) for a, b in zip(chunks, before))


pieces = st.lists(st.tuples(st.integers(1, 9000), st.sampled_from([0.0, 1e-4, 0.003, 0.1])), min_size=1, max_size=4)


@settings(max_examples=80, deadline=None)
@given(
    pieces,
    st.booleans(),
    st.sampled_from([None, 0.0, 0.02, 0.3]),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.none() | st.integers(1, 60000),
)
def test_any_output_has_its_length(
    parts, post_process: bool, rms: float | None, pad: float, target: int | None
) -> None:
    generator = torch.Generator().manual_seed(1)
    chunks = [torch.randn(1, n, generator=generator) * level for n, level in parts]
    if not any(level for _, level in parts):
        with pytest.raises(NumericError):
            finish(*chunks, target=target)
        return
    result = finish(*chunks, rms=rms, target=target, post_process=post_process, pad_seconds=pad)
    assert result.shape[0] == 1
    assert result.shape[1] == target if target else result.shape[1] > 0
    assert bool(torch.isfinite(result).all())


@pytest.mark.parametrize("reference_rms", [0.1, None])
def test_finishing_takes_little_memory_for_each_sample(reference_rms: float | None) -> None:
    """Silences are found with one sum of squares at a time, and nothing is reversed or copied as a whole for it."""
    generator = torch.Generator().manual_seed(1)
    chunks = [0.1 * torch.randn(1, 240_000, generator=generator) for _ in range(8)]
    for chunk in chunks:
        chunk[:, :5000] = chunk[:, 100_000:130_000] = chunk[:, -6000:] = 0
    options = {"post_process": True, "pad_seconds": 0.1, "fade_seconds": 0.1}
    _, peak = tensor_peak(lambda: finish_speech(chunks, reference_rms=reference_rms, **options))
    assert peak.peak <= 34 * 8 * 240_000
