"""The limit of the work of a run: refused if and only if it is exceeded, in every production, before any step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from omnivoice.engine import Engine
from omnivoice.errors import InputError, TextError
from omnivoice.generate import plan as planning
from omnivoice.generate.filling import filling_plan
from omnivoice.generate.plan import check_work, limited, make_plan
from omnivoice.intake.limits import LIMITS, MAX_RUN_WORK, MAX_TOTAL_SECONDS
from omnivoice.productions.cast import Cast, Speaker
from omnivoice.productions.dialogue import speak_dialogue
from omnivoice.productions.long_plan import plan_long
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.subtitle_schedule import SubtitleOptions
from omnivoice.productions.subtitles import speak_subtitles
from omnivoice.productions.takes import SpeakWithRetries, attempts, consecutive, run_with_retries
from omnivoice.text.script import parse_script
from omnivoice.types import GenerationPlan, GenerationRequest, Sampling, Speech, VoicePrompt

FOUR_HOURS = MAX_TOTAL_SECONDS * 25
TEXT = "It was a long and quite remarkable sentence about the weather."
REQUEST = GenerationRequest(TEXT, seed=1, sampling=Sampling(steps=8))


def _plan(frames: int, steps: int = 32) -> GenerationPlan:
    plan = make_plan(replace(REQUEST, sampling=Sampling(steps=steps)))
    return replace(plan, chunks=(replace(plan.chunks[0], frames=frames),))


@pytest.mark.parametrize(
    ("seconds", "steps", "takes", "retries"),
    [*product((10, 900, 3_600, MAX_TOTAL_SECONDS), (1, 32, 256), (1, 4, 16), (0, 1, 16))],
)
def test_a_run_is_refused_if_and_only_if_it_is_over(seconds: int, steps: int, takes: int, retries: int) -> None:
    plans = consecutive(_plan(seconds * 25, steps), takes)
    if seconds * 25 * steps * takes * (1 + retries) <= MAX_RUN_WORK:
        check_work(plans, retries=retries)
    else:
        with pytest.raises(TextError, match=r"at most 200,000,000 frames x steps, and .* Use fewer steps, retries or"):
            check_work(plans, retries=retries)


@pytest.mark.parametrize(
    ("frames", "steps", "takes", "retries"),
    [
        (FOUR_HOURS, 32, 1, int(LIMITS["retries"].high)),  # the quality preset
        (FOUR_HOURS // 16, 32, int(LIMITS["takes"].high), int(LIMITS["retries"].high)),
        (FOUR_HOURS, int(LIMITS["steps"].high), 1, 1),
    ],
    ids=["four hours", "sixteen takes", "the most steps"],
)
def test_the_largest_productions_that_are_documented_fit(frames: int, steps: int, takes: int, retries: int) -> None:
    plans = consecutive(_plan(frames, steps), takes)
    assert [*limited(plans, retries=retries)] == plans
    check_work(plans, retries=retries)


def test_the_refusal_shows_the_numbers() -> None:
    with pytest.raises(TextError) as refusal:
        check_work([_plan(15_000, 256), *[_plan(15_000, 32)] * 40], retries=16)
    assert str(refusal.value) == (
        "one run can take at most 200,000,000 frames x steps, and the first 18 texts or takes have 204,000,000: "
        "270,000 frames of speech, up to 256 steps, up to 17 attempts each. Use fewer steps, retries or takes, or make "
        "several runs"
    )


@pytest.mark.parametrize("retries", [-1, 17, 1e9, True, "2"])
def test_retries_out_of_range_are_refused(retries: object) -> None:
    with pytest.raises(InputError, match="retries must be"):
        check_work([], retries=retries)  # type: ignore[arg-type]


def test_planning_stops_at_the_first_text_that_is_too_much() -> None:
    planned = (_plan(15_000, 256) for _ in range(1_000))
    with pytest.raises(TextError, match="the first 4 texts or takes have 261,120,000"):
        list(limited(planned, retries=16))
    assert len([*planned]) == 996


def _sum(plans: Sequence[GenerationPlan]) -> int:
    return sum(chunk.frames * plan.request.sampling.passes for plan in plans for chunk in plan.chunks)


class Door:
    """Counts the runs of a production; each run raises NotImplementedError, which no production catches."""

    runs = 0

    def run(self, plans: Sequence[GenerationPlan], *, on_step: object = None) -> list[Speech]:
        self.runs += 1
        raise NotImplementedError

    def speak(self, requests: Sequence[object], /) -> list[Speech]:
        return self.run([])


def _plans(requests: Sequence[GenerationRequest], /) -> list[GenerationPlan]:
    return [make_plan(request) for request in requests]


LINES = [f"Anna: {TEXT}", "Ben: Yes, it surely was a remarkable one."] * 2
VOICE = VoicePrompt(torch.full((8, 50), 1), "This is a voice.", 0.1)


def _takes(engine: Engine, door: Door, retries: int) -> Callable[[], object]:
    return lambda: attempts(consecutive(_plans([REQUEST])[0], 3), door.run, retries)


def _batch(engine: Engine, door: Door, retries: int) -> Callable[[], object]:
    return lambda: SpeakWithRetries(door.run, retries)(_plans([REQUEST] * 5))


def _long(engine: Engine, door: Door, retries: int) -> Callable[[], object]:
    request = replace(REQUEST, text=" ".join([TEXT] * 40))
    return lambda: door.run([part.plan for part in plan_long(request, _plans, retries=retries).parts])


def _dialogue(engine: Engine, door: Door, retries: int) -> Callable[[], object]:
    cast = Cast((Speaker("Anna", VOICE), Speaker("Ben", VOICE)))
    script = parse_script("\n".join(LINES), cast.names)
    return lambda: speak_dialogue(script, cast, replace(REQUEST, text=""), _plans, door.speak, retries=retries)


def _dialogue_again(engine: Engine, door: Door, retries: int) -> Callable[[], object]:
    cast = Cast((Speaker("Anna", VOICE), Speaker("Ben", VOICE)))
    script, base, redo = parse_script("\n".join(LINES), cast.names), replace(REQUEST, text=""), {2: 7, 3: 8}
    return lambda: speak_dialogue(script, cast, base, _plans, door.speak, redo=redo, retries=retries)


def _subtitles(engine: Engine, door: Door, retries: int) -> Callable[[], object]:
    cues = parse_subtitles(f"00:00:01,000 --> 00:00:04,000\n{TEXT}\n\n00:00:05,000 --> 00:00:08,000\n{TEXT}\n")
    run, options = run_with_retries(door.run, retries), SubtitleOptions(request=replace(REQUEST, text=""))
    return lambda: speak_subtitles(engine, cues, Cast((), Speaker("", VOICE)), options, run=run, retries=retries)


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize("make", [_takes, _batch, _long, _dialogue, _dialogue_again, _subtitles])
def test_every_production_is_measured_before_its_first_run(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Callable[[], object]], retries: int
) -> None:
    engine, door = Engine.load(checkpoint), Door()
    produce = make(engine, door, retries)
    with pytest.raises(NotImplementedError):
        produce()
    assert door.runs == 1
    monkeypatch.setattr(planning, "MAX_RUN_WORK", 1)
    with pytest.raises(TextError, match="one run can take at most 1 frames x steps"):
        produce()
    assert door.runs == 1


@pytest.mark.parametrize("make", [_takes, _batch, _dialogue, _dialogue_again, _long])
def test_the_work_of_a_production_is_that_of_all_its_texts(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[..., Callable[[], object]]
) -> None:
    door = Door()
    produce = make(Engine.load(checkpoint), door, 2)
    wanted = {
        _takes: lambda: 3 * _sum(_plans([REQUEST])),
        _batch: lambda: 5 * _sum(_plans([REQUEST])),
        _dialogue: lambda: 2 * _lines(),
        _dialogue_again: lambda: 3 * _lines(),
        _long: lambda: _sum(
            [part.plan for part in plan_long(replace(REQUEST, text=" ".join([TEXT] * 40)), _plans).parts]
        ),
    }[make]()
    monkeypatch.setattr(planning, "MAX_RUN_WORK", 3 * wanted)
    with pytest.raises(NotImplementedError):
        produce()
    monkeypatch.setattr(planning, "MAX_RUN_WORK", 3 * wanted - 1)
    with pytest.raises(TextError, match=f"have {3 * wanted:,}:"):
        produce()
    assert door.runs == 1


def _lines() -> int:
    """Return the work of one line of each speaker."""
    cast = Cast((Speaker("Anna", VOICE), Speaker("Ben", VOICE)))
    texts = [line.text for line in parse_script("\n".join(LINES), cast.names).lines[:2]]
    return _sum(_plans([replace(REQUEST, text=text, voice=VOICE, pad_seconds=0.0) for text in texts]))


def _filled(engine: Engine) -> object:
    codes = torch.randint(0, 1024, (8, 40), generator=torch.Generator().manual_seed(0))
    codes[:, 10:20] = engine.lm.config.audio_mask_id
    request = replace(REQUEST, sampling=Sampling(codebook_steps=(4, 1, 1, 1, 1, 1, 1, 1)))
    return engine.fill([filling_plan(engine.plan([request])[0], 40)] * 3, [codes] * 3)


@pytest.mark.parametrize(
    "run",
    [
        lambda engine: engine.generate([REQUEST] * 4),
        lambda engine: engine.generate_plans([make_plan(REQUEST)] * 4),
        _filled,
    ],
    ids=["generate", "generate_plans", "fill"],
)
def test_the_engine_runs_nothing_above_the_limit(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[[Engine], object]
) -> None:
    engine = Engine.load(checkpoint)
    monkeypatch.setattr(planning, "MAX_RUN_WORK", 3 * 40 * 11 - 1)  # less than three edits of 40 frames in 11 passes
    monkeypatch.setattr(torch.nn.Module, "__call__", None)  # no module runs
    with pytest.raises(TextError, match="one run can take at most"):
        run(engine)


def test_the_speech_of_a_dialogue_is_limited_before_the_first_line_is_spoken() -> None:
    cast, door = Cast((Speaker("Anna", VOICE),)), Door()
    script = parse_script("\n".join([f"Anna: {TEXT}"]), cast.names)
    lines = [replace(line, overrides={"duration": 600.0}) for line in script.lines[:1]] * 25
    with pytest.raises(TextError, match="at most 4 hours of speech"):
        speak_dialogue(replace(script, lines=tuple(lines)), cast, replace(REQUEST, text=""), _plans, door.speak)
    assert door.runs == 0
