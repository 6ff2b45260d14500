"""The duration estimate equals upstream's, on every code point and every recorded text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.text.duration import char_weight, estimate_frames, text_weight


def test_every_code_point_weighs_what_upstream_says(asset: Callable) -> None:
    """Code points whose category differs between the recording's Unicode and this Python's prove nothing."""
    recorded = asset("characters.json")
    code, compared, wrong = 0, 0, []
    for count, category, weight in recorded["runs"]:
        for char in map(chr, range(code, code + count)):
            if unicodedata.category(char) == category:
                compared += 1
                if char_weight(char) != weight:
                    wrong.append(hex(ord(char)))
        code += count
    assert code == 0x110000
    assert wrong == []
    same_unicode = unicodedata.unidata_version == recorded["unicode"]
    assert compared == 0x110000 if same_unicode else compared > 0x110000 - 20_000


def test_frames_equal_upstream(rows: list[dict]) -> None:
    for row in rows:
        reference = {"reference_text": row["transcript"], "reference_frames": row.get("ref_frames")}
        assert estimate_frames(row["text"], **reference) == row["frames"], row["text"]
        assert estimate_frames(row["text"], **reference, speed=1.5) == row["frames_fast"], row["text"]


@pytest.mark.parametrize(("text", "frames"), [("hi", 20), ("hello world", 35), ("2345", 39), ("[laughter]", 34)])
def test_golden_frames(text: str, frames: int) -> None:
    assert estimate_frames(text) == frames


def test_golden_weights() -> None:
    assert estimate_frames("hello world", speed=1.5) == 23
    assert estimate_frames("\u4f60\u597d") == 29
    assert text_weight("\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627") == 7.5  # Arabic with harakat
    assert text_weight("\u0967\u0968\u0969") == 10.5  # Devanagari digits
    assert text_weight("") == 0


@given(st.text(max_size=40), st.sampled_from(["\u0301", "\u064e", "\u0640", "\u093f", "\ufe0f"]), st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_marks_cost_nothing(text: str, mark: str, place: int) -> None:
    assert text_weight(text[:place] + mark + text[place:]) == text_weight(text)


def test_a_reference_counts_only_whole() -> None:
    plain = estimate_frames("hello world")
    assert estimate_frames("hello world", reference_text="abc") == plain
    assert estimate_frames("hello world", reference_frames=90) == plain
    assert estimate_frames("hello world", reference_text="", reference_frames=90) == plain
    assert estimate_frames("hello world", reference_text="\u0301", reference_frames=90) == plain  # weighs nothing
    assert estimate_frames("hello world", reference_text="hello world", reference_frames=90) == 90


def test_there_is_always_a_frame() -> None:
    assert estimate_frames("") == 1
    assert estimate_frames("i", speed=1000.0) == 1
