"""Splicing: the recording's own samples outside the patches, lengths, channels, levels, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from omnivoice.audio.patches import Patch
from omnivoice.audio.splice import Spliced, splice
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
