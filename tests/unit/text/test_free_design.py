"""Free descriptions: what is understood, what is ignored and named; never an exception for words."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import InputError
from omnivoice.text.design import design_options, parse_design, render_design
from omnivoice.text.free_design import design_from_free_text


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("a deep voice", ("low pitch",)),
        ("British lady", ("british accent", "female")),
        ("very low-pitched old man", ("very low pitch", "elderly", "male")),
        ("a girl whispering", ("female", "child", "whisper")),
        ("FEMALE, High Pitch", ("female", "high pitch")),
        ("女声，低沉", ("female", "low pitch")),
        ("warm narrator", None),
        ("", None),
        ("[object Object]", None),
        ("humanity", None),
    ],
)
def test_understood(text: str, attributes: tuple[str, ...] | None) -> None:
    design, _ = design_from_free_text(text)
    assert (design.attributes if design else None) == attributes


def test_what_is_ignored_is_named() -> None:
    """upstream.md, test 6: "warm narrator" warns and never crashes."""
    design, warnings = design_from_free_text("warm narrator")
    assert design is None
    assert "'warm', 'narrator'; the menus" in warnings[0]
    assert "british accent" not in warnings[0] and len(warnings[0]) < 250
    design, warnings = design_from_free_text("a man or a woman")
    assert design is not None and design.attributes == ("male",)
    assert any("'woman'" in warning for warning in warnings)
    assert design_from_free_text("a female voice with British accent")[1] == ()


def test_at_most_ten_ignored_words_are_named() -> None:
    (warning,) = design_from_free_text(" ".join(f"w{i}x" for i in range(14)))[1]
    assert "'w9x' and 4 more" in warning and "w10x" not in warning


def test_every_word_of_the_vocabulary_is_understood() -> None:
    for words in design_options().values():
        for word in words:
            expected = parse_design(word)
            found, warnings = design_from_free_text(word)
            assert found is not None and expected is not None
            assert render_design(found, "x") == render_design(expected, "x")
            assert not warnings


@given(st.text(max_size=80))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_valid_design(text: str) -> None:
    design, _ = design_from_free_text(text)
    if design is not None:
        assert render_design(design, "x")


@pytest.mark.parametrize("value", [None, 5, "x" * 501])
def test_refused(value: object) -> None:
    with pytest.raises(InputError, match="voice description must be a string of at most 500"):
        design_from_free_text(value)  # type: ignore[arg-type]
