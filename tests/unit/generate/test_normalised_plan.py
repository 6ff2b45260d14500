"""Normalisation in a plan: on request only, named in the notes, and with the model's own tokens kept."""

from __future__ import annotations

import argparse

import pytest

from omnivoice.commands.speech_options import add_speech_options, base_request
from omnivoice.errors import InputError, TextError
from omnivoice.generate import written
from omnivoice.generate.plan import make_plan
from omnivoice.text.normalise import apply, rules
from omnivoice.text.own_tokens import OwnToken, OwnTokens
from omnivoice.text.rules import PUBLISHED, TextRules
from omnivoice.types import Change, GenerationPlan, GenerationRequest

TEXT = "He paid $5 on 12/31/2024 [pause 0.5s] and 3 [laughter]."


def plan_of(text: str, rules: TextRules = PUBLISHED, **options: object) -> GenerationPlan:
    return make_plan(GenerationRequest(text, seed=0, **options), rules)


@pytest.mark.parametrize("text", [TEXT, "Dr. Lee, 5 km, #7", "二月 5 日 50%", "  2  "])
def test_off_leaves_the_text(text: str) -> None:
    plan = plan_of(text, language="en")
    assert plan.normalised == () and plan.notes == ()
    digits = [char for char in text if char.isdigit() and "pause" not in text]
    assert [char for chunk in plan.chunks for char in chunk.text if char.isdigit()] == digits or "pause" in text


@pytest.mark.parametrize("language", ["en", "English", None])
def test_on_speaks_words_and_names_them(language: str | None) -> None:
    plan = plan_of(TEXT, language=language, normalise=True)
    assert [chunk.text for chunk in plan.chunks] == [
        "He paid five dollars on December thirty-first, twenty twenty-four",
        "and three [laughter].",
    ]
    assert plan.chunks[1].pause_samples == 12_000
    assert plan.normalised[0] == Change(8, 10, "$5", "five dollars")
    assert plan.notes == (
        "normalised: “$5” → “five dollars”, “12/31/2024” → “December thirty-first, twenty twenty-four”, “3” → “three”",
    )


def test_ten_changes_are_named_and_the_others_counted() -> None:
    plan = plan_of(" ".join(f"{number} a" for number in range(1, 15)) + " 1 a", language="en", normalise=True)
    (note,) = plan.notes
    assert note.count("→") == 10 and note.endswith("“10” → “ten” and 4 more")
    assert len(plan.normalised) == 15


def test_chinese() -> None:
    assert plan_of("我有3个苹果。", normalise=True).chunks[0].text == "我有三个苹果。"


def test_a_language_without_rules_is_named() -> None:
    plan = plan_of("Nina vitabu 5.", language="sw", normalise=True)
    assert plan.chunks[0].text == "Nina vitabu 5." and plan.notes == ()
    assert any("numbers stay as they are in sw" in warning for warning in plan.warnings)


def test_own_tokens_tags_and_languages_of_a_model_stay() -> None:
    own = OwnTokens((OwnToken("<|dur_3|>", 430), OwnToken("[s5]", 431)))
    rules = TextRules(own, tags=("style 2",), languages=("la",))
    spoken = plan_of("a <|dur_3|> 5 [s5] 6 [style 2]", rules, language="en", normalise=True).chunks[0].text
    assert spoken == "a <|dur_3|> five [s5] six [style 2]"
    assert plan_of("V 5", rules, language="la", normalise=True).chunks[0].text == "V 5"


def test_values_that_are_refused() -> None:
    with pytest.raises(InputError, match="normalise must be True or False, got 'yes'"):
        plan_of("a", normalise="yes")
    with pytest.raises(InputError, match="text_as_written and normalise contradict each other: leave out one"):
        plan_of("a", normalise=True, text_as_written=True)


@pytest.mark.parametrize(("arguments", "expected"), [([], False), (["--normalise"], True)])
def test_the_option_of_the_command_line(arguments: list[str], expected: bool) -> None:
    parser = argparse.ArgumentParser()
    add_speech_options(parser)
    assert base_request(parser.parse_args(arguments), "a").normalise is expected


def test_a_text_that_becomes_too_long_is_refused_after_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds, once = list[int](), apply._once
    for module in (apply, rules, written):
        monkeypatch.setattr(module, "MAX_RUN_CHARS", 1_000)
    monkeypatch.setattr(apply, "_once", lambda text, *more: rounds.append(len(text)) or once(text, *more))
    text = "1234567890, " * 20
    with pytest.raises(
        TextError, match=r"the text with its numbers as words must be at most 1000 characters, got 10\d\d"
    ):
        make_plan(GenerationRequest(text, language="en", normalise=True))
    assert rounds == [len(text)]


@pytest.mark.parametrize(
    ("text", "speed", "fits"),
    [
        ("\u4eca\u5929" * 100_000, None, False),
        ("\u4eca\u5929" * 100_000, 0.25, False),
        ("\u4eca\u5929" * 60_000, 4.0, True),
        ("a" * 200_000, None, True),
        ("a" * 200_000, 0.25, True),
        ("<b>\u4eca</b>" * 20_000, None, True),
        ("1234567890, " * 16_000, None, False),
        ("a [pause 0.1s] " * 13_000, None, True),
    ],
)
def test_a_text_whose_letters_and_digits_take_too_long_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, text: str, speed: float | None, fits: bool
) -> None:
    monkeypatch.setattr("omnivoice.generate.plan.written_text", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError if fits else TextError, match="zero" if fits else r"would take 1\d\.\d hours"):
        make_plan(GenerationRequest(text, normalise=True, speed=speed))
