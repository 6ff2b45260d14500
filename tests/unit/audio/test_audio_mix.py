"""The mix of a recording: its parts, what is finite, and that a long recording is mixed only once for an edit."""

from __future__ import annotations

import math

import pytest
import torch

from omnivoice.audio import splice as splicing
from omnivoice.audio.mix import is_finite, mix_of
from omnivoice.audio.patches import Patch
from omnivoice.audio.splice import splice
from omnivoice.types import Waveform


def _recording(rate: int = 44_100, channels: int = 2, offset: float = 0.1) -> Waveform:
    noise = torch.rand(channels, 3 * rate, generator=torch.Generator().manual_seed(0)) - 0.5
    return Waveform(0.3 * noise + offset, rate)


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("offset", [0.0, 0.1])
def test_a_mix_has_no_offset(channels: int, offset: float) -> None:
    mix = mix_of(_recording(channels=channels, offset=offset))
    assert mix.mixed.shape == (1, 132_300) and mix.mono.shape == (1, 72_000) and mix.problem is None
    assert mix.offsets.flatten().tolist() == pytest.approx([offset] * channels, abs=0.002)
    assert abs(float(mix.mixed.mean())) < 0.002


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_sample_is_found(bad: float) -> None:
    samples = torch.zeros(2, 1000)
    assert is_finite(samples) and is_finite(samples[:, :0])
    samples[1, 999] = bad
    assert not is_finite(samples)


@pytest.mark.parametrize("rate", [16_000, 24_000, 44_100])
@pytest.mark.parametrize("end", [75, 40])
def test_a_known_mix_gives_the_same_result_and_is_not_made_again(
    rate: int, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = _recording(rate)
    patch = Patch(30, end, 5, 0.1 * torch.randn(9 * 960, generator=torch.Generator().manual_seed(1)), 4, 0)
    expected, before = splice(recording, [patch]), recording.samples.clone()
    mix = mix_of(recording)

    def again(_: Waveform) -> None:
        raise AssertionError("the recording is mixed again")

    monkeypatch.setattr(splicing, "mix_of", again)
    result = splice(recording, [patch], mix=mix)
    assert torch.equal(result.waveform.samples, expected.waveform.samples) and result.joints == expected.joints
    assert torch.equal(recording.samples, before)
