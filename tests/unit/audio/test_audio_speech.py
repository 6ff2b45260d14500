"""Long references without a transcript: the voice is what is cut out of them, whatever they begin and end with."""

from __future__ import annotations

import functools
import math
import re

import pytest
import torch

from omnivoice.audio.loudness import rms
from omnivoice.audio.reference import prepare_reference
from omnivoice.audio.speech import find_speech
from omnivoice.errors import AudioError
from omnivoice.types import Waveform

RATE = 24_000


def noise(seconds: float, level: float) -> torch.Tensor:
    count = round(seconds * RATE)
    return torch.randn(1, count, generator=torch.Generator().manual_seed(count)) * level


def silence(seconds: float) -> torch.Tensor:
    return torch.zeros(1, round(seconds * RATE))


def moving_mean(samples: torch.Tensor, around: int) -> torch.Tensor:
    """Return the mean of each sample and `around` others on both sides, as if zeros surrounded them."""
    sums = torch.nn.functional.pad(samples.double(), (around + 1, around)).cumsum(1)
    return ((sums[:, 2 * around + 1 :] - sums[:, : -2 * around - 1]) / (2 * around + 1)).float()


def rumble(seconds: float, level: float) -> torch.Tensor:
    """Brown noise: most of it is far below a voice."""
    walk = noise(seconds, 1.0).cumsum(1)
    walk = walk - moving_mean(walk, 2400)
    return walk / walk.square().mean().sqrt() * level


def tone(seconds: float, level: float, hz: float = 50) -> torch.Tensor:
    return level * torch.sin(2 * math.pi * hz * torch.arange(round(seconds * RATE)) / RATE)[None]


@functools.lru_cache
def voice(seconds: float, level: float = 0.1) -> torch.Tensor:
    """Four syllables a second of a buzz at 130 Hz, with a pause of 0.3 s after every three seconds."""
    time = torch.arange(round(seconds * RATE), dtype=torch.float64) / RATE
    buzz = sum(torch.sin(2 * math.pi * 130 * k * time) / k for k in range(1, 24))
    syllables = torch.sin(2 * math.pi * 2 * time).abs() ** 0.7 * (time % 3.3 < 3)
    sound = (buzz * syllables)[None].to(torch.float32)
    return sound / sound.square().mean().sqrt() * level


def click(level: float = 0.8) -> torch.Tensor:
    return noise(0.01, level / 3)


def prepare(*parts: torch.Tensor, has_text: bool = False):  # type: ignore[no-untyped-def]
    return prepare_reference(Waveform(torch.cat(parts, dim=1), RATE), has_text=has_text)


WORD = voice(0.6)
LEADS = {
    "silence": [silence(16)],
    "more silence than may be used": [silence(40)],
    "hiss": [noise(16, 0.003)],
    "loud hiss": [noise(16, 0.01)],
    "rumble": [rumble(16, 0.03)],
    "hum": [tone(16, 0.05)],
    "a click in silence": [click(), silence(16)],
    "clicks in hiss": [click(), noise(8, 0.003), click(), noise(8, 0.003)],
    "a word, then silence": [WORD, silence(16)],
    "a word, then hiss": [silence(0.5), WORD, noise(16, 0.003)],
    "two words far apart": [WORD, silence(7), WORD, noise(9, 0.002)],
    "silence, then hiss": [silence(4), noise(13, 0.003)],
    "the shortest that counts": [noise(12, 0.003)],
}


@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
@pytest.mark.parametrize("seconds", [9.0, 16.0, 19.5])
def test_the_voice_begins_at_the_first_speech(lead: list[torch.Tensor], seconds: float) -> None:
    said = voice(seconds)
    prepared, alone = prepare(*lead, said, silence(0.3)), prepare(said, silence(0.3))
    before = sum(part.shape[1] for part in lead) / RATE
    (warning,) = prepared.warnings
    assert f"{before - 0.2:.1f}-" in warning and "from the first speech on, are used" in warning
    assert prepared.rms == pytest.approx(rms(said), rel=0.03)
    assert prepared.samples.shape[1] == pytest.approx(alone.samples.shape[1], abs=0.25 * RATE)
    assert rms(prepared.samples) == pytest.approx(rms(alone.samples), rel=0.03)


@pytest.mark.parametrize(
    "tail",
    [[silence(16)], [noise(16, 0.003)], [noise(16, 0.01)], [rumble(16, 0.03)], [silence(9), click(), silence(9)]],
    ids=["silence", "hiss", "loud hiss", "rumble", "a click"],
)
def test_the_voice_ends_with_the_last_speech(tail: list[torch.Tensor]) -> None:
    """The cut falls into a pause, of which noise as loud as this leaves only the one in the voice."""
    prepared, alone = prepare(voice(6), *tail), prepare(voice(6))
    assert 3 < prepared.samples.shape[1] / RATE < alone.samples.shape[1] / RATE + 0.35
    assert rms(prepared.samples) > 0.9 * rms(voice(6)[:, : prepared.samples.shape[1]])


@pytest.mark.parametrize(
    "parts",
    [
        [silence(16), click(), silence(16)],
        [noise(25, 0.004)],
        [noise(25, 0.0002)],
        [rumble(25, 0.03)],
        [tone(25, 0.05), silence(0.1), tone(5, 0.05)],
        [WORD, silence(25)],
        [WORD, noise(25, 0.004)],
        [WORD, silence(16), noise(16, 0.003)],
        [silence(10), noise(15, 0.004)],
        [noise(10, 0.003), click(), noise(10, 0.003), click(), noise(10, 0.003)],
    ],
)
def test_without_speech_it_is_refused(parts: list[torch.Tensor]) -> None:
    with pytest.raises(AudioError, match=r"no speech was found in the reference, .*: cut 3-10 s of one speaker out"):
        prepare(*parts)
    assert prepare(*parts, has_text=True).samples.shape[1] > 0  # somebody wrote down what is said in it


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([noise(25, 0.1)], "level hardly changes, so it may be noise"),
        ([tone(25, 0.1, 440)], "level hardly changes"),
        ([noise(16, 0.003), voice(1.9), silence(4)], r"only 1\.\d s of the reference seem to be speech"),
    ],
)
def test_what_is_doubtful_is_told(parts: list[torch.Tensor], words: str) -> None:
    assert any(re.search(words, warning) for warning in prepare(*parts).warnings)


@pytest.mark.parametrize("seconds", [4.2, 3.0, 1.5])
@pytest.mark.parametrize("level", [0.1, 0.003])
def test_a_short_voice_at_the_end_is_used(seconds: float, level: float) -> None:
    """Without a pause, it is as steady as noise."""
    prepared = prepare(silence(19), voice(seconds, level))
    assert prepared.samples.shape[1] / RATE == pytest.approx(seconds + 0.1, abs=0.2)
    assert not any("hardly changes" in warning for warning in prepared.warnings)


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([noise(10, 0.004)], False),
        ([silence(4), click(), silence(4)], False),
        ([WORD, silence(10)], False),
        ([rumble(12, 0.03)], False),
        ([voice(4)], True),
        ([voice(1.5, 0.003)], True),
        ([silence(2), voice(3), noise(3, 0.003)], True),
        ([noise(4, 0.1)], True),
    ],
)
def test_a_short_recording_without_speech_is_warned_about(parts: list[torch.Tensor], found: bool) -> None:
    assert found is not any("no speech was found" in warning for warning in prepare(*parts).warnings)
    assert not any("no speech" in warning for warning in prepare(*parts, has_text=True).warnings)


@pytest.mark.parametrize("level", [0.3, 0.1, 0.01, 0.001])
@pytest.mark.parametrize("lead", [0.0, 0.4, 0.9])
def test_an_ordinary_recording_is_cut_from_its_beginning(level: float, lead: float) -> None:
    clip = torch.cat([silence(lead), voice(24, level)], dim=1)
    prepared = prepare(clip)
    (warning,) = [one for one in prepared.warnings if "no transcript" in one]
    assert "only its first" in warning
    whole = prepare(clip, has_text=True)
    assert prepared.rms == whole.rms == pytest.approx(rms(clip), rel=1e-6)
    shared = round(9 * RATE)
    assert torch.equal(prepared.samples[:, :shared], whole.samples[:, :shared])


@pytest.mark.parametrize("level", [0.3, 0.03, 0.003])
def test_speech_is_found_at_every_level(level: float) -> None:
    found = find_speech(torch.cat([noise(10, level / 50), voice(6, level), noise(4, level / 50)], dim=1), RATE)
    assert found is not None and found.is_clear
    assert found.start / RATE == pytest.approx(10, abs=0.1) and found.end / RATE == pytest.approx(16, abs=0.2)
    assert 4 < found.seconds < 6


@pytest.mark.parametrize("count", [0, 1, 479, 480, 24_000 - 1])
def test_less_than_a_second_counts_as_speech(count: int) -> None:
    found = find_speech(noise(1, 0.1)[:, :count], RATE)
    assert found is not None and (found.start, found.end, found.is_clear) == (0, count, True)
