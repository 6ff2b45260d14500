"""Windows of an edit: sentences, context, changes that share one, long texts without stops, and their new text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.productions.edit_windows import PlacedText, Range, Window, new_range, windows
from omnivoice.productions.timings import TimedWord, words_of

TEXT = "Good evening, Mr. Smith. I have ten black windows! Where are you?\nHere."


def _placed(text: str) -> PlacedText:
    return PlacedText.of(text, words_of(text))


def _times(count: int, each: float = 0.4, gap_before: dict[int, float] | None = None) -> list[TimedWord]:
    found, at = list[TimedWord](), 0.0
    for word in range(count):
        at += (gap_before or {}).get(word, 0.0)
        found.append(TimedWord(str(word), at, at + each))
        at += each
    return found


def test_words_and_sentences_are_found_in_the_text() -> None:
    placed = _placed(TEXT)
    assert placed.words == (
        "Good", "evening,", "Mr.", "Smith.", "I", "have", "ten", "black", "windows!", "Where", "are", "you?", "Here.",
    )  # fmt: skip
    assert placed.sentence_starts() == [4, 9, 12]
    assert placed.part((4, 9)) == "I have ten black windows!"
    assert placed.part((0, 4)) == "Good evening, Mr. Smith."
    assert placed.part((9, 13)) == "Where are you? Here."
    assert placed.part((3, 3)) == ""


def test_tags_stay_with_the_sentence_that_follows_them_and_at_the_end_with_the_last() -> None:
    placed = _placed("[laughter] Good day. [sigh] I see you. [cough]")
    assert placed.part((0, 2)) == "[laughter] Good day."
    assert placed.part((2, 5)) == "[sigh] I see you. [cough]"


@pytest.mark.parametrize(
    ("changes", "context", "expected"),
    [
        ([(6, 7)], 0.0, [Window((4, 9), (0,))]),
        ([(12, 13)], 0.0, [Window((12, 13), (0,))]),
        ([(6, 7), (10, 11)], 0.0, [Window((4, 9), (0,)), Window((9, 12), (1,))]),
        ([(5, 6), (7, 8)], 0.0, [Window((4, 9), (0, 1))]),
        ([(8, 10)], 0.0, [Window((4, 12), (0,))]),  # a change over the end of a sentence
        ([(4, 4)], 0.0, [Window((0, 4), (0,))]),  # an insertion belongs to the word before it
        ([(0, 0)], 0.0, [Window((0, 4), (0,))]),
        ([(13, 13)], 0.0, [Window((12, 13), (0,))]),
        ([(12, 13)], 1.5, [Window((9, 13), (0,))]),
        ([(10, 11)], 3.0, [Window((4, 12), (0,))]),
        ([(0, 1)], 3.0, [Window((0, 9), (0,))]),
        ([(0, 1), (10, 11)], 3.0, [Window((0, 12), (0, 1))]),  # windows that meet
        ([(0, 1)], 99.0, [Window((0, 13), (0,))]),
    ],
)
def test_windows_are_sentences_with_enough_context(
    changes: list[Range], context: float, expected: list[Window]
) -> None:
    assert windows(_placed(TEXT), _times(13), changes, context_seconds=context) == expected


def test_a_transcript_without_stops_is_cut_at_its_widest_gaps() -> None:
    text = " ".join(f"word{chr(97 + i % 26)}" for i in range(120))
    times = _times(120, gap_before={31: 0.6, 58: 0.8, 90: 0.5})
    (window,) = windows(_placed(text), times, [(40, 41)], context_seconds=0)
    assert window == Window((31, 58), (0,))


def test_a_text_without_words_has_one_empty_window() -> None:
    assert windows(_placed("[laughter]"), [], [(0, 0)], context_seconds=3) == [Window((0, 0), (0,))]


@pytest.mark.parametrize(
    ("words", "changes", "expected"),
    [
        ((4, 9), [((6, 7), (6, 7))], (4, 9)),
        ((4, 9), [((6, 7), (6, 9))], (4, 11)),
        ((4, 9), [((0, 1), (0, 3)), ((6, 7), (8, 8))], (6, 10)),
        ((0, 4), [((4, 4), (4, 6))], (0, 6)),  # inserted after the last word of the window
        ((4, 9), [((4, 4), (4, 6)), ((6, 7), (8, 9))], (6, 11)),
        ((0, 4), [((0, 0), (0, 2))], (0, 6)),
        ((4, 9), [((0, 0), (0, 2))], (6, 11)),
    ],
)
def test_the_new_words_of_a_window(words: Range, changes: list[tuple[Range, Range]], expected: Range) -> None:
    assert new_range(words, changes) == expected


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 3)), max_size=5), st.floats(0, 8))
def test_windows_hold_every_change_and_all_new_words(raw: list[tuple[int, int, int]], context: float) -> None:
    """The new text of the windows and the old words between them make up all new words."""
    changes, at, added = list[tuple[Range, Range]](), 0, 0
    for skip, old, new in raw:
        first = at + skip
        if first + old > 13 or (changes and skip == 0) or old + new == 0:
            continue
        changes.append(((first, first + old), (first + added, first + added + new)))
        at, added = first + old, added + new - old
    found = windows(_placed(TEXT), _times(13), [old for old, _ in changes], context_seconds=context)
    assert [number for window in found for number in window.changes] == list(range(len(changes)))
    last = 0
    for window in found:
        assert last <= window.words[0] < window.words[1] <= 13
        last = window.words[1]
        inside = [changes[number] for number in window.changes]
        assert all(window.words[0] <= old[0] and old[1] <= window.words[1] for old, _ in inside)
        first, end = new_range(window.words, changes)
        assert end - first == window.words[1] - window.words[0] + sum(
            new[1] - new[0] - (old[1] - old[0]) for old, new in inside
        )
        assert all(first <= new[0] and new[1] <= end for _, new in inside)
