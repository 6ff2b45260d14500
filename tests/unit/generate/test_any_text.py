"""Any text at all, through every step from the request to the ids that the model reads: what holds for all of them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import InputError, OmniVoiceError
from omnivoice.generate.plan import make_plan
from omnivoice.intake.text_in import clean_text
from omnivoice.productions.timings import TimedLine, TimedWord, parse_timings, timings_json
from omnivoice.text.design import parse_design, render_design
from omnivoice.text.languages import language_id
from omnivoice.text.line_ends import join_cut_words
from omnivoice.text.markup import without_markup
from omnivoice.text.prompt import build_prompt
from omnivoice.text.removed import Removed
from omnivoice.text.tags import canonical_tags, nonverbal_tags, with_own_spelling
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.types import GenerationRequest
from tests.fuzz.messages import UNSEEN
from tests.fuzz.strings import PIECES, PLAIN

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "text"
TEXTS = st.one_of(
    st.text(st.characters(codec=None), max_size=30), st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
)
PLAIN_TEXTS = st.lists(st.sampled_from(PLAIN), min_size=1, max_size=40).map("".join)
SETTINGS = settings(max_examples=150, deadline=None, derandomize=True)


@pytest.fixture(scope="module", params=["tokenizer.json", "small_tokenizer.json"])
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    return TextTokenizer.from_json((ASSETS / request.param).read_bytes())


def letters(text: str) -> str:
    plain = unicodedata.normalize("NFC", text).replace("\N{ARABIC TATWEEL}", "")
    return "".join(char for char in plain if unicodedata.category(char)[0] in "LN")


@SETTINGS
@given(text=TEXTS, normalise=st.booleans(), chunking=st.sampled_from(["sentences", "upstream"]))
def test_it_is_refused_in_one_line_or_planned_without_what_cannot_be_seen(
    tokenizer: TextTokenizer, text: str, normalise: bool, chunking: str
) -> None:
    """No text puts a control token into a prompt, and none can break a line of the log."""
    try:
        plan = make_plan(GenerationRequest(text, seed=1, normalise=normalise, chunking=chunking))
    except InputError as error:
        assert not UNSEEN.search(str(error))
        return
    assert not UNSEEN.search("".join([*plan.warnings, *plan.notes, *(chunk.text for chunk in plan.chunks)]))
    for chunk in plan.chunks:
        ids = build_prompt(tokenizer, text=chunk.text, reference_text=text.encode("utf-8", "replace").decode())
        added = [token for token in ids if token in tokenizer.special_ids]
        layout = ("lang_start", "lang_end", "instruct_start", "instruct_end", "text_start", "text_end")
        assert added == [tokenizer.special(name) for name in layout]


@SETTINGS
@given(text=PLAIN_TEXTS, chunking=st.sampled_from(["sentences", "upstream"]), seconds=st.sampled_from([0, 1]))
def test_every_letter_and_number_is_in_a_chunk(text: str, chunking: str, seconds: int) -> None:
    lengths = {"chunk_seconds": 3, "chunk_threshold_seconds": 3, "first_seconds": seconds, "chunking": chunking}
    try:
        plan = make_plan(GenerationRequest(text, seed=1, **lengths))
    except InputError:
        assert not letters(text) or chunking == "upstream"
        return
    assert letters(" ".join(chunk.text for chunk in plan.chunks)) == letters(clean_text(text))


@SETTINGS
@given(text=TEXTS, name=st.sampled_from([*nonverbal_tags(), "Happy", "a b"]))
def test_steps_of_cleaning_lose_nothing_and_settle(text: str, name: str) -> None:
    assert letters(join_cut_words(text)) == letters(text)
    assert without_markup(once := without_markup(text, Removed()).replace("&", "+"), Removed()).count(
        "<"
    ) <= once.count("<")
    assert canonical_tags(once := canonical_tags(text)) == once
    assert with_own_spelling(once := with_own_spelling(text, [name]), [name]) == once
    spelled = f"x [{name.upper()}] y"
    assert with_own_spelling(spelled, [name]) == f"x [{name}] y"


@SETTINGS
@given(text=TEXTS)
def test_a_language_or_a_design_is_understood_or_refused_in_one_line(text: str) -> None:
    for read in (language_id, lambda given: render_design(design, text) if (design := parse_design(given)) else ""):
        try:
            found = read(text)
        except OmniVoiceError as error:
            assert not UNSEEN.search(str(error))
        else:
            assert found is None or not UNSEEN.search(found)


TIMES = st.floats(0, 86_400).map(lambda seconds: round(seconds, 6))
SPANS = st.tuples(TIMES, TIMES).map(sorted)
TIMED_WORDS = st.builds(lambda word, span: TimedWord(word, *span), PLAIN_TEXTS.map(clean_text), SPANS)


@SETTINGS
@given(
    st.lists(
        st.builds(
            lambda text, span, speaker, words: TimedLine(text, *span, speaker, tuple(words)),
            *(PLAIN_TEXTS.map(clean_text), SPANS, st.none() | PLAIN_TEXTS.map(clean_text)),
            st.lists(TIMED_WORDS, max_size=3),
        ),
        max_size=3,
    )
)
def test_timings_that_are_written_are_read_again(lines: list[TimedLine]) -> None:
    assert parse_timings(timings_json(lines, 1.0)) == lines
