"""Cleaning: identity on well-formed text, the stated repair on every defect, an error when nothing is left."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnivoice.errors import TextError
from omnivoice.text.characters import end_punctuation, is_spoken
from omnivoice.text.clean import join_lines, prompt_text, speakable, speakable_lines

PIECES = ["a", "B ", "7", "\n", "\r\n", " ", "\t", "<|text_end|>", "<|", "|>", "<", "_", "__", "!", "-", "=", "[", "]"]
PIECES += ["laugh", "\N{COMBINING ACUTE ACCENT}", "中", "。", "あ", "ก", "😀", "\N{IDEOGRAPHIC SPACE}", "“", "ـ"]
messy = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def test_recorded_texts_need_no_repair(rows: list[dict]) -> None:
    assert len(rows) > 80
    texts = [row["text"].replace("\N{IDEOGRAPHIC SPACE}", " ") for row in rows]
    assert [text for text in texts if speakable(text) != text] == []


def test_repairs(samples: dict) -> None:
    wrong = [(why, speakable(text), good) for why, text, good in samples["cleaned"] if speakable(text) != good]
    assert wrong == []


def test_nothing_to_speak_is_an_error(samples: dict) -> None:
    for text in samples["unspeakable"]:
        with pytest.raises(TextError, match="nothing to speak: the text has no letter and no number"):
            speakable(text)


def test_a_tag_or_a_number_alone_is_speakable() -> None:
    assert speakable("[laughter]") == "[laughter]"
    assert speakable("5") == "5"


def test_line_breaks_survive_for_the_chunker() -> None:
    assert speakable_lines(" a \r\n b\n\n\n\nc\n---\nd\n") == "a\nb\n\nc\nd"
    assert join_lines("a\nb\n\nc\nd") == "a b c d"


@pytest.mark.parametrize("mark", ["\N{COMBINING ACUTE ACCENT}", "\N{ARABIC TATWEEL}"])
def test_stacks_of_marks_are_cut_short(mark: str) -> None:
    assert speakable(f"e{mark * 500} f{mark * 21}") == f"e{mark * 20} f{mark * 20}"
    assert speakable(f"e{mark * 20} f") == f"e{mark * 20} f"


def test_prompt_text(samples: dict) -> None:
    wrong = [(why, prompt_text(text), good) for why, text, good in samples["prompted"] if prompt_text(text) != good]
    assert wrong == []


def test_prompt_text_puts_the_reference_first() -> None:
    assert prompt_text("  now. ", " Then.\n") == "Then. now."
    assert prompt_text("now.", " ") == "now."


def test_end_punctuation(samples: dict) -> None:
    wrong = [(text, end_punctuation(text), good) for text, good in samples["ended"] if end_punctuation(text) != good]
    assert wrong == []


@given(messy)
@example("a[\nlaugh]")
@settings(max_examples=300, deadline=None)
def test_cleaning_is_total_idempotent_and_keeps_what_is_spoken(text: str) -> None:
    try:
        once = speakable(text)
    except TextError:
        return
    assert speakable(once) == once
    assert not set("\n\r<>|") & set(once)
    kept, given_letters = ("".join(filter(is_spoken, each)) for each in (once, re.sub(r"<\|\w*\|>", "", text)))
    assert kept.replace("laughter", "laugh") == given_letters


@pytest.mark.parametrize("unit", ["a ", "<|", "_", "[laugh", "a\n", "\N{IDEOGRAPHIC SPACE}", " ", "!a", "中 "])
def test_time_is_linear(unit: str) -> None:
    text = "a" + unit * (200_000 // len(unit)) + "a"
    start = time.process_time()
    prompt_text(speakable(text))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("text", ["Wait......", "What?!?! No!!!!", "…… so", "Hm...... yes", "a -- b --- c"])
def test_runs_that_people_write_are_left_alone(text: str) -> None:
    assert speakable(text) == text
