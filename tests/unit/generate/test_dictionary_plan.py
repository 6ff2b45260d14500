"""A dictionary in a plan: before normalisation and cleaning, named in the notes, unused entries told once."""

from __future__ import annotations

import pytest

from omnivoice.errors import InputError
from omnivoice.generate.plan import make_plan
from omnivoice.generate.written import unused_entries
from omnivoice.text.dictionary_reader import parse_dictionary
from omnivoice.text.own_tokens import OwnToken, OwnTokens
from omnivoice.text.rules import PUBLISHED, TextRules
from omnivoice.types import Change, GenerationPlan, GenerationRequest

WORDS = parse_dictionary("nginx = engine 4\nAB = Al\nma = MA1\nlast = the final word")


def plan_of(text: str, rules: TextRules = PUBLISHED, **options: object) -> GenerationPlan:
    return make_plan(GenerationRequest(text, seed=0, dictionary=WORDS, **options), rules)


@pytest.mark.parametrize("normalise", [False, True])
def test_places_are_those_of_the_original(normalise: bool) -> None:
    plan = plan_of("AB paid $5 to nginx 5 times.\u200b Ma", normalise=normalise, language="en")
    words = ("five dollars", "five") if normalise else ("$5", "5")
    assert plan.chunks[0].text == "Al paid {} to engine 4 {} times. MA1".format(*words)
    assert plan.respelled == (
        Change(0, 2, "AB", "Al"), Change(14, 19, "nginx", "engine 4"), Change(29, 31, "Ma", "MA1"),
    )  # fmt: skip
    normalised = (Change(8, 10, "$5", "five dollars"), Change(20, 21, "5", "five"))
    assert plan.normalised == (normalised if normalise else ())
    notes = (
        "dictionary: “AB” → “Al”, “nginx” → “engine 4”, “Ma” → “MA1”",
        "normalised: “$5” → “five dollars”, “5” → “five”",
    )
    assert plan.notes == notes[: 1 + normalise]


def test_length_is_that_of_the_replacement() -> None:
    short, long = make_plan(GenerationRequest("the last.", seed=0)), plan_of("the last.")
    assert long.chunks[0].frames == make_plan(GenerationRequest("the the final word.", seed=0)).chunks[0].frames
    assert long.chunks[0].frames > short.chunks[0].frames


def test_own_tokens_and_tags_stay() -> None:
    rules = TextRules(OwnTokens((OwnToken("<|nginx|>", 430),)), tags=("ma",))
    assert plan_of("nginx <|nginx|> ma [ma]", rules).chunks[0].text == "engine 4 <|nginx|> MA1 [ma]"


def test_a_text_as_written_takes_the_dictionary_too() -> None:
    assert plan_of("nginx *x*", text_as_written=True).chunks[0].text == "engine 4 *x*"


def test_unused_entries_are_named_once_for_all_texts() -> None:
    plans = [plan_of("nginx"), plan_of("AB")]
    assert unused_entries(plans) == ("dictionary: not in the text are 2 of 4 entries: ma, last",)
    assert unused_entries([*plans, plan_of("ma last")]) == ()
    assert unused_entries([make_plan(GenerationRequest("a", seed=0))]) == ()


def test_other_values_are_refused() -> None:
    with pytest.raises(InputError, match="dictionary must be a Dictionary, got dict; make one with parse_dictionary"):
        make_plan(GenerationRequest("a", dictionary={"a": "b"}))
