"""Kept speech: what is on disk is not spoken again and comes back bit for bit; what is damaged is made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnivoice.constants import SAMPLE_RATE
from omnivoice.generate.plan import make_plan
from omnivoice.productions.kept import KeptSpeech
from omnivoice.productions.keys import plan_key
from omnivoice.types import GenerationPlan, GenerationRequest, OnStep, Sampling, Speech, VoicePrompt, Waveform

VOICE = VoicePrompt(torch.full((8, 20), 5), "This is a voice.", 0.1)


class Stopped(Exception):
    """A kill."""


class FakeRun:
    """Runs plans as noise of their seed; stops after `plans` of them."""

    def __init__(self, plans: int = 1_000_000) -> None:
        self.plans: list[GenerationPlan] = []
        self.left = plans

    def __call__(self, plans: Sequence[GenerationPlan], *, on_step: OnStep | None = None) -> list[Speech]:
        self.left -= len(plans)
        if self.left < 0:
            raise Stopped
        self.plans += plans
        if on_step is not None:
            on_step(len(plans), 99)
        return [self._speak(plan) for plan in plans]

    def _speak(self, plan: GenerationPlan) -> Speech:
        generator = torch.Generator().manual_seed(plan.seed)
        samples = torch.rand(1, 1000 + plan.seed, generator=generator)
        codes = tuple(torch.full((8, 5), plan.seed % 100) for _ in plan.chunks)
        texts = tuple(chunk.text for chunk in plan.chunks)
        voice = plan.request.voice or VoicePrompt(codes[0], texts[0], 0.07, language="English", codec="0" * 16)
        speech = Speech(Waveform(samples, SAMPLE_RATE), codes, texts, 0.0, plan.seed, voice, ("a warning",))
        return replace(speech, seconds=speech.waveform.seconds, request=plan.request)


def plans(count: int, **fields: object) -> list[GenerationPlan]:
    requests = [GenerationRequest(f"This is text [pause 1s] number {i}.", seed=i, **fields) for i in range(count)]  # type: ignore[arg-type]
    return [make_plan(request) for request in requests]


def same(a: Speech, b: Speech) -> bool:
    """Whether two results are equal bit for bit."""
    tensors = [(a.waveform.samples, b.waveform.samples), (a.voice.codes, b.voice.codes), *zip(a.codes, b.codes)]
    values = [
        (one.chunks, one.seconds, one.seed, one.warnings, one.voice.text, one.voice.rms, one.voice.codec, one.request)
        for one in (a, b)
    ]
    return all(torch.equal(x, y) for x, y in tensors) and len(a.codes) == len(b.codes) and values[0] == values[1]


@pytest.mark.parametrize("voice", [None, VOICE])
@pytest.mark.parametrize("stop_after", [0, 16, 20, 32])
def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path, voice: VoicePrompt | None, stop_after: int) -> None:
    given = plans(40, voice=voice)
    whole = FakeRun()(given)
    with pytest.raises(Stopped):
        KeptSpeech(tmp_path, FakeRun(stop_after), model="m")(given)
    run = FakeRun()
    kept = KeptSpeech(tmp_path, run, model="m")
    assert all(map(same, whole, kept(given)))
    assert (
        (kept.read, kept.written) == (stop_after // 16 * 16, 40 - stop_after // 16 * 16) == (kept.read, len(run.plans))
    )
    again = FakeRun()
    assert all(map(same, whole, KeptSpeech(tmp_path, again, model="m")(given)))
    assert again.plans == []
    kept.remove()
    assert not tmp_path.exists()


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "bit"])
def test_damaged_speech_is_made_again(tmp_path: Path, damage: str) -> None:
    given = plans(3)
    whole = KeptSpeech(tmp_path, FakeRun(), model="m")(given)
    path = tmp_path / f"{plan_key(given[1], model='m')}.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"hello", "bit": bytes(data)}[damage])
    run = FakeRun()
    assert all(map(same, whole, KeptSpeech(tmp_path, run, model="m")(given)))
    assert run.plans == [given[1]]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 9},
        {"text": "Another text."},
        {"voice": VOICE},
        {"language": "de"},
        {"design": "female"},
        {"speed": 1.5},
        {"denoise": False, "voice": VOICE},
        {"post_process": False},
        {"pad_seconds": 0.0},
        {"fade_seconds": 0.0},
        {"sampling": Sampling(steps=4)},
        {"sampling": Sampling(guidance=3.0)},
        {"duration": 3.0},
        {"duration": 3.0, "exact_length": True},
    ],
)
def test_everything_that_changes_the_sound_changes_the_key(changes: dict[str, object]) -> None:
    base = GenerationRequest("This is a text.", seed=1, language="en")
    keys = {plan_key(make_plan(base), model="m"), plan_key(make_plan(replace(base, **changes)), model="m")}  # type: ignore[arg-type]
    assert len(keys) == 2
    assert plan_key(make_plan(base), model="other") not in keys


def test_progress_counts_what_is_missing(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    KeptSpeech(tmp_path, FakeRun(), model="m")(
        plans(20, sampling=Sampling(steps=1)), on_step=lambda done, total: seen.append((done, total))
    )
    assert seen == [(16, 40), (36, 40)]


@pytest.mark.parametrize("together", [1, 3, 16, 99])
def test_a_stop_loses_only_what_runs_together(tmp_path: Path, together: int) -> None:
    given, whole = plans(20), FakeRun()(plans(20))
    with pytest.raises(Stopped):
        KeptSpeech(tmp_path, FakeRun(19), model="m", together=together)(given)
    run = FakeRun()
    assert all(map(same, whole, KeptSpeech(tmp_path, run, model="m", together=together)(given)))
    assert len(run.plans) == {1: 1, 3: 2, 16: 4, 99: 4}[together]
