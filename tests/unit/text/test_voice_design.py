"""Voice design: upstream's strings for everything it accepts, and an error that helps for everything else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnivoice.errors import InputError
from omnivoice.text.design import design_from_attributes, design_options, parse_design, render_design
from omnivoice.voice import VoiceDesign

HAN = "中"


def rendered(instruct: str, text: str) -> str | None:
    try:
        design = parse_design(instruct)
    except InputError:
        return None
    return render_design(design, text) if design else None


def test_strings_equal_upstream(asset: Callable) -> None:
    cases = asset("designs.json")
    accepted = [case for case in cases if case[2] is not None]
    assert len(cases) == 200 and len(accepted) > 20
    for instruct, chinese, expected in accepted:
        assert rendered(instruct, HAN if chinese else "x") == expected, instruct


def test_what_upstream_refuses_is_refused(asset: Callable) -> None:
    """But for the same attribute given twice, which is no conflict."""
    for instruct, _, expected in asset("designs.json"):
        if expected is None and (design := rendered(instruct, "x")) is not None:
            assert len(instruct.replace("，", ",").split(",")) > len(parse_design(design).attributes), instruct


def test_samples(samples: dict) -> None:
    for instruct, text, expected in samples["designs"]:
        assert rendered(instruct, text) == expected, instruct
    for instruct in samples["refused_designs"]:
        with pytest.raises(InputError, match="voice design"):
            parse_design(instruct)


def test_order_is_the_users() -> None:
    assert parse_design("high pitch, FEMALE").attributes == ("high pitch", "female")


@pytest.mark.parametrize("text", [None, "", "  ", " , "])
def test_empty_is_no_design(text: str | None) -> None:
    assert parse_design(text) is None


@pytest.mark.parametrize(
    ("instruct", "message"),
    [
        ("warm narrator", r"does not know 'warm narrator'; the menus of Voice Design Attributes"),
        ("britsh accent", r"\(did you mean british accent\?\)"),
        ("male, female", "takes one gender, got male and female: remove one"),
        ("whisper, elderly, child", "takes one age, got elderly and child"),
        ("british accent, henan dialect", r"takes an accent \(English\) or a dialect \(Chinese\)"),
        (", ".join(f"w{i}x" for i in range(13)), r"'w9x' and 3 more; the menus"),
        ("x" * 501, "at most 500 characters, got 501 characters"),
    ],
)
def test_refusals_say_what_to_do(instruct: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_design(instruct)


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="must be a string of at most 500 characters, got dict"):
        parse_design({})


def test_attributes() -> None:
    design = design_from_attributes(gender="Female", age="auto", pitch="very low", accent="british", dialect=None)
    assert design == VoiceDesign(("female", "very low pitch", "british accent"))
    assert design_from_attributes(gender="", style="none") is None
    assert render_design(design_from_attributes(gender="male", dialect="sichuan"), "x").endswith("话")


@pytest.mark.parametrize("attributes", [{"gender": "child"}, {"age": "british"}, {"style": "loud"}, {"pitch": 3}])
def test_attributes_of_another_category_are_refused(attributes: dict) -> None:
    with pytest.raises(InputError, match=f"{next(iter(attributes))} must be"):
        design_from_attributes(**attributes)


def test_an_unknown_accent_is_answered_with_close_ones_only() -> None:
    with pytest.raises(
        InputError, match=r"accent must be one of the 10 .*did you mean british accent.*got 'brittish'"
    ) as told:
        design_from_attributes(accent="brittish")
    assert "portuguese" not in str(told.value)
    with pytest.raises(InputError, match="gender must be one of male, female, got 'man'"):
        design_from_attributes(gender="man")


def test_a_design_made_by_hand_is_checked_too() -> None:
    with pytest.raises(InputError, match="takes one gender"):
        render_design(VoiceDesign(("male", "female")), "x")
    with pytest.raises(InputError, match="does not know"):
        render_design(VoiceDesign(("warm",)), "x")


def test_every_option_can_be_chosen() -> None:
    sizes = {category: len(words) for category, words in design_options().items()}
    assert sizes == {"gender": 2, "age": 5, "pitch": 5, "style": 1, "accent": 10, "dialect": 12}
    for category, words in design_options().items():
        for word in words:
            assert parse_design(word) == design_from_attributes(**{category: word})
            chinese = render_design(parse_design(word), HAN)
            assert chinese.isascii() == (category == "accent")
