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


@pytest.mark.parametrize(
    "unit", ["[", "[pause", "<break", "<break time=", '<speak a="b" ', "[pause 1", " " * 50 + "<p "]
)
def test_time_is_linear(unit: str) -> None:
    start = time.perf_counter()
    with contextlib.suppress(TextError):
        split_pauses(unit * (200_000 // len(unit)))
    assert time.perf_counter() - start < 2


@given(st.lists(st.tuples(st.text("ab ", min_size=1, max_size=5), st.integers(1, 3000)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_no_text_and_no_silence_is_lost(parts: list[tuple[str, int]]) -> None:
    pieces = split_pauses("".join(f"{text}[pause {ms}ms]" for text, ms in parts))
    assert "".join(piece.text for piece in pieces).replace(" ", "") == "".join(t for t, _ in parts).replace(" ", "")
    assert sum(piece.pause_seconds for piece in pieces) == pytest.approx(sum(ms for _, ms in parts) / 1000)
