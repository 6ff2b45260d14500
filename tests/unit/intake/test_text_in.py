"""Text from outside, over every code point there is."""

from __future__ import annotations

import random
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import TextError
from omnivoice.intake.text_in import clean_text

BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
ZERO_WIDTH = {0x00AD, 0x200B, *range(0x2060, 0x2066), *range(0x206A, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC)}
TAGS = set(range(0xE0000, 0xE0080))
CONTROLS = {code for code in range(0xA0) if unicodedata.category(chr(code)) == "Cc"} - {0x09, 0x0A, 0x0D}
BECOME_LINES, BECOME_SPACES = {0x0B, 0x0C, 0x85}, set(range(0x1C, 0x20))
JOINERS = {0x180E, 0x200C, 0x200D}
DROPPED = (BIDI | ZERO_WIDTH | TAGS | CONTROLS | set(range(0xD800, 0xE000))) - BECOME_LINES - BECOME_SPACES


def test_every_code_point() -> None:
    dropped, changed = set(), {}
    for code in range(sys.maxunicode + 1):
        cleaned = clean_text(f"a{chr(code)}b")
        if cleaned == "ab":
            dropped.add(code)
        elif cleaned != f"a{chr(code)}b":
            changed[code] = cleaned[1:-1]
    assert dropped == DROPPED
    assert changed == {**dict.fromkeys(BECOME_LINES, "\n"), **dict.fromkeys(BECOME_SPACES, " ")}


def test_many_code_points_at_once_encode_and_hold_no_control() -> None:
    points = random.Random(1).sample(range(sys.maxunicode + 1), 200_000)
    cleaned = clean_text("".join(map(chr, [*DROPPED, *points[len(DROPPED) :]])))
    cleaned.encode("utf-8")
    assert clean_text(cleaned) == cleaned
    assert not set(map(ord, cleaned)) & (DROPPED | CONTROLS)


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(codec=None), max_size=50))
def test_any_text_is_cleaned_once_and_for_all(text: str) -> None:
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned
    assert len(cleaned) <= len(text)
    cleaned.encode("utf-8")


@pytest.mark.parametrize("joiner", sorted(JOINERS))
def test_joiners_stay_between_letters_and_marks_only(joiner: int) -> None:
    j = chr(joiner)
    persian, sinhala = f"\u0645\u06cc{j}\u062e\u0648\u0627\u0647\u0645", f"\u0d9a\u0dca{j}\u0dba"
    assert clean_text(persian) == persian and clean_text(sinhala) == sinhala
    assert clean_text(f"{j}a {j}b{j} 1{j}2 c{j}") == "a b 12 c"
    assert clean_text(f"\u0645{j}{j}\u200b{j}\u062e") == f"\u0645{j}\u062e"
    assert clean_text(f"\U0001f468{j}\U0001f469") == "\U0001f468\U0001f469"


def test_ordinary_text_of_many_scripts_is_untouched() -> None:
    text = (
        "Don\u2019t [laughter] \u4f60\u597d\u3002 \u0928\u092e\u0938\u094d\u0924\u0947 "
        "\u0645\u0631\u062d\u0628\u0627 \u0431\u043e\u0301\u043b\u044c\u0448\u0435\tx\r\ny \u3000\xa0z \U0001f600\ufe0f"
    )
    assert clean_text(text) == text


def test_words_never_run_together() -> None:
    assert clean_text("one\x0btwo\x0cthree\x85four\x1cfive\x1fsix") == "one\ntwo\nthree\nfour five six"


def test_a_null_an_escape_a_bom_and_an_override() -> None:
    assert clean_text("\ufeffa\0b\x1b[31mc\u202ed\u200be\ud800f\udc00g") == "ab[31mcdefg"


@pytest.mark.parametrize("value", [None, 1, 1.5, b"x", ["a"], {"a": 1}, True])
def test_only_strings_are_texts(value: object) -> None:
    with pytest.raises(TextError, match=r"^text must be a string, got "):
        clean_text(value)


def test_length_is_checked_first_and_fast() -> None:
    huge = "\u200d\ud800" * 5_000_000
    start = time.process_time()
    with pytest.raises(TextError, match=r"^text must be at most 200000 characters, got 10000000: split it"):
        clean_text(huge)
    assert time.process_time() - start < 0.2  # to look at each character takes seconds
    with pytest.raises(TextError, match=r"^name must be at most 3 characters, got 4"):
        clean_text("abcd", name="name", limit=3)


@pytest.mark.parametrize("pattern", ["\u200d", "a\u200d", "\u200db", "\ud800", "\x0b", "\u202e\u200d", "x"])
def test_time_is_linear(pattern: str) -> None:
    """Eight times the text may take eight times as long, or three times that, but not sixty-four times."""

    def seconds(count: int) -> float:
        start = time.process_time()
        clean_text((pattern * count)[:count])
        return time.process_time() - start

    assert min(seconds(200_000) for _ in range(2)) < 24 * max(seconds(25_000) for _ in range(2))
