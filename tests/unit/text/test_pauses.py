"""Pause marks: found, measured, bounded; everything else left alone."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import TextError
from omnivoice.text.pauses import split_pauses


def shape(text: str) -> list[tuple[float, str]]:
    return [(piece.pause_seconds, piece.text.strip()) for piece in split_pauses(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text", [(0.0, "plain text")]),
        ("a [pause 0.5s] b", [(0.0, "a"), (0.5, "b")]),
        ("a[pause 300ms]b", [(0.0, "a"), (0.3, "b")]),
        ("a [PAUSE 2] b", [(0.0, "a"), (2.0, "b")]),
        ("a [pause] b", [(0.0, "a"), (0.5, "b")]),
        ('a <break time="500ms"/> b', [(0.0, "a"), (0.5, "b")]),
        ("a <break time='1.5s'></break> b <break/> c", [(0.0, "a"), (1.5, "b"), (0.5, "c")]),
        ("[pause 1s] a", [(1.0, "a")]),
        ("a [pause 1s]", [(0.0, "a"), (1.0, "")]),
        ("a [pause 1s] [pause 250ms]\n b", [(0.0, "a"), (1.25, "b")]),
        ("<speak>a <prosody rate='slow'>b</prosody></speak>", [(0.0, "a  b")]),
        ("git push <remote> <branch>", [(0.0, "git push <remote> <branch>")]),
        ("a paused [sigh] menopause", [(0.0, "a paused [sigh] menopause")]),
    ],
)
def test_pieces(text: str, expected: list[tuple[float, str]]) -> None:
    assert shape(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a [pause 999999999s] b", "a pause must be 0-30 s"),
        ('a <break time="1e9s"/> b', "cannot be read: write"),
        ("a [pause soon] b", "cannot be read: write"),
        ("a [pause -1s] b", "cannot be read: write"),
        ("a" + "[pause 30s] b" * 21, "600 s of them"),
        ("a" + "[pause 0.01s] b" * 2001, "2000 pauses"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        split_pauses(text)


PAUSES = [  # (mark, seconds of silence; None if it is refused; or the text that stays)
    *((f"[pause{space}{time}{space}]", seconds) for space in ("", " ", "\t  ") for time, seconds in (("", 0.5),)),
    *(("[pause 0]", 0.0), ("[pause 0s]", 0.0), ("[pause 0ms]", 0.0), ("[pause 00.50s]", 0.5), ("[pause 1 s]", 1.0)),
    *(("[pause 30s]", 30.0), ("[pause 30000ms]", 30.0), ("[pause 30.000000000s]", 30.0), ("[Pause 1MS]", 0.001)),
    *(("[pause 30.001s]", None), ("[pause 30001ms]", None), ("[pause 31]", None), ("[pause 999999999s]", None)),
    *(("[pause 9999999999s]", None), ("[pause 1.0000000001s]", None), ("[pause 1e9s]", None), ("[pause 1e-9s]", None)),
    *(("[pause inf]", None), ("[pause nan]", None), ("[pause -1s]", None), ("[pause +1s]", None), ("[pause 1m]", None)),
    *(("[pause 1,5s]", None), ("[pause .5s]", None), ("[pause 5.s]", None), ("[pause 1s 2s]", None)),
    *(("[pause ٣s]", 3.0), ("[pause 1s;]", None), ("[pause=1s]", None), ("[pause: 1s]", None)),
    *(("[[pause 1s]]", 1.0), ("[pause [pause 1s]]", 1.0), ("[pause 1s", "[pause 1s"), ("pause 1s]", "pause 1s]")),
    *(("[paused 1s]", "[paused 1s]"), ("[pause_1s]", "[pause_1s]"), ("[ pause 2s ]", 2.0)),
    *(('<break time="1s"/>', 1.0), ("<break time='250ms'>", 0.25), ("<BREAK/>", 0.5), ("<break></break>", 0.5)),
    *(('<break time="31s"/>', None), ('<break time="1e9s"/>', None), ('<break time="-1s"/>', None)),
    *(('<break time=""/>', None), ("<break time=1s/>", None), ('<break strength="strong"/>', None)),
    *(("[pause 20s]" * 30, 600.0), ("[pause 20s]" * 31, None), ("[pause 0s]" * 2000, 0.0), ("[pause 0s]" * 2001, None)),
]


@pytest.mark.parametrize(("mark", "outcome"), PAUSES, ids=lambda value: ascii(value)[:30])
def test_a_pause_is_kept_to_the_sample_or_refused(mark: str, outcome: float | str | None) -> None:
    if outcome is None:
        with pytest.raises(TextError, match=r"a pause must be 0-30 s|cannot be read: write|a text can have at most"):
            split_pauses(f"one {mark} two")
        return
    pieces = split_pauses(f"one {mark} two")
    assert sum(piece.pause_seconds for piece in pieces) == (0 if isinstance(outcome, str) else outcome)
    if isinstance(outcome, str):
        assert [piece.text for piece in pieces] == [f"one {outcome} two"]


def test_there_are_fifty_pauses() -> None:
    assert len(PAUSES) >= 50


@pytest.mark.parametrize(
    "unit", ["[", "[pause", "<break", "<break time=", '<speak a="b" ', "[pause 1", " " * 50 + "<p "]
)
def test_time_is_linear(unit: str) -> None:
    start = time.process_time()
    with contextlib.suppress(TextError):
        split_pauses(unit * (200_000 // len(unit)))
    assert time.process_time() - start < 2


@given(st.lists(st.tuples(st.text("ab ", min_size=1, max_size=5), st.integers(1, 3000)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_no_text_and_no_silence_is_lost(parts: list[tuple[str, int]]) -> None:
    pieces = split_pauses("".join(f"{text}[pause {ms}ms]" for text, ms in parts))
    assert "".join(piece.text for piece in pieces).replace(" ", "") == "".join(t for t, _ in parts).replace(" ", "")
    assert sum(piece.pause_seconds for piece in pieces) == pytest.approx(sum(ms for _, ms in parts) / 1000)
