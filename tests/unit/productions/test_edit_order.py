"""The loss test: where spans are opened, what the model is shown, both losses, the verdict, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from omnivoice.engine import Engine
from omnivoice.errors import InputError
from omnivoice.generate.filling_loss import OpenedSpeech
from omnivoice.productions import edit_order
from omnivoice.productions.edit_order import EITHER, OrderLoss, order_loss
from omnivoice.text.prompt import build_prompt
from omnivoice.train.clips import Clip


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def clip(frames: int, seed: int = 0, **labels: str) -> Clip:
    codes = torch.randint(0, 1024, (8, frames), generator=torch.Generator().manual_seed(seed))
    return Clip(f"{frames}.wav", codes.to(torch.int16), "Good morning to you.", **labels)


def _asked(engine: Engine, clips: Sequence[Clip], monkeypatch: pytest.MonkeyPatch) -> list[OpenedSpeech]:
    """What the engine is asked about these clips."""
    seen: list[OpenedSpeech] = []

    def watch(speech: Sequence[OpenedSpeech], **_: object) -> list[Tensor]:
        seen.extend(speech)
        return [torch.zeros(8) for _ in speech]

    monkeypatch.setattr(engine, "opened_losses", watch)
    order_loss(engine, clips)
    return seen


SPANS = {
    16: [4],
    17: [4],
    24: [8],
    47: [19],
    48: [12, 28],
    60: [16, 36],
    100: [16, 36, 56, 76],
    750: [79, 162, 246, 329, 412, 496, 579, 662],
}


@pytest.mark.parametrize(("frames", "starts"), SPANS.items())
def test_each_span_is_shown_in_both_ways(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, frames: int, starts: list[int]
) -> None:
    one = clip(frames, language="en", instruct="female")
    codes, mask = one.codes.long(), engine.lm.config.audio_mask_id
    asked = _asked(engine, [one], monkeypatch)
    prompt = build_prompt(engine.tokenizer, text=one.text, language="en", instruct="female")
    assert len(asked) == 2 * len(starts) and all(each.prompt_ids == prompt for each in asked)
    for start, first_only, full in zip(starts, asked[::2], asked[1::2]):
        expected = codes.clone()
        expected[:, start : start + 8] = mask
        assert torch.equal(full.codes, expected)
        assert torch.equal(first_only.codes[0], expected[0]) and bool((first_only.codes[1:] == mask).all())
        assert torch.equal(full.first, codes[0]) and torch.equal(first_only.first, codes[0])


def test_spans_lie_inside_with_known_frames_on_both_sides(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for frames in range(16, 300):
        with monkeypatch.context() as patch:
            asked = _asked(engine, [clip(frames)], patch)[1::2]
        for one in asked:
            opened = (one.codes[0] == engine.lm.config.audio_mask_id).nonzero()[:, 0].tolist()
            assert opened == [*range(opened[0], opened[0] + 8)]
            assert opened[0] >= 4 and frames - opened[-1] - 1 >= 4


def test_the_losses_are_means_over_the_tokens_of_all_clips(engine: Engine) -> None:
    clips = [clip(16, 1), clip(100, 2, language="en"), clip(48, 3)]
    with pytest.MonkeyPatch.context() as patch:
        asked = _asked(engine, clips, patch)
    each = torch.stack(engine.opened_losses(asked))  # [14, 8]
    found = order_loss(engine, clips)
    assert (found.spans, found.cells, found.clips, found.too_short) == (7, 56, 3, ())
    assert found.first_only == pytest.approx(float(each[::2].mean()), abs=1e-6)
    assert found.fully_shown == pytest.approx(float(each[1::2].mean()), abs=1e-6)
    assert found.first_only != pytest.approx(found.fully_shown, abs=1e-3)


def test_memory_and_order_of_clips_change_nothing(engine: Engine) -> None:
    clips = [clip(frames, frames) for frames in (16, 30, 52)]
    found, small, turned = (
        order_loss(engine, clips),
        order_loss(engine, clips, free_bytes=1),
        order_loss(engine, clips[::-1]),
    )
    for other in (small, turned):
        assert other.first_only == pytest.approx(found.first_only, abs=1e-5)
        assert other.fully_shown == pytest.approx(found.fully_shown, abs=1e-5)


def test_progress_counts_the_passes_and_may_cancel(engine: Engine) -> None:
    told: list[tuple[int, int]] = []
    order_loss(engine, [clip(50), clip(20)], free_bytes=1, on_step=lambda *at: told.append(at))
    assert told == [(i, 6) for i in range(1, 7)]

    def cancel(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        order_loss(engine, [clip(50)], on_step=cancel)


@pytest.mark.parametrize("at_once", [1, 2, 16])
def test_groups_of_clips_change_neither_losses_nor_progress(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Only as many clips as one group has are laid out at a time."""
    clips, told, most = [clip(frames, frames) for frames in (48, 20, 15, 30, 50)], list[tuple[int, int]](), []
    expected, asked = order_loss(engine, clips), engine.opened_losses

    def watch(speech: Sequence[OpenedSpeech], **options: Any) -> list[Tensor]:
        most.append(len(speech))
        return asked(speech, **options)

    monkeypatch.setattr(engine, "opened_losses", watch)
    monkeypatch.setattr(edit_order, "AT_ONCE", at_once)
    found = order_loss(engine, clips, free_bytes=1, on_step=lambda *at: told.append(at))
    assert most == {1: [4, 2, 2, 4], 2: [6, 6], 16: [12]}[at_once]
    assert told == [(i, 12) for i in range(1, 13)]
    assert (found.spans, found.cells, found.too_short) == (expected.spans, expected.cells, expected.too_short)
    assert found.first_only == pytest.approx(expected.first_only, abs=1e-5)
    assert found.fully_shown == pytest.approx(expected.fully_shown, abs=1e-5)


def _loss(first_only: float, fully_shown: float, spans: int = 20) -> OrderLoss:
    return OrderLoss(first_only, fully_shown, spans, spans * 8, 10)


@pytest.mark.parametrize(
    ("first_only", "fully_shown", "spans", "order"),
    [
        (1.51, 5.92, 20, "codebooks"),
        (1.51, 1.48, 20, EITHER),
        (1.5, 2.0, 20, EITHER),
        (1.5, 2.001, 20, "codebooks"),
        (4.0, 1.0, 200, EITHER),
        (1.51, 5.92, 19, None),
        (1.51, 1.48, 1, None),
    ],
)
def test_half_a_nat_decides(first_only: float, fully_shown: float, spans: int, order: str | None) -> None:
    assert _loss(first_only, fully_shown, spans).order == order


def test_the_verdict_says_what_to_choose() -> None:
    assert _loss(1.51, 5.92).report().splitlines() == [
        "loss of the first codebook in 20 spans of 8 frames, 160 tokens in 10 clips:",
        "  the rest shown in its first codebook only: 1.51 nats a token",
        "  the rest fully shown:                      5.92 nats a token",
        "Only the order codebooks, the default, suits this model: fully shown sides cost it 4.41 nats, more than 0.5. "
        "Do not choose together.",
    ]
    assert _loss(1.51, 1.48).report().splitlines()[-1] == (
        "Either order suits this model: fully shown sides cost it 0.00 nats, at most 0.5 are allowed. Keep codebooks, "
        "the default and the quicker one, or choose together."
    )
    assert _loss(1.51, 1.48, 19).report().splitlines()[-1] == (
        "There are too few spans for a verdict: at least 20 are needed, give more clips. Until then choose the order "
        "codebooks, the default, which works with every model."
    )


def test_clips_that_are_too_short_are_left_out_and_named(engine: Engine) -> None:
    found = order_loss(engine, [clip(15), clip(16), clip(1)])
    assert (found.clips, found.spans, found.too_short) == (1, 1, ("15.wav", "1.wav"))
    assert found.report().splitlines()[0] == "left out, shorter than 0.64 s: 15.wav, 1.wav"


@pytest.mark.parametrize(
    ("clips", "message"),
    [
        ([], r"the test needs clips of at least 0.64 s with their transcripts, got none"),
        ([clip(15), clip(3)], r"the test needs clips of at least 0.64 s with their transcripts, got 2, all shorter"),
        (
            [clip(30), replace(clip(31), codes=torch.zeros(4, 31, dtype=torch.int16))],
            r"the codes of '31.wav' are \[4, 31\] of 0-0, the model's \[8, T\] of 0-1023: encode the clip with this",
        ),
        (
            [replace(clip(30), codes=torch.full((8, 30), 1024, dtype=torch.int16))],
            r"the codes of '30.wav' are \[8, 30\] of 1024-1024",
        ),
        ([replace(clip(30), codes=torch.full((8, 30), -1, dtype=torch.int16))], r"of -1--1, the model's"),
    ],
)
def test_what_cannot_be_measured_is_refused(engine: Engine, clips: list[Clip], message: str) -> None:
    with pytest.raises(InputError, match=message):
        order_loss(engine, clips)
