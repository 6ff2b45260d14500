"""Our chunks: nothing lost, within the budget, cut at sentences first and never inside what belongs together."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import InputError
from omnivoice.text.boundaries import MAX_WORD_CHARS, SENTENCE, cut_ranks
from omnivoice.text.chunking import chunk_sentences
from omnivoice.text.duration import text_weight
from omnivoice.text.tags import BRACKETED

HARD = "Cost 3.14 at 10:30 on v1.2.3, see a.example.com now. Done."
NI, KYA, THUMB = "\u0928\u093f", "\u304d\u3083", "\U0001f44d\U0001f3fd"
UNITS = ["[laughter]", "[B EY1 S]", "3.14", "10:30", "www.x.org", NI, KYA, THUMB]
PIECES = [*UNITS, "word", "a", "Mr. ", "Dr. No. 5", "e.g. ", "U.S. ", " ", "  ", "\n", "\n\n", ". ", ", ", "! ", "? "]
PIECES += [
    "...",
    ".",
    ",",
    "(",
    ")",
    '"',
    "\u201d",
    "\u4f60\u597d",
    "\u3002",
    "\uff0c",
    "\u0964",
    "\u0301",
    "\u0e40\u0e01",
]
PIECES += ["\u2014", "\u2026", "z" * 120]
texts = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)


def solid(text: str) -> str:
    return re.sub(r"\s", "", text)


def is_one_word(chunk: str) -> bool:
    """Whether there is no place to cut: no blank outside brackets but before a mark, and not overlong."""
    return not re.search(r"\s(?![.,!?)\"\u201d\u3002\uff0c\u0964\u2014\u2026\u0301\s])", BRACKETED.sub("x", chunk))


@given(texts, st.floats(8, 300))
@settings(max_examples=500, deadline=None)
def test_nothing_is_lost_and_the_budget_holds(text: str, max_weight: float) -> None:
    chunks = chunk_sentences(text, max_weight=max_weight)
    assert solid("".join(chunks)) == solid(text)
    for chunk in chunks:
        assert chunk == chunk.strip() and chunk and "\n" not in chunk
        assert text_weight(chunk) <= max_weight + 1e-6 or is_one_word(chunk)


@given(texts, st.floats(8, 100))
@settings(max_examples=300, deadline=None)
def test_cuts_never_part_what_belongs_together(text: str, max_weight: float) -> None:
    chunks = chunk_sentences(text, max_weight=max_weight)
    if max(map(len, text.split()), default=0) <= MAX_WORD_CHARS:
        for unit in UNITS:
            assert sum(chunk.count(unit) for chunk in chunks) == " ".join(text.split()).count(unit)
    assert not any(chunk[0] in "\u0301\u093f" for chunk in chunks[1:])


@given(texts)
@settings(max_examples=100, deadline=None)
def test_a_text_that_fits_stays_whole(text: str) -> None:
    assert len(chunk_sentences(text, max_weight=1e9)) == bool(text.strip())


@pytest.mark.parametrize("max_weight", [5, 12, 16, 20, 25, 30, 40, 55, 70])
def test_numbers_versions_and_hosts_stay_whole(max_weight: float) -> None:
    chunks = chunk_sentences(HARD, max_weight=max_weight)
    for unit in ("3.14", "10:30", "v1.2.3,", "a.example.com", "Done."):
        assert any(unit in chunk for chunk in chunks), unit
    assert " ".join(chunks) == HARD


def test_sentences_come_before_commas() -> None:
    text = "One, two, three, four. Five, six, seven. Eight, nine."
    assert chunk_sentences(text, max_weight=21) == ["One, two, three, four.", "Five, six, seven.", "Eight, nine."]
    assert chunk_sentences(text, max_weight=17)[:2] == ["One, two,", "three, four."]


def test_abbreviations_and_initials_end_nothing() -> None:
    text = "Dr. J. R. R. Tolkien met Mr. Smith, e.g. at No. 5 in the U.S. on Jan. 3. He left."
    assert chunk_sentences(text, max_weight=text_weight(text) - 1) == [text.removesuffix(" He left."), "He left."]
    assert chunk_sentences("I said no. Then I left home.", max_weight=16) == ["I said no.", "Then I left home."]


@pytest.mark.parametrize("mark", ["...", "\u2026", "\u2026\u2026", "\u2026\u201d"])
@pytest.mark.parametrize(
    "second", ["Nobody came, and he left.", "\u00bfQui\u00e9n, pens\u00f3, viene?", "\u00c9l, solo."]
)
def test_an_ellipsis_before_a_capital_may_end_a_sentence(mark: str, second: str) -> None:
    first = f"He waited, and waited{mark}"
    text = f"{first} {second}"
    ranks = cut_ranks(text, {})
    assert ranks[len(first) + 1] == SENTENCE
    assert chunk_sentences(text, max_weight=text_weight(text) - 1) == [first, second]


@pytest.mark.parametrize("following", ["nobody came", "\u4f60\u597d", "3 came"])
def test_an_ellipsis_before_anything_else_ends_no_sentence(following: str) -> None:
    text = f"He waited... {following}."
    assert cut_ranks(text, {})[13] < SENTENCE


@pytest.mark.parametrize(
    ("text", "leading"),
    [
        ("สวัสดีชาวโลกวันนี้อากาศดีมากเราไปเที่ยวกันเถอะนะครับแต่ไม่มีเพื่อนๆทุกคนโกรธใจดี", "เแโใไ"),
        ("ສະບາຍດີຊາວໂລກມື້ນີ້ອາກາດດີຫຼາຍເຮົາໄປທ່ຽວກັນແຕ່ບໍ່ມີໃຜ", "ເແໂໃໄ"),
    ],
)
@pytest.mark.parametrize("max_weight", [36, 45, 60, 80])
def test_thai_and_lao_are_cut_before_a_leading_vowel(text: str, leading: str, max_weight: float) -> None:
    chunks = chunk_sentences(text * 4, max_weight=max_weight)
    assert "".join(chunks) == text * 4
    assert max(map(text_weight, chunks)) <= max_weight
    assert {chunk[0] for chunk in chunks[1:]} <= set(leading)


def test_list_numbers_stay_with_their_items() -> None:
    text = "1. First item\n2. Second item\n3. Third item"
    assert chunk_sentences(text, max_weight=15) == ["1. First item", "2. Second item", "3. Third item"]


def test_paragraphs_are_the_best_places() -> None:
    text = "Here is one sentence. Another one.\n\nA new paragraph. It has a second sentence, too."
    assert chunk_sentences(text, max_weight=50) == [part.replace("\n", " ") for part in text.split("\n\n")]


def test_a_wrapped_line_is_no_end() -> None:
    text = "This sentence was only\nwrapped here. And this is the next."
    assert chunk_sentences(text, max_weight=36) == ["This sentence was only wrapped here.", "And this is the next."]


def test_samples(samples: dict) -> None:
    for why, max_weight, text, expected in samples["chunked"]:
        assert chunk_sentences(text, max_weight=max_weight) == expected, why


def test_scripts_without_spaces_are_cut_within_the_budget(samples: dict) -> None:
    for name, text in samples["unspaced"].items():
        chunks = chunk_sentences(text * 9, max_weight=40)
        assert "".join(chunks) == text * 9, name
        assert max(map(text_weight, chunks)) <= 40 and min(map(text_weight, chunks)) > 15, name


@pytest.mark.parametrize("text", ["x" * 999, "word " * 200, "\u4e2d" * 999, "1" * 999, "no_stop-" * 125, "(" * 999])
def test_text_without_punctuation(text: str) -> None:
    chunks = chunk_sentences(text, max_weight=211.5)
    assert max(map(text_weight, chunks)) <= 211.5
    assert solid("".join(chunks)) == solid(text)
    assert min(map(text_weight, chunks)) > 0.7 * max(map(text_weight, chunks))  # even, no tiny rest


def test_no_tiny_rest() -> None:
    text = "This is a sentence of some length. " * 6 + "End."
    weights = [text_weight(chunk) for chunk in chunk_sentences(text, max_weight=90)]
    assert len(weights) == 3 and min(weights) > 45


def test_brackets_are_kept_whole_even_over_the_budget() -> None:
    text = "he said [a long remark, kept whole. yes] and went"
    assert "[a long remark, kept whole. yes]" in chunk_sentences(text, max_weight=10)


def test_marks_alone_make_no_chunk() -> None:
    text = "One sentence here. ... Another sentence there. \u2014 And so on it goes."
    assert all(any(char.isalpha() for char in chunk) for chunk in chunk_sentences(text, max_weight=21))


@pytest.mark.parametrize("max_weight", [0, -1, float("nan")])
def test_a_budget_is_positive(max_weight: float) -> None:
    with pytest.raises(InputError, match="max_weight must be > 0"):
        chunk_sentences("a", max_weight=max_weight)


def test_extreme_budgets() -> None:
    assert chunk_sentences("One two.", max_weight=0.01) == ["One", "two."]
    assert chunk_sentences("One two.", max_weight=float("inf")) == ["One two."]
    assert chunk_sentences(" \n ", max_weight=5) == []


@pytest.mark.parametrize("unit", ["a. ", "\u5b57\u3002", ".b", "Mr. ", "[a]", '"'])
def test_time_stays_bounded(unit: str) -> None:
    start = time.process_time()
    chunk_sentences(unit * (50_000 // len(unit)), max_weight=211.5)
    assert time.process_time() - start < 10


def test_recorded_long_texts_keep_their_marks(asset: Callable) -> None:
    for text, *_ in asset("chunks.json"):
        assert solid("".join(chunk_sentences(text, max_weight=20))) == solid(text)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One two three four. Five six seven eight. Nine ten. " * 3, "One two three four."),
        (
            "Oh. No. One two three four. Five six seven eight nine.",
            "Oh. No. One two three four.",
        ),  # at least the weight
        ("Dr. Smith met Mr. Jones today. They talked for an hour.", "Dr. Smith met Mr. Jones today."),
        ("One two three four\n\nFive six seven eight nine ten.", "One two three four"),  # a line ends a sentence
        (
            "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u6211\u4eec\u51fa\u53bb\u8d70\u8d70\u5427\u3002",
            "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
        ),
    ],
)
def test_the_first_chunk_ends_with_the_first_sentence_that_is_long_enough(text: str, first: str) -> None:
    chunks = chunk_sentences(text, max_weight=400, first_weight=12)
    assert chunks[0] == first
    assert " ".join(chunks).split() == text.split() or "".join(chunks) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One.",
        "One two three four five six, seven eight nine ten, eleven twelve",  # one sentence
        "One two three four five. Six.",  # too little is left
    ],
)
def test_where_no_sentence_is_long_enough_the_first_chunk_is_as_without(text: str) -> None:
    assert chunk_sentences(text, max_weight=400, first_weight=12) == chunk_sentences(text, max_weight=400)


@settings(deadline=None)
@given(texts, st.floats(1, 200), st.floats(0.1, 100))
def test_with_a_short_first_chunk_nothing_is_lost(text: str, most: float, first: float) -> None:
    plain = chunk_sentences(text, max_weight=most)
    early = chunk_sentences(text, max_weight=most, first_weight=first)
    assert "".join("".join(early).split()) == "".join("".join(plain).split())
    assert all(chunk == chunk.strip() and chunk for chunk in early)
