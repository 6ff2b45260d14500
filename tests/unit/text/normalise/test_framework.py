"""Control spans, languages of the parts, and the map to the original."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import InputError
from omnivoice.text.normalise import Change, normalise, protected_spans

SPANS = (
    "[laughter]",
    "[LAUGH]",
    "[question_en]",
    "[pause]",
    "[pause 1.5s]",
    "[PAUSE 300 ms]",
    "[pause soon 3]",
    '<break time="1.5s"/>',
    "<break time='500ms'></break>",
    "[B EY1 S]",
    "[b ey1 s]",
    "打ZHE2出",
    " NI3HAO3好",
    " KOU4 ",
    "{voice speed=1.1 seed=3}",
    "{voice language=de}",
    "<prosody rate='80%'>",
    "</h1>",
    "&#8217;",
    "&frac12;",
    "<|speaker_3|>",
    "<!-- 5 & 6 -->",
)


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("language", ["en", "zh", "de", None])
def test_a_control_span_stays(span: str, language: str | None) -> None:
    for text in (span, f"it costs 5 {span} 6 and", f"a{span}b 7", f"5{span}6"):
        assert span in normalise(text, language).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Alice 2: I have 2.", "Alice 2: I have two."),
        ("[Guard 3]: I have 2.", "[Guard 3]: I have two."),
        ("[Alice]: 1\n[Bob 2]: 3", "[Alice]: one\n[Bob 2]: three"),
        ("Speaker A: 1", "Speaker A: one"),
        ("Dr. Smith: 1 of 2", "Dr. Smith: one of two"),
        ("Old Man 1：  4", "Old Man 1：  four"),
        ("Chapter 4: The Return", "Chapter four: The Return"),
        ("At 3: leave", "At three: leave"),
        ("we need 2: a and b", "we need two: a and b"),
    ],
)
def test_speaker_labels(text: str, expected: str) -> None:
    assert normalise(text, "en").text == expected


def test_the_tokens_of_a_model_stay() -> None:
    assert normalise("<s2> 5 S3X 6", "en", tokens=["S3X", "<s2>", ""]).text == "<s2> five S3X six"


def test_protected_spans_are_merged_and_in_order() -> None:
    text = "5 [laughter] {voice speed=2} x"
    assert protected_spans(text, ["[laughter] {voice"]) == [(2, 28)]
    assert protected_spans("nothing 5", ()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I have 3 dogs.", "I have three dogs."),
        ("3", "three"),
        ("He said 你好 3 times", "He said 你好 three times"),
        ("5 км", "5 км"),
        ("5 км, and she ran for 6 more", "5 км, and she ran for six more"),
    ],
)
def test_without_a_language_the_script_decides(text: str, expected: str) -> None:
    assert normalise(text, None).text == expected


def test_a_script_without_a_language_is_named() -> None:
    assert normalise("5 км", None).warnings == (
        "numbers stay as they are in a text whose language is not given: set the language",
    )
    assert normalise("5 km", None).warnings == ()


def test_changes_and_origins() -> None:
    result = normalise("a 21 b -3.", "en")
    assert result.text == "a twenty-one b minus three."
    assert result.changes == (Change(2, 4, "21", "twenty-one"), Change(7, 9, "-3", "minus three"))
    assert [result.origin(index) for index in (0, 1, 2, 11, 12, 13, 15, 25, 26, 27)] == [0, 1, 2, 2, 4, 5, 7, 7, 9, 10]


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="klingonese"):
        normalise("5", "klingonese")


@given(st.lists(st.one_of(st.sampled_from(SPANS), st.text(max_size=12)), max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_text_keeps_its_control_spans_and_its_map(pieces: list[str]) -> None:
    text = " ".join(pieces)
    result = normalise(text, "en")
    spans = [text[start:end] for start, end in protected_spans(text)]
    place = 0
    for span in spans:
        place = result.text.index(span, place) + len(span)
    assert result.origin(len(result.text)) == len(text)
    for start, end in protected_spans(text):
        assert text[start:end] in result.text
    rebuilt, end = [], 0
    for change in result.changes:
        assert text[change.start : change.end] == change.original
        rebuilt += [text[end : change.start], change.spoken]
        end = change.end
    assert "".join([*rebuilt, text[end:]]) == result.text
