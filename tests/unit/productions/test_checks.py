"""Checks of speech: each planted fault gives its sentence with the right time, and sound without one gives none."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omnivoice.audio.joins import fade
from omnivoice.constants import SAMPLE_RATE
from omnivoice.generate.plan import make_plan
from omnivoice.productions.checks import Expected, check_speech, findings
from omnivoice.types import GenerationRequest, Speech, VoicePrompt, Waveform

EDGE = 2_400


def sound(seconds: float = 2.0, hz: float = 150.0) -> Tensor:
    """Return syllables of a fifth of a second each that rise and decay, [1, N]."""
    t = torch.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    tone = sum(torch.sin(2 * math.pi * hz * k * t) / k for k in range(1, 6))
    return (0.2 * tone * torch.sin(math.pi * (t % 0.2) / 0.2) ** 2)[None]


def silence(seconds: float) -> Tensor:
    return torch.zeros(1, round(seconds * SAMPLE_RATE))


def found(samples: Tensor, *, seconds: float | None = 2.0, edge: int = EDGE, **more: float) -> list[str]:
    """Return the sentences about samples that are faded and padded as the engine does."""
    finished = torch.nn.functional.pad(fade(samples, fade_in=edge, fade_out=edge), (edge, edge))
    expected = Expected(seconds=seconds, lead=edge, tail=edge, fades=edge, **more)  # type: ignore[arg-type]
    return [one.text for one in findings(finished, expected)]


@pytest.mark.parametrize("edge", [0, 240, EDGE])
@pytest.mark.parametrize("gain", [0.05, 1.0, 2.0])
@pytest.mark.parametrize("hz", [90.0, 150.0, 280.0])
def test_ordinary_sound_has_no_fault(edge: int, gain: float, hz: float) -> None:
    assert found(gain * sound(hz=hz), edge=edge) == []


@pytest.mark.parametrize(("edge", "at"), [(0, "1.90"), (EDGE, "1.99")])
def test_a_cut_ending_is_found_through_the_fade(edge: int, at: str) -> None:
    (sentence,) = found(sound()[:, : round(1.9 * SAMPLE_RATE)], edge=edge)
    assert sentence.startswith("it ends in the middle of a sound at ")
    assert abs(float(sentence.split(" at ")[1].split(" s")[0]) - float(at)) <= 0.011


@pytest.mark.parametrize(("level", "cut"), [(0.02, False), (0.1, True)])
@pytest.mark.parametrize("edge", [0, EDGE])
def test_a_last_consonant_without_pitch_may_end_suddenly_if_it_is_soft(level: float, cut: bool, edge: int) -> None:
    noise = level * torch.randn(1, 2_400, generator=torch.Generator().manual_seed(1))
    assert bool(found(torch.cat([sound(), noise], dim=1), edge=edge)) == cut


@pytest.mark.parametrize("burst", [0.01, 0.02, 0.04])
@pytest.mark.parametrize("pause", [0.08, 0.3])
@pytest.mark.parametrize("edge", [0, EDGE])
def test_a_click_before_the_speech_is_found(burst: float, pause: float, edge: int) -> None:
    noise = torch.rand(1, round(burst * SAMPLE_RATE), generator=torch.Generator().manual_seed(1)) - 0.5
    (sentence,) = found(torch.cat([noise, silence(pause), sound()], dim=1), edge=edge)
    assert sentence.startswith(f"it starts with a click of {burst * 1000:.0f} ms at 0.")


@pytest.mark.parametrize("pause", [0.0, 0.03])
def test_a_short_first_sound_of_a_word_is_no_click(pause: float) -> None:
    burst = 0.3 * torch.rand(1, 480, generator=torch.Generator().manual_seed(1))
    assert found(torch.cat([burst, silence(pause), sound()], dim=1)) == []


@pytest.mark.parametrize("level", [0.0, 1e-5, 9e-4])
def test_silence_from_start_to_end_is_named(level: float) -> None:
    assert found(torch.full((1, 48_000), level)) == ["it is silent from start to end"]


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ((1.0, 1.0, 1.0), "it is silent for 1.00 s from 1.10 s on"),
        ((1.0, 0.85, 2.0), "it is silent for 0.85 s from 1.10 s on"),
        ((0.4, 0.45, 0.4), "it is silent for 0.45 s from 0.50 s on"),
        ((2.0, 1.0, 0.0), "it is silent for 1.00 s from 2.10 s on"),
        ((0.0, 1.0, 2.0), "it is silent for 1.00 s from 0.10 s on"),
    ],
)
def test_a_long_silence_is_found_wherever_it_is(parts: tuple[float, float, float], sentence: str) -> None:
    before, quiet, after = parts
    (got,) = found(torch.cat([sound(before), silence(quiet), sound(after)], dim=1), seconds=None)
    times = [float(word) for word in got.split() if word.replace(".", "").isdigit()]
    wanted = [float(word) for word in sentence.split() if word.replace(".", "").isdigit()]
    assert times == pytest.approx(wanted, abs=0.051)  # syllables rise and decay below the level of sound


@pytest.mark.parametrize("quiet", [0.3, 0.7])
def test_a_pause_between_sentences_is_no_fault(quiet: float) -> None:
    assert found(torch.cat([sound(), silence(quiet), sound()], dim=1), seconds=4.5) == []


def test_a_pause_that_the_text_asks_for_is_no_fault() -> None:
    samples = torch.cat([sound(), silence(2), sound()], dim=1)
    assert found(samples, seconds=4, pause_seconds=2.0) == []
    assert found(samples, seconds=4) != []


@pytest.mark.parametrize(("count", "clipped"), [(4, False), (5, True), (500, True)])
def test_clipping_is_found(count: int, clipped: bool) -> None:
    samples = sound()
    samples[:, 12_000 : 12_000 + count] = 1.0
    wanted = [f"it is too loud: {count} samples are clipped, the first at 0.60 s"] if clipped else []
    assert found(samples) == wanted


@pytest.mark.parametrize(
    ("planned", "words"),
    [(2.0, None), (3.5, None), (1.3, None), (5.0, "too fast, or words are missing"), (1.0, "too slow, or words are")],
)
def test_a_length_far_from_the_planned_one_is_found(planned: float, words: str | None) -> None:
    sentences = found(sound(), seconds=planned)
    assert (sentences == []) if words is None else (len(sentences) == 1 and words in sentences[0])


@pytest.mark.parametrize("text", ["A sentence of ordinary length.", "One [pause 2s] two and three.", "[pause 1s] So."])
@pytest.mark.parametrize("changes", [{}, {"pad_seconds": 0.0}, {"duration": 9.0, "exact_length": True}])
def test_what_the_request_adds_is_no_fault(text: str, changes: dict) -> None:
    """Pauses, pads and an exact length are silence that was asked for."""
    plan = make_plan(GenerationRequest(text, seed=1, **changes))
    edge = round(plan.request.pad_seconds * SAMPLE_RATE)
    parts = [silence(0)]
    for chunk in plan.chunks:
        parts += [torch.zeros(1, chunk.pause_samples), fade(sound(chunk.frames / 25), fade_in=EDGE, fade_out=EDGE)]
    samples = torch.nn.functional.pad(torch.cat(parts, dim=1), (edge, edge + plan.tail_samples))
    if plan.target_samples is not None:
        samples = torch.nn.functional.pad(samples, (0, max(0, plan.target_samples - samples.shape[1])))
    voice = VoicePrompt(torch.zeros(8, 50, dtype=torch.long), "", 0.1)
    speech = Speech(Waveform(samples, SAMPLE_RATE), (), (text,), 1.0, 1, voice)
    assert [one.text for one in check_speech(plan, speech) if one.kind != "cut ending"] == []
