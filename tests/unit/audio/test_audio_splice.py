"""Splicing: the recording's own samples outside the patches, lengths, channels, levels, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from omnivoice.audio.patches import Patch
from omnivoice.audio.resample import resample
from omnivoice.audio.splice import Kept, Spliced, splice
from omnivoice.errors import AudioError
from omnivoice.types import Waveform

HOP = 960


def voice(frames: float, rate: int = 24000, seed: int = 0) -> Tensor:
    """Return [1, N] that changes like speech: noise of a level that moves, and a tone."""
    count = round(frames * rate / 25)
    noise = torch.randn(1, count, generator=torch.Generator().manual_seed(seed))
    time = torch.arange(count) / rate
    return 0.1 * (noise * (0.3 + 0.2 * torch.sin(9 * time)) + torch.sin(2 * torch.pi * 150 * time))


def patch(start: int, end: int, new: int, total: int, seed: int = 1, context: int = 10) -> Patch:
    before, after = min(context, start), max(0, min(context, total - end))
    return Patch(start, end, new, voice(before + new + after, seed=seed), before, after)


def check_kept(recording: Waveform, spliced: Spliced) -> None:
    for kept in spliced.kept:
        moved = spliced.waveform.samples[:, kept.result_start : kept.result_start + kept.end - kept.start]
        assert torch.equal(moved, recording.samples[:, kept.start : kept.end])


SPANS = [(20, 30, 15), (20, 30, 7), (25, 25, 8), (20, 30, 0), (20, 30, 10)]  # start, end, new
RATES = [4000, 8000, 11025, 16000, 22050, 44100, 48000, 384000, 24001]
CASES = [(24000, span) for span in SPANS] + [(rate, SPANS[i % 5]) for i, rate in enumerate(RATES)]


@pytest.mark.parametrize("rate, span", CASES)
def test_everything_outside_the_margins_is_kept(rate: int, span: tuple[int, int, int]) -> None:
    start, end, new = span
    recording = Waveform(voice(50.3, rate).repeat(2, 1) * torch.tensor([[1.0], [0.4]]), rate)
    before = recording.samples.clone()
    one = patch(start, end, new, 50)
    decoded = one.decoded.clone()
    spliced = splice(recording, [one])
    shift = ((new - end + start) * rate * 2 + 25) // 50
    left, right = round(start * rate / 25), round(end * rate / 25)
    margin = -(-8 * rate // 25)
    result = spliced.waveform.samples
    assert spliced.waveform.sample_rate == rate
    assert result.shape == (2, recording.samples.shape[1] + shift)
    assert torch.equal(result[:, : left - margin], recording.samples[:, : left - margin])
    assert torch.equal(result[:, right + shift + margin :], recording.samples[:, right + margin :])
    assert spliced.kept[0].start == 0 and spliced.kept[-1].end == recording.samples.shape[1]
    check_kept(recording, spliced)
    assert torch.equal(recording.samples, before) and torch.equal(one.decoded, decoded)
    assert torch.isfinite(result).all()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_geometry(data: st.DataObject) -> None:
    rate = data.draw(st.sampled_from([4000, 7919, 11025, 24000, 44100]), label="rate")
    N = data.draw(st.integers(1, rate), label="N")
    frames = -(-N * 25 // rate)
    ends = sorted(data.draw(st.lists(st.integers(0, frames), min_size=0, max_size=6), label="ends"))
    ends = ends[: len(ends) // 2 * 2]
    pairs = list(zip(ends[::2], ends[1::2]))
    news = [data.draw(st.integers(0, 9), label="new") for _ in pairs]
    context = data.draw(st.integers(0, 10), label="context")
    recording = Waveform(voice(1)[0].repeat(50)[None, :N], rate)
    before = recording.samples.clone()
    spliced = splice(recording, [patch(s, e, new, frames, context=context) for (s, e), new in zip(pairs, news)])
    added = sum(new - e + s for (s, e), new in zip(pairs, news))
    reached = max([N, *(round(e * rate / 25) for _, e in pairs)])
    assert spliced.waveform.samples.shape == (1, reached + round(added * rate / 25))
    assert torch.isfinite(spliced.waveform.samples).all()
    check_kept(recording, spliced)
    kept = torch.zeros(N, dtype=torch.bool)
    for one in spliced.kept:
        assert not kept[one.start : one.end].any()
        kept[one.start : one.end] = True
    changed = torch.zeros(N, dtype=torch.bool)
    for s, e in pairs:
        changed[max(0, round(s * rate / 25) - 8 * rate // 25 - 1) : round(e * rate / 25) + 8 * rate // 25 + 1] = True
    assert bool((kept | changed).all())
    starts = [one.result_start for one in spliced.kept]
    assert starts == sorted(starts) and torch.equal(recording.samples, before)


@pytest.mark.parametrize(("rate", "start", "end"), [(7919, 1, 7), (4001, 20, 33), (22_051, 13, 25), (24_000, 1, 7)])
def test_an_end_is_cut_off_at_any_rate(rate: int, start: int, end: int) -> None:
    """At 316.76 samples a frame, the length that stays and the length that goes may both be rounded up."""
    recording = Waveform(voice(1)[0].repeat(50)[None, : end * rate // 25], rate)
    spliced = splice(recording, [patch(start, end, 0, end)])
    assert spliced.waveform.samples.shape == (1, round(end * rate / 25) + round((start - end) * rate / 25))
    check_kept(recording, spliced)


@pytest.mark.parametrize("frames", [0.02, 0.4, 1, 1.5])
@pytest.mark.parametrize("new", [0, 1, 5])
def test_recordings_of_a_frame_and_less(frames: float, new: int) -> None:
    recording = Waveform(voice(frames, 44100), 44100)
    spliced = splice(recording, [patch(0, 1, new, 1)])
    rest = recording.samples.shape[1] - 1764
    assert spliced.waveform.samples.shape[1] == max(0, rest) + new * 1764
    check_kept(recording, spliced)


def test_no_patch_returns_the_recording() -> None:
    recording = Waveform(voice(10, 44100), 44100)
    spliced = splice(recording, [])
    assert torch.equal(spliced.waveform.samples, recording.samples)
    assert spliced.joints == () and spliced.kept == (Kept(0, 17640, 0),)


def test_patches_that_touch_are_one() -> None:
    recording, decoded = Waveform(voice(60), 24000), voice(30, seed=3)
    context = decoded[:, : 10 * HOP], decoded[:, 20 * HOP :]
    first = Patch(20, 24, 4, torch.cat((context[0], decoded[:, 10 * HOP : 14 * HOP], voice(3)), 1), 10, 3)
    second = Patch(24, 28, 6, torch.cat((voice(2), decoded[:, 14 * HOP : 20 * HOP], context[1]), 1), 2, 10)
    two, one = splice(recording, [first, second]), splice(recording, [Patch(20, 28, 10, decoded, 10, 10)])
    assert torch.equal(two.waveform.samples, one.waveform.samples)
    assert [(joint.patch, joint.side) for joint in two.joints] == [(0, "left"), (1, "right")]


@pytest.mark.parametrize("gap", [1, 2, 5])
def test_patches_share_what_is_between_them(gap: int) -> None:
    recording = Waveform(voice(60), 24000)
    spliced = splice(recording, [patch(20, 25, 5, 60), patch(25 + gap, 30 + gap, 8, 60, seed=4)])
    joints = spliced.joints
    assert [(joint.patch, joint.side) for joint in joints] == [(0, "left"), (0, "right"), (1, "left"), (1, "right")]
    assert 25 * HOP <= joints[1].start < joints[1].end < joints[2].start < joints[2].end <= (25 + gap) * HOP


def test_a_margin_grows_where_it_is_rough_and_no_further_than_asked() -> None:
    recording = Waveform(voice(80), 24000)
    decoded = recording.samples[:, 20 * HOP : 50 * HOP].clone()
    for first in (7, 20):  # a burst in the three frames on each side of the patch, which the recording does not have
        decoded[:, first * HOP : (first + 3) * HOP : 400] += 1
    one = Patch(30, 40, 10, decoded, 10, 10)
    grown = splice(recording, [one]).joints
    assert grown[0].end < 27 * HOP and grown[1].start > 43 * HOP
    assert max(joint.roughness for joint in grown) < 1.1
    narrow = splice(recording, [one], most_margin_frames=2).joints
    assert narrow[0].start >= 28 * HOP and narrow[1].end <= 42 * HOP
    assert min(joint.roughness for joint in narrow) > max(joint.roughness for joint in grown)


@pytest.mark.parametrize("rate", [16000, 24000, 44100])
def test_decoded_audio_that_equals_the_recording_changes_nothing(rate: int) -> None:
    clean = voice(60, 16000)
    recording = Waveform(resample(clean, 16000, rate), rate)
    decoded = resample(clean, 16000, 24000)[:, 10 * HOP : 40 * HOP] * 3
    spliced = splice(recording, [Patch(20, 30, 10, decoded, 10, 10)], gain=3.0)
    difference = spliced.waveform.samples - recording.samples
    assert float(difference.norm() / recording.samples.norm()) < 0.06
    assert len(spliced.joints) == 2 and max(joint.roughness for joint in spliced.joints) < 1.2


def test_a_deletion_in_a_steady_sound_is_a_cut() -> None:
    tone = torch.sin(2 * torch.pi * 250 * torch.arange(60 * HOP) / 24000)[None]  # ten periods in a frame
    spliced = splice(Waveform(tone, 24000), [patch(20, 30, 0, 60)])
    assert [joint.side for joint in spliced.joints] == ["cut"]
    assert float((spliced.waveform.samples - tone[:, : 50 * HOP]).abs().max()) < 1e-3
    assert spliced.joints[0].roughness <= 1


def test_a_deletion_that_would_be_heard_is_filled_with_decoded_audio() -> None:
    time = torch.arange(60 * HOP) / 24000
    low, high = torch.sin(2 * torch.pi * 250 * time), torch.sin(2 * torch.pi * 3000 * time)
    both = torch.where(time < 1.0, low, high)[None]
    glide = torch.linspace(0, 1, 20 * HOP)
    decoded = (low[: 20 * HOP] * (1 - glide) + high[: 20 * HOP] * glide)[None]
    spliced = splice(Waveform(both, 24000), [Patch(20, 30, 0, decoded, 10, 10)])
    assert [joint.side for joint in spliced.joints] == ["left", "right"]


@pytest.mark.parametrize("start, end", [(0, 10), (40, 50)])
def test_a_deleted_end_needs_no_decoded_audio(start: int, end: int) -> None:
    recording = Waveform(voice(50), 24000)
    spliced = splice(recording, [patch(start, end, 0, 50)])
    rest = recording.samples[:, 10 * HOP :] if start == 0 else recording.samples[:, : 40 * HOP]
    same = spliced.waveform.samples == rest
    assert spliced.waveform.samples.shape == rest.shape and spliced.joints == ()
    assert bool((same[:, 120:] if start == 0 else same[:, :-120]).all())
    assert abs(float(spliced.waveform.samples[0, 0 if start == 0 else -1])) < abs(
        float(rest[0, 0 if start == 0 else -1])
    )


REFUSED = [
    ({"start": 12, "end": 10}, "replaces frames 12 to 10"),
    ({"start": 35, "end": 41}, "within the 40 frames of the recording"),
    ({"start": -1, "end": 4}, "replaces frames -1 to 4"),
    ({"decoded": torch.zeros(1, 5 * HOP)}, r"must hold 10 \+ 2 \+ 10 frames of 960 mono samples, got \[1, 4800\]"),
    ({"decoded": torch.zeros(2, 11 * HOP)}, r"got \[2, 10560\]"),
    ({"before": -1, "after": 21}, r"must hold -1 \+ 2 \+ 21"),
]


@pytest.mark.parametrize("wrong, message", REFUSED)
def test_patches_that_do_not_fit_are_refused(wrong: dict, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        splice(Waveform(voice(40), 24000), [replace(patch(10, 12, 2, 40), **wrong)])


def test_patches_out_of_order_are_refused() -> None:
    patches = [patch(20, 22, 2, 40), patch(10, 12, 2, 40)]
    for pair in (patches, [patches[0], patch(21, 25, 2, 40)]):
        with pytest.raises(AudioError, match=r"patch 1 replaces frames .* in order, without overlap"):
            splice(Waveform(voice(40), 24000), pair)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"gain": 0.0}, "gain must be a finite factor above 0, got 0.0"),
        ({"gain": float("nan")}, "got nan"),
        ({"margin_frames": 0}, "margin_frames must be 1 to most_margin_frames, got 0 and 8"),
        ({"margin_frames": 9}, "got 9 and 8"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        splice(Waveform(voice(40), 24000), [patch(10, 12, 2, 40)], **settings)


@pytest.mark.parametrize(
    "recording, message",
    [(Waveform(torch.zeros(1, 0), 24000), "the recording is empty"), (Waveform(voice(40), 3999), "4000-384000")],
)
def test_recordings_that_cannot_be_used_are_refused(recording: Waveform, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        splice(recording, [])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_samples_that_are_not_finite_are_refused(value: float) -> None:
    bad = voice(40)
    bad[0, 7] = value
    with pytest.raises(AudioError, match="the recording must be finite"):
        splice(Waveform(bad, 24000), [patch(10, 12, 2, 40)])
    one = patch(10, 12, 2, 40)
    one.decoded[0, 9] = value
    with pytest.raises(AudioError, match="the decoded audio of patch 0 must be finite"):
        splice(Waveform(voice(40), 24000), [one])
