"""The reference: upstream's preprocessing sample for sample, and each odd recording with its specified result."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.loudness import rms
from omnivoice.audio.reference import PreparedReference, prepare_reference
from omnivoice.errors import AudioError
from omnivoice.types import Waveform

RATE = 24000


def noise(seconds: float, level: float = 0.1, rate: int = RATE) -> torch.Tensor:
    count = round(seconds * rate)
    return torch.randn(1, count, generator=torch.Generator().manual_seed(count)) * level


def silence(seconds: float) -> torch.Tensor:
    return torch.zeros(1, round(seconds * RATE))


def speech(seconds: float, level: float = 0.1) -> torch.Tensor:
    """Noise between 0.1 and 0.2 s of silence: a clip that nothing is wrong with."""
    return torch.cat([silence(0.1), noise(seconds - 0.3, level), silence(0.2)], dim=1)


def prepare(samples: torch.Tensor, rate: int = RATE, *, has_text: bool = True) -> PreparedReference:
    prepared = prepare_reference(Waveform(samples, rate), has_text=has_text)
    assert prepared.samples.dtype == torch.float32
    assert prepared.samples.shape[0] == 1
    assert prepared.samples.shape[1] % 960 == 0
    assert prepared.samples.shape[1] > 0
    assert bool(torch.isfinite(prepared.samples).all())
    return prepared


@pytest.mark.parametrize("name", ["mono", "stereo"])
def test_equals_upstream(golden, index, name: str) -> None:
    entry = index[f"prompt/out/{name}"]
    prepared = prepare(golden[f"prompt/in/{name}"], entry["rate"])
    assert prepared.rms == pytest.approx(entry["rms"], rel=1e-6)
    assert prepared.samples.shape == golden[f"prompt/out/{name}"].shape
    # Equal where torch adds up as it did when this was recorded; elsewhere a sample may fall one step lower.
    assert float((prepared.samples - golden[f"prompt/out/{name}"]).abs().max()) <= 1 / 32768


def test_an_ordinary_clip_gets_no_warning() -> None:
    prepared = prepare(speech(4))
    assert prepared.warnings == ()
    assert prepared.samples.shape[1] == 4 * RATE
    assert prepared.rms == pytest.approx(rms(speech(4)), rel=1e-6)


def test_loud_and_quiet_references_differ_only_by_gain() -> None:
    loud, quiet = prepare(speech(3, 0.09)), prepare(speech(3, 0.009))
    assert quiet.rms == pytest.approx(loud.rms / 10, rel=1e-5)
    assert quiet.samples.shape == loud.samples.shape
    assert float((quiet.samples - loud.samples).abs().max()) <= 2 / 32768


@pytest.mark.parametrize("rms_in", [0.001, 1e-4])
def test_a_quiet_recording_is_raised_to_speech_level(rms_in: float) -> None:
    assert rms(prepare(speech(3, rms_in)).samples) == pytest.approx(0.1, rel=0.01)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (torch.zeros(1, 0), "reference is empty"),
        (noise(0.02), r"at least 0.5 s long, got 0.020 s"),
        (noise(0.4), r"at least 0.5 s long, got 0.400 s"),
        (noise(61), r"at most 60 s long, got 61.000 s"),
        (silence(3), "reference is silent"),
        (silence(3) + 0.2, "reference is silent"),
        (noise(3, 1e-6), "reference is silent"),
        (torch.cat([noise(1), torch.full((1, 1), torch.nan), noise(1)], dim=1), "must be finite, got NaN"),
        (torch.cat([noise(1), torch.full((1, 1), torch.inf), noise(1)], dim=1), "must be finite, got NaN or infinite"),
    ],
)
def test_what_cannot_be_a_reference_is_refused(samples: torch.Tensor, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        prepare_reference(Waveform(samples, RATE))


def test_sound_above_the_new_nyquist_frequency_is_silence() -> None:
    t = torch.arange(192000, dtype=torch.float64) / 96000
    edges = torch.hann_window(192000, dtype=torch.float64)
    with pytest.raises(AudioError, match="reference is silent"):
        prepare_reference(Waveform((torch.sin(2 * torch.pi * 30000 * t) * edges * 0.5).float(), 96000))


def test_an_unsupported_rate_is_refused() -> None:
    with pytest.raises(AudioError, match=r"sample rate must be .* got 3000"):
        prepare_reference(Waveform(noise(2, rate=3000), 3000))


def test_anti_phase_stereo_uses_one_channel() -> None:
    left = speech(3)
    prepared = prepare(torch.cat([left, -left]))
    assert "cancel" in prepared.warnings[0]
    assert torch.equal(prepared.samples, prepare(left).samples)


def test_a_voice_in_the_centre_of_five_point_one_is_as_loud_as_in_mono() -> None:
    centre = speech(3, 0.05)
    prepared = prepare(torch.cat([0 * centre, 0 * centre, centre, 0 * centre, 0 * centre, 0 * centre]))
    alone = prepare(centre)
    assert prepared.rms == pytest.approx(alone.rms, rel=1e-5) and prepared.warnings == ()
    assert float((prepared.samples - alone.samples).abs().max()) <= 1 / 32768


@pytest.mark.parametrize("offset", [0.5, 0.05, 0.004, -0.2])
@pytest.mark.parametrize("level", [0.1, 0.01])
@pytest.mark.parametrize("channels", [1, 2])
def test_an_offset_changes_neither_level_nor_trimming(offset: float, level: float, channels: int) -> None:
    clean = torch.cat([silence(1.5), noise(2, level), silence(1.5), noise(1, level), silence(1)], dim=1)
    clean -= clean.mean()
    prepared, expected = prepare((clean + offset).expand(channels, -1)), prepare(clean)
    assert prepared.rms == pytest.approx(expected.rms, rel=1e-4)
    assert prepared.warnings == expected.warnings == ()
    assert prepared.samples.shape == expected.samples.shape
    assert prepared.samples.shape[1] / RATE == pytest.approx(3.7, abs=0.05)
    assert float((prepared.samples - expected.samples).abs().max()) <= 2 / 32768


def test_an_offset_hides_no_clipping_and_is_none() -> None:
    loud = speech(3, 0.2)
    pinned = (loud * 2 + 0.4).clamp(-1, 32767 / 32768)
    assert any("clipped" in warning for warning in prepare(pinned).warnings)
    beyond = speech(3, 0.1).clamp(-0.4, 0.4) + 0.7  # a file of floats, whose sound has room
    assert prepare(beyond).warnings == ()


def test_eight_kilohertz_is_accepted_with_a_warning() -> None:
    prepared = prepare(torch.cat([noise(2, rate=8000), torch.zeros(1, 1600)], dim=1), 8000)
    assert any("8000 Hz" in warning for warning in prepared.warnings)
    assert prepared.samples.shape[1] == int(2.2 * RATE) // 960 * 960


def test_a_clipped_recording_is_limited_with_a_warning() -> None:
    clean = speech(3, 0.2).clamp(-1, 1)
    prepared = prepare(clean * (2 / clean.abs().max()))  # 6 dB over full scale
    assert any("clipped" in warning for warning in prepared.warnings)
    assert prepared.rms == pytest.approx(rms(clean / clean.abs().max()), rel=1e-4)
    assert torch.allclose(prepared.samples, prepare(clean / clean.abs().max()).samples, atol=1.5 / 32768)


def test_flat_tops_within_full_scale_only_warn() -> None:
    flat = (speech(3, 0.3) * 5).clamp(-1, 1)
    prepared = prepare(flat)
    assert any("clipped" in warning for warning in prepared.warnings)
    assert prepared.rms == pytest.approx(rms(flat), rel=1e-6)


def test_a_single_sample_beyond_full_scale_changes_no_other() -> None:
    clip = speech(3)
    spiked = clip.clone()
    spiked[0, 30000] = 1.2
    prepared = prepare(spiked)
    assert prepared.warnings == ()
    assert float(prepared.samples.max()) == 32767 / 32768


def test_forty_seconds_with_a_transcript_stay_whole_with_a_warning() -> None:
    prepared = prepare(speech(40))
    assert prepared.samples.shape[1] == 40 * RATE
    assert any("40.0 s long" in warning for warning in prepared.warnings)


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        ([(4.0, 0.5), (14.0, 0.15)], 14.05),  # 14.15 s, whose pause of 0.5 s is then cut to 0.4 s
        ([(4.0, 0.5)], 4.2),  # a pause at the end is cut to 0.2 s
        ([(2.0, 0.3)], 2.2),
        ([(9.0, 0.2), (14.95, 0.5)], 9.2),
    ],
)
def test_without_a_transcript_it_is_the_longest_beginning_that_ends_in_a_pause(gaps, seconds: float) -> None:
    clip = noise(25)
    for start, length in gaps:
        clip[:, round(start * RATE) : round((start + length) * RATE)] = 0
    prepared = prepare(clip, has_text=False)
    assert any("no transcript" in warning for warning in prepared.warnings)
    assert prepared.samples.shape[1] / RATE == pytest.approx(seconds, abs=0.06)
    assert torch.equal(prepare(clip).samples[:, :24000], prepared.samples[:, :24000])


def test_leading_silence_is_no_pause_to_end_in() -> None:
    clip = torch.cat([silence(3), noise(10), silence(0.4), noise(10)], dim=1)
    assert prepare(clip, has_text=False).samples.shape[1] / RATE == pytest.approx(10.3, abs=0.06)


def test_without_any_pause_it_ends_at_the_quietest_moment() -> None:
    clip = noise(25)
    clip[:, 12 * RATE : 12 * RATE + 2400] *= 0.3
    assert prepare(clip, has_text=False).samples.shape[1] / RATE == pytest.approx(12.1, abs=0.06)


def test_a_clip_of_twenty_seconds_is_not_trimmed() -> None:
    assert prepare(speech(20), has_text=False).samples.shape[1] == 20 * RATE


def test_little_sound_is_told() -> None:
    clip = torch.cat([silence(1), noise(0.5), silence(1)], dim=1)
    prepared = prepare(clip)
    assert any("only 0.80 s" in warning for warning in prepared.warnings)


def test_an_end_in_mid_speech_is_told_and_changes_nothing() -> None:
    prepared = prepare(noise(3))
    assert any("ends without a pause" in warning for warning in prepared.warnings)
    assert prepared.samples.shape[1] == 3 * RATE


def test_quiet_speech_beside_a_loud_knock_is_not_lost() -> None:
    clip = noise(4, 0.0003)
    clip[:, 48000:48240] = noise(0.01, 0.5)  # 34 dB louder than the rest after the raise: upstream keeps 0.4 s
    prepared = prepare(clip)
    assert prepared.samples.shape[1] == 4 * RATE
    assert any("as quiet as silence" in warning for warning in prepared.warnings)


def test_the_waveform_is_not_changed() -> None:
    samples = torch.cat([speech(2), -speech(2)])
    before = samples.clone()
    prepare(samples)
    assert torch.equal(samples, before)


parts = st.lists(st.tuples(st.integers(1, 30000), st.sampled_from([0.0, 1e-5, 0.001, 0.1, 1.5])), max_size=5)


@settings(max_examples=60, deadline=None)
@given(parts, st.sampled_from([4000, 8000, 22051, 24000, 48000]), st.integers(1, 2), st.booleans())
def test_any_recording_is_prepared_or_refused(pieces, rate: int, channels: int, has_text: bool) -> None:
    generator = torch.Generator().manual_seed(len(pieces))
    noises = [torch.randn(channels, n, generator=generator) * level for n, level in pieces]
    try:
        prepare(torch.cat([torch.zeros(channels, 0), *noises], dim=1), rate, has_text=has_text)
    except AudioError as error:
        assert any(w in str(error) for w in ("empty", "silent", "at least 0.5 s", "at most 60 s", "no speech"))
