"""What the model is shown for each window of an edit: the recording's codes in one piece, with the mask in every span,
and new text that says what the old words and the changes make of it."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor

from omnivoice.engine import Engine
from omnivoice.productions.edit import EditRequest, PreparedEdit, prepare_edit
from omnivoice.productions.timings import TimedWord
from omnivoice.types import Waveform

TEXT = "We met in late May. It was a fine day. All of us were there. In the old town of Rome."
FRAMES = 200
NEAR, FAR, LAST = ((1.2, 1.6),), ((6.0, 7.0),), ((7.9, 8.0),)


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def _recording() -> Waveform:
    t = torch.arange(FRAMES * 960) / 24_000
    loud = 0.3 * (torch.sin(2 * math.pi * 1.1 * t) > -0.3)
    return Waveform((loud * torch.sin(2 * math.pi * 200 * t))[None], 24_000)


def _prepared(engine: Engine, new: str, **more: object) -> PreparedEdit:
    codes = torch.arange(FRAMES)[None].repeat(engine.lm.config.codebooks, 1)
    request = EditRequest(_recording(), TEXT, new, codes=codes, seed=1, quick=True, **more)  # type: ignore[arg-type]

    def encode(_: Tensor, /) -> Tensor:
        raise AssertionError("the codes are given")

    return prepare_edit(engine, request, encode)


def _check_parts(engine: Engine, edit: PreparedEdit) -> None:
    """Every window shows consecutive frames, apart from its spans, and no frame of another window's span."""
    mask, opened = engine.lm.config.audio_mask_id, [range(span.start, span.end) for span in edit.found.spans]
    for part in edit.parts:
        shown = torch.cat((part.before, part.codes, part.after), dim=1)[0].tolist()
        at = part.first - part.before.shape[1]
        expected = list[int]()
        for number in part.spans:
            span = edit.found.spans[number]
            expected += [*range(at, span.start), *[mask] * span.frames]
            at = span.end
        expected += range(at, at + len(shown) - len(expected))
        assert shown == expected
        own = set(part.codes[0].tolist())
        assert not any(frame in own for frames in opened for frame in frames)


@pytest.mark.parametrize("context", [0.0, 3.0, 30.0])
@pytest.mark.parametrize(
    ("old", "new", "spans"),
    [
        ("May.", "May. Then", ()),  # inserted between two sentences
        ("It was", "Then it was", ()),
        ("We met", "Yesterday we met", ()),
        ("Rome.", "Rome, then.", ()),
        ("May.", "June.", ()),
        ("It", "That", ()),
        ("late", "early", NEAR),
        ("late", "early", FAR),  # the estimate of its time is several seconds off
        ("old", "new", NEAR),
        ("old ", "", NEAR),
        ("late ", "", FAR),
        ("met", "had met", FAR),
        ("Rome.", "Rome today.", LAST),
        ("Rome.", "Rome today.", ((8.0, 8.0),)),
        ("We met", "Yesterday we met", ((0.0, 0.0),)),
        ("We met", "You met", ((0.0, 0.2),)),
    ],
)
def test_a_window_holds_its_spans(
    engine: Engine, old: str, new: str, spans: tuple[tuple[float, float], ...], context: float
) -> None:
    edit = _prepared(engine, TEXT.replace(old, new), spans=spans, context_seconds=context)
    _check_parts(engine, edit)


@pytest.mark.parametrize("spans", [(), ((0.1, 0.2), (7.0, 7.2)), ((0.1, 0.2), (0.3, 0.4)), ((7.2, 7.4), (7.5, 7.6))])
def test_windows_share_no_span(engine: Engine, spans: tuple[tuple[float, float], ...]) -> None:
    new = TEXT.replace("late", "early").replace("old", "new")
    _check_parts(engine, _prepared(engine, new, spans=spans, context_seconds=0.0))


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.9])
def test_times_beyond_the_recording_show_what_there_is(engine: Engine, shift: float) -> None:
    words = TEXT.split()
    times = tuple(
        TimedWord(word, max(0.38 * i + shift, 0), max(0.38 * i + 0.38 + shift, 0)) for i, word in enumerate(words)
    )
    new = TEXT.replace("Rome.", "Paris.").replace("We met", "They met")
    _check_parts(engine, _prepared(engine, new, word_times=times, context_seconds=0.0))


def test_a_given_span_says_when_its_word_is_said(engine: Engine) -> None:
    edit = _prepared(engine, TEXT.replace("late", "early"), spans=FAR)
    times = edit.found.times
    assert (times[3].word, times[3].start, times[3].end) == ("late", 6.0, 7.0)
    assert all(one.start <= one.end <= other.start + 1e-9 for one, other in pairwise(times))
    assert times[0].start >= 0 and times[-1].end <= 8.0 and times[2].end <= 6.0 and times[4].start >= 7.0
