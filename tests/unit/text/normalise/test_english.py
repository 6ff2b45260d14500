"""English: a table of texts and what is said for them, and what holds for any text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnivoice.text.normalise import normalise, protected_spans

ASSETS = Path(__file__).resolve().parents[3] / "assets" / "text"
ROWS = [line.split("\t") for line in (ASSETS / "english.tsv").read_text(encoding="utf-8").splitlines()]
SPANS = ["[laughter]", "[pause 1.5s]", '<break time="500ms"/>', "[B EY1 S]", "{voice speed=1.1 seed=3}", "&#8217;"]
WORDS = sorted({word for _, text, _ in ROWS for word in text.split()})
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(WORDS),
    st.text("0123456789.,:-–−/⁄$€¢%'’\"″# +&()[]^*=×<>~@IVXABabcdmxkKMs°℃²⁻⁸₂½¾√№\n\u00a0", max_size=6),
)
TEXTS = st.lists(PIECES, max_size=9).flatmap(
    lambda pieces: st.lists(
        st.sampled_from([" ", " ", " ", "", "-", ". "]), min_size=len(pieces), max_size=len(pieces)
    ).map(lambda gaps: "".join(piece + gap for piece, gap in zip(pieces, gaps)))
)


@pytest.mark.parametrize(("kind", "text", "spoken"), ROWS, ids=[text for _, text, _ in ROWS])
def test_table(kind: str, text: str, spoken: str) -> None:
    result = normalise(text, "en")
    assert result.text == spoken
    assert (result.changes == ()) is (text == spoken)


def test_the_table_has_every_kind() -> None:
    kinds = [kind for kind, _, _ in ROWS]
    assert len(ROWS) >= 300 and min(kinds.count(kind) for kind in kinds) >= 4
    assert {"cardinal", "ordinal", "year", "decade", "money", "date", "time", "phone", "unit", "roman"} < set(kinds)


@given(TEXTS)
@example("word-2 = 3")
@example("8 3⁄4 in")
@example("½² & ° 5")
@settings(max_examples=250, deadline=None)
def test_a_result_stays_as_it_is(text: str) -> None:
    spoken = normalise(text, "en").text
    assert normalise(spoken, "en").text == spoken


@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_the_changes_make_the_result(text: str) -> None:
    result = normalise(text, "en")
    parts, end = [], 0
    for change in result.changes:
        assert end <= change.start < change.end and text[change.start : change.end] == change.original
        parts += [text[end : change.start], change.spoken]
        end = change.end
    assert "".join([*parts, text[end:]]) == result.text
    assert [result.origin(len(result.text)), result.origin(0)] == [len(text), 0]


@given(st.text(max_size=80), st.sampled_from(["en", None]))
@settings(max_examples=300, deadline=None)
def test_any_text_at_all(text: str, language: str | None) -> None:
    assert isinstance(normalise(text, language).text, str)


@given(st.lists(st.one_of(TEXTS, st.sampled_from(SPANS)), max_size=6))
@settings(max_examples=150, deadline=None)
def test_control_spans_stay_byte_for_byte(pieces: list[str]) -> None:
    text = " ".join(pieces)
    spoken = normalise(text, "en").text
    kept = [text[start:end] for start, end in protected_spans(text)]
    assert all(spoken.count(span) >= kept.count(span) for span in kept)


@given(st.from_regex(r"(?:[a-z]{2,9}[ ,.!?;]?[ \n]?){1,12}", fullmatch=True))
@settings(max_examples=200, deadline=None)
def test_words_alone_stay(text: str) -> None:
    abbreviations = ("vs", "etc", "aka", "eg", "ie", "max", "min", "est", "ext", "tel", "temp", "avg", "incl", "excl")
    words = text.replace(".", " ").replace("\n", " ").split()
    if not any(word.strip(",!?;") in abbreviations or len(word) < 5 for word in words) and "." not in text:
        assert normalise(text, "en").text == text


@pytest.mark.parametrize("digits", [11, 18, 19, 20, 36, 37, 40, 4_000])
def test_a_long_number_is_read_digit_by_digit(digits: int) -> None:
    """Nobody says quintillions, unless the number is round; and no number of digits takes long."""
    spoken = " ".join(["nine"] * digits)
    assert normalise(f"It is {'9' * digits} here.", "en").text == f"It is {spoken} here."
    assert normalise(f"0.{'9' * digits}", "en").text == f"zero point {spoken}"


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("1e999", "one times ten to the power of nine hundred ninety-nine"),
        ("99/99", "ninety-nine out of ninety-nine"),
        ("99/99/9999", "ninety-nine/ninety-nine/nine thousand nine hundred ninety-nine"),
        ("1/" * 8 + "1", "/".join(["one"] * 9)),
        ("1" + "0" * 18, "one quintillion"),
    ],
)
def test_numbers_that_are_no_dates_and_too_large(text: str, spoken: str) -> None:
    assert normalise(text, "en").text == spoken


@pytest.mark.parametrize(
    "unit", ["1", "1 ", "1,", "1.", "$", "1/", "1-", "Dr. ", "I ", "[", "a@", "a.", "1:", "'", "°", "IV "]
)
def test_long_runs_take_linear_time(unit: str) -> None:
    """A pattern that backtracks without bound would not end here."""
    normalise(unit * (4_000 // len(unit)), "en")
