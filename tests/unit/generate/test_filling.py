"""Filling frames of a recording: what is kept, what the model is shown, its noise, batches, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from omnivoice.engine import Engine
from omnivoice.errors import InputError, TextError
from omnivoice.generate.filling import CODEBOOKS, ORDERS, TOGETHER, filling_plan, in_order
from omnivoice.generate.noise import fill_noise, seeded_generator
from omnivoice.generate.schedule import reveals
from omnivoice.generate.step import predict
from omnivoice.types import ALL_SPEEDUPS, GenerationPlan, GenerationRequest, Sampling, VoicePrompt

SPANS = {"middle": [(7, 12)], "start": [(0, 3)], "end": [(15, 20)], "two": [(2, 4), (10, 15)], "all": [(0, 20)]}
QUICK = Sampling(codebook_steps=(3, 1, 1, 1, 1, 1, 1, 1))


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def _codes(engine: Engine, spans: Sequence[tuple[int, int]], frames: int = 20, seed: int = 0) -> Tensor:
    """Random codes with the mask in the spans."""
    config, generator = engine.lm.config, torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 1024, (config.codebooks, frames), generator=generator)
    for start, end in spans:
        codes[:, start:end] = config.audio_mask_id
    return codes


def _plan(engine: Engine, frames: int, sampling: Sampling = QUICK, *, seed: int = 5, text: str = "") -> GenerationPlan:
    request = GenerationRequest(text or "Good morning to you.", seed=seed, sampling=sampling)
    return filling_plan(engine.plan([request])[0], frames)


def _shown(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return a list that collects what the model is shown in each step."""
    seen: list[Tensor] = []

    def watched(lm: object, packed: object, guidance: float, speedups: object, codes: Tensor, base: Tensor) -> Tensor:
        seen.append(codes.clone())
        return predict(lm, packed, guidance, speedups, codes, base)  # type: ignore[arg-type]

    monkeypatch.setattr("omnivoice.generate.sample.predict", watched)
    return seen


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("spans", SPANS.values(), ids=SPANS)
def test_known_frames_stay_and_opened_ones_are_filled(engine: Engine, order: str, spans: list[tuple[int, int]]) -> None:
    codes, sampling = _codes(engine, spans), in_order(Sampling(steps=4), order, 8, quick=True)
    before = codes.clone()
    filled = engine.fill([_plan(engine, 20, sampling)], [codes])[0]
    known = codes != engine.lm.config.audio_mask_id
    assert torch.equal(filled[known], codes[known])
    assert int(filled.max()) < 1024 and filled.dtype == torch.int64
    assert torch.equal(codes, before)


def test_codebook_by_codebook_shows_no_higher_codebook_of_the_sides(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 steps for the first codebook, 2 for each other; each step shows codebooks <= k and what is revealed so far."""
    seen, mask = _shown(engine, monkeypatch), engine.lm.config.audio_mask_id
    codes = _codes(engine, [(4, 64)], frames=66)
    sampling = in_order(Sampling(), CODEBOOKS, 8)
    assert sampling.codebook_steps == (12, 2, 2, 2, 2, 2, 2, 2) and sampling.passes == 26
    engine.fill([_plan(engine, 66, sampling)], [codes])
    books = [book for book, steps in enumerate(sampling.codebook_steps) for _ in range(steps)]
    assert len(seen) == len(books) == 26
    sides = torch.tensor([*range(4), 64, 65])
    for book, shown in zip(books, seen):
        assert torch.equal(shown[: book + 1, sides], codes[: book + 1, sides])
        assert bool((shown[book + 1 :] == mask).all())
        assert bool((shown[:book] != mask).all())
    opened = [int((shown[book] == mask).sum()) for book, shown in zip(books, seen)]
    counts = [count for _, each in reveals(60, 8, sampling) for count in each]
    left = [60 - sum(counts[first:step]) for step, first in ((s, books.index(books[s])) for s in range(26))]
    assert opened == left


def test_together_shows_the_sides_from_the_first_step(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, mask = _shown(engine, monkeypatch), engine.lm.config.audio_mask_id
    codes = _codes(engine, [(4, 9)])
    engine.fill([_plan(engine, 20, in_order(Sampling(steps=6), TOGETHER, 8))], [codes])
    known = codes != mask
    assert len(seen) == 6
    assert all(torch.equal(shown[known], codes[known]) for shown in seen)
    assert bool((seen[0][~known] == mask).all())


@pytest.mark.parametrize("order", ORDERS)
def test_an_item_alone_equals_the_item_in_a_batch(engine: Engine, order: str) -> None:
    sampling = in_order(Sampling(steps=5), order, 8, quick=True)
    codes = [
        _codes(engine, spans, frames, seed)
        for seed, (frames, spans) in enumerate([(20, [(3, 8)]), (31, [(9, 14)]), (12, [(0, 2), (6, 11)])])
    ]
    plans = [_plan(engine, each.shape[1], sampling, seed=i) for i, each in enumerate(codes)]
    together = engine.fill(plans, codes)
    alone = [engine.fill([plan], [each])[0] for plan, each in zip(plans, codes)]
    assert all(torch.equal(a, b) for a, b in zip(together, alone))
    small = engine.fill(plans, codes, free_bytes=1)
    assert all(torch.equal(a, b) for a, b in zip(together, small))


@pytest.mark.parametrize("switch", list(vars(ALL_SPEEDUPS)))
@pytest.mark.parametrize("order", ORDERS)
def test_no_exact_shortcut_changes_a_token(checkpoint: Path, engine: Engine, order: str, switch: str) -> None:
    sampling, codes = in_order(Sampling(steps=5), order, 8, quick=True), _codes(engine, [(3, 9)])
    slow = Engine.load(checkpoint, speedups=replace(ALL_SPEEDUPS, **{switch: False}))
    plan = _plan(engine, 20, sampling)
    assert torch.equal(engine.fill([plan], [codes])[0], slow.fill([plan], [codes])[0])


def test_seeds_decide_and_repeat(engine: Engine) -> None:
    codes, sampling = _codes(engine, [(3, 60)], frames=66), replace(QUICK, codebook_steps=(12, *[2] * 7))
    one, again, other = (engine.fill([_plan(engine, 66, sampling, seed=seed)], [codes])[0] for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)


@pytest.mark.parametrize("sampling", [QUICK, Sampling(steps=7), replace(QUICK, class_temperature=1.0)])
def test_noise_of_opened_frames_does_not_depend_on_the_rest(engine: Engine, sampling: Sampling) -> None:
    config = engine.lm.config
    short, long = torch.zeros(9, dtype=torch.bool), torch.zeros(30, dtype=torch.bool)
    short[2:7], long[20:25] = True, True
    drawn = [
        fill_noise(config, opened, seeded_generator(3), replace(sampling, class_temperature=0))
        for opened in (short, long)
    ]
    first, second = (noise.positions for noise in drawn)
    assert first is not None and second is not None
    assert torch.equal(first[:, :, 2:7], second[:, :, 20:25])
    assert float(first[:, :, :2].abs().max()) == 0 and float(second[:, :, 25:].abs().max()) == 0


def test_progress_counts_the_steps_of_all_codebooks(engine: Engine) -> None:
    told: list[tuple[int, int]] = []
    codes = _codes(engine, [(3, 15)])
    engine.fill([_plan(engine, 20)], [codes], on_step=lambda done, total: told.append((done, total)))
    assert told == [(i, 10) for i in range(1, 11)]


def test_nothing_known_is_like_plain_generation(engine: Engine) -> None:
    """With every frame open, the order `together` has the settings, counts and noise of a plain run without a voice."""
    sampling, codes = Sampling(steps=6), _codes(engine, [(0, 20)])
    plan = _plan(engine, 20, sampling)
    spoken = engine.generate_plans([plan])[0].codes[0]
    assert torch.equal(engine.fill([plan], [codes])[0], spoken)


Fault = Callable[[Engine, GenerationPlan, Tensor], tuple[Sequence[GenerationPlan], Sequence[Tensor]]]
FAULTS: list[tuple[str, Fault, str]] = [
    ("no codes", lambda e, p, c: ([p], []), "there must be codes for each plan, got 0 for 1 plans"),
    ("codebooks", lambda e, p, c: ([p], [c[:7]]), r"the codes of a recording must be \[8, T\] integers, got Tensor"),
    ("floats", lambda e, p, c: ([p], [c.float()]), r"must be \[8, T\] integers"),
    (
        "length",
        lambda e, p, c: ([p], [c[:, :19]]),
        "the plan must have one chunk of 19 frames: make it with filling_plan",
    ),
    ("too high", lambda e, p, c: ([p], [c + 1]), "the codes of a recording must be 0-1024"),
    ("negative", lambda e, p, c: ([p], [c - 1025]), "the codes of a recording must be 0-1024"),
    ("nothing open", lambda e, p, c: ([p], [c.clamp(max=1023)]), "the mask must stand in every codebook"),
    (
        "half open",
        lambda e, p, c: ([p], [torch.cat((c[:4], c[4:].clamp(max=1023)))]),
        "the mask must stand in every codebook of the frames to fill, and there must be some",
    ),
    (
        "steps of another model",
        lambda e, p, c: ([_plan(e, 20, Sampling(codebook_steps=(3, 1)))], [c]),
        "codebook_steps must have 8 numbers for this model, got 2",
    ),
]


@pytest.mark.parametrize(("fault", "message"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_codes_that_do_not_fit_are_refused(engine: Engine, fault: Fault, message: str) -> None:
    plans, codes = fault(engine, _plan(engine, 20), _codes(engine, [(3, 9)]))
    with pytest.raises(InputError, match=message):
        engine.fill(plans, codes)


def test_texts_that_cannot_fill_a_span_are_refused(engine: Engine) -> None:
    voice = VoicePrompt(torch.zeros(8, 30, dtype=torch.int64), "Hello there.", 0.1)
    with pytest.raises(InputError, match="an edit takes its voice from the recording"):
        filling_plan(engine.plan([GenerationRequest("Hello.", voice=voice)])[0], 20)
    for text in ("Hello. [pause 1s] You.", "Hello there. [pause 1s]", "[pause 1s] Hello there."):
        with pytest.raises(TextError, match="a text for an edit can hold no pause marks"):
            filling_plan(engine.plan([GenerationRequest(text)])[0], 20)
    for text in ("Hello there. " * 100, "word " * 400):
        with pytest.raises(TextError, match=f"and {len(text)} characters are too long: change fewer words"):
            filling_plan(engine.plan([GenerationRequest(text)])[0], 20)


def test_plain_requests_take_no_steps_by_codebook(engine: Engine) -> None:
    with pytest.raises(InputError, match="codebook_steps is for speech that is filled into a recording: leave it out"):
        engine.generate([GenerationRequest("Hello there.", sampling=QUICK)])
    for steps in ((0, 1), (1.5,), "12", 3, (257,)):
        with pytest.raises(InputError, match="codebook_steps"):
            engine.plan([GenerationRequest("Hello.", sampling=replace(QUICK, codebook_steps=steps))])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="order must be one of codebooks, together, got 'random'"):
        in_order(Sampling(), "random", 8)
