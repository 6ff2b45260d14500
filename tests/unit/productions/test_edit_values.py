"""Hostile values of an edit: every one gives a plain error, and nothing but an OmniVoiceError."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import InputError, OmniVoiceError
from omnivoice.productions.edit_again import named_words
from omnivoice.productions.edit_places import FoundWords, found_words, parse_spans
from omnivoice.productions.edit_sound import sound_of
from omnivoice.productions.timings import TimedWord
from omnivoice.text.rules import PUBLISHED
from omnivoice.types import Waveform

OLD = "We met in late May, and it was a fine day for all of us there in the old town of Rome."
NEW = OLD.replace("late", "early")
WORDS = OLD.split()
T = torch.arange(24_000 * 8) / 24_000
SOUND = sound_of(Waveform((0.3 * torch.sin(1256 * T) * (torch.sin(7 * T) > -0.3))[None], 24_000))
TIMES = tuple(TimedWord(word, 0.36 * i, 0.36 * i + 0.3) for i, word in enumerate(WORDS))


def _found(old: str = OLD, new: str = NEW, **more: object) -> FoundWords:
    return found_words(SOUND, old, new, PUBLISHED, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("1.2-1.85, 3-4", ((1.2, 1.85), (3.0, 4.0))),
        (" 1 - 2 ,", ((1.0, 2.0),)),
        ("1.2–1.85", ((1.2, 1.85),)),
        ("1.2—1.85", ((1.2, 1.85),)),
        ("1.2−1.85", ((1.2, 1.85),)),
        ("1‐2,3‑4", ((1.0, 2.0), (3.0, 4.0))),
        ("１．２－１．８５".replace("．", "."), ((1.2, 1.85),)),
        (",,,", ()),
    ],
)
def test_spans_are_read_with_every_dash(text: str, spans: tuple[tuple[float, float], ...]) -> None:
    assert parse_spans(text) == spans


@pytest.mark.parametrize(
    "text", ["1,2-1,5", "1,2-3", "1-2-3", "-1-2", "1-", "-", "1-2;3-4", "0x1-2", "1_0-2_0", "1-2 s", "1.2-1.85 4-5"]
)
def test_other_spans_are_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InputError, match=r"such as 1\.2-1\.85, got .*: write decimals with a point"):
        parse_spans(text)


@pytest.mark.parametrize("text", ["1e309-2", "nan-1", "1-inf", "1" + "0" * 500 + "-2"])
def test_spans_outside_of_any_recording_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="seconds must be 0-86400"):
        parse_spans(text)


@given(st.text("0123456789.,- −–eNainf_'\x00", max_size=20))
def test_any_text_of_a_span_is_read_or_refused(text: str) -> None:
    try:
        spans = parse_spans(text)
    except OmniVoiceError:
        return
    assert all(0 <= second <= 86_400 for span in spans for second in span)


@pytest.mark.parametrize("new", [NEW, OLD])
@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ((("a", "b"),), "seconds of a span must be"),
        (((math.nan, 2.0),), "seconds of a span must be"),
        (((-1.0, 2.0),), "seconds of a span must be"),
        (((True, 2.0),), "seconds of a span must be"),
        (((1.0,),), r"a span must be \(start, end\)"),
        (((1.0, 2.0, 3.0),), r"a span must be \(start, end\)"),
        ((1.0, 2.0), r"a span must be \(start, end\)"),
        (3, "spans must be a list"),
        ("1-2", "spans must be a list"),
        (((2.0, 2.0),), "has no length"),
        (((3.0, 2.0),), "begin before it ends"),
        (((8.01, 9.0),), "within the 8 s"),
        (((1.0, 2.0),) * 501, "at most 500"),
    ],
)
def test_spans_that_fit_no_recording(new: str, spans: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _found(new=new, spans=spans)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (("a",), "word_times must be"),
        ("abc", "word_times must be"),
        (7, "word_times must be"),
        ((TimedWord(None, 0.0, 1.0),), "word_times must be"),  # type: ignore[arg-type]
        ((TimedWord("We", math.nan, 1.0),), "seconds of a word must be"),
        ((TimedWord("We", -1.0, 1.0),), "seconds of a word must be"),
        ((TimedWord("We", 2.0, 1.0),), "ends before it starts"),
        (TIMES[::-1], "must be in order"),
        ((*TIMES[10:], *TIMES[:10]), "must be in order"),
        (TIMES * 10_000, "at most 100000 words"),
    ],
)
def test_times_of_words_that_cannot_be(times: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _found(word_times=times)


@pytest.mark.parametrize("shift", [-0.2, 0.0, 0.5])
def test_words_that_overlap_a_little_are_fine(shift: float) -> None:
    times = tuple(
        TimedWord(one.word, max(0, one.start + shift * (i % 2)), one.end + 0.5) for i, one in enumerate(TIMES)
    )
    (span,) = _found(word_times=times).spans
    assert 0 <= span.start <= span.end <= SOUND.frames


@pytest.mark.parametrize(
    ("again", "message"),
    [
        ("#2", "name the words"),
        ("", "name the words"),
        ("a#0", "must be 1-1, got '0'"),
        ("a#99999999999", "must be 1-1"),
        ("a#" + "9" * 1_900, "must be 1-1"),
        ("a#" + "9" * 5_000, "at most 2000 characters"),
        ("a#²", "not in the transcript|must be 1-1"),
        ("in", "2 times"),
        (3, "must be a string"),
        ("the " * 5_000, "at most"),
        ("[laughter]", "name the words"),
    ],
)
def test_words_that_cannot_be_named(again: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        named_words(WORDS, again)  # type: ignore[arg-type]


def test_words_among_brackets_are_named_as_they_are_heard() -> None:
    assert named_words(["a", "[sigh]", "b", "a", "b", "[x]"], "a b#1") == (0, 3)
    assert named_words(["a", "[sigh]", "b", "a", "b", "[x]"], "a b#2") == (3, 5)
    assert named_words(["re-do", "it", "do", "it."], "Do it") == (2, 4)  # whole words


def test_too_many_changes_are_refused() -> None:
    words = [f"w{i}" for i in range(1_200)]
    new = [word if i % 2 else "new" for i, word in enumerate(words)]
    times = tuple(TimedWord(word, i / 160, (i + 1) / 160) for i, word in enumerate(words))
    with pytest.raises(InputError, match="differ in 600 places, at most 500"):
        _found(" ".join(words), " ".join(new), word_times=times)


HOSTILE = st.text(st.sampled_from("aé我ที่עا́[]<>{}\x00\u202e\ud800\u200b\u2028\r\n\t .,?!#1٣😀"), max_size=40)


@settings(deadline=None, max_examples=150)
@given(HOSTILE, HOSTILE)
def test_any_texts_are_compared_or_refused(old: str, new: str) -> None:
    try:
        found = _found("We met in late May, and it was a fine day for " + old, "We met " + new)
    except OmniVoiceError:
        return
    assert all(0 <= span.start <= span.end <= SOUND.frames for span in found.spans)
    assert len(found.times) == len(found.old.words)
