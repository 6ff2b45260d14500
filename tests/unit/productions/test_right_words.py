"""The sentences that are spoken to count the right words of a model in training."""

from __future__ import annotations

import pytest
import torch

from omnivoice.errors import InputError
from omnivoice.productions.right_words import SPEECHES, word_test
from omnivoice.train.clips import Clip


def clip(text: str, language: str | None = "en") -> Clip:
    return Clip("clip", torch.zeros(8, 4, dtype=torch.int16), text, language)


@pytest.mark.parametrize(
    ("texts", "spoken"),
    [
        (["One."], ["One."] * 8),
        (["One.", "Two.", "Three."], ["One.", "Two.", "Three.", "One.", "Two.", "Three.", "One.", "Two."]),
        (["[laughter]", "One.", "...", "你好"], ["One.", "你好"] * 4),
        ([f"Word {i}." for i in range(9)], [f"Word {i}." for i in range(8)]),
    ],
)
def test_eight_sentences_of_the_first_clips_with_words(texts: list[str], spoken: list[str]) -> None:
    test = word_test([clip(text) for text in texts], seed=5)
    assert [request.text for request in test.requests] == spoken and len(spoken) == SPEECHES
    assert [request.seed for request in test.requests] == [*range(5, 13)] and test.languages == ("en",) * 8
    assert test == word_test([clip(text) for text in texts], seed=5)


def test_each_sentence_has_the_language_of_its_clip() -> None:
    test = word_test([clip("One."), clip("Due.", "la"), clip("Drei.", None)], seed=2**64 - 1)
    assert [request.language for request in test.requests][:3] == ["en", "id:la", None]
    assert test.languages[:3] == ("en", "la", None)
    assert [request.seed for request in test.requests][:2] == [2**64 - 1, 0]


@pytest.mark.parametrize("texts", [[], ["[laughter]"], ["...", "!"]])
def test_clips_without_words_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match="stop_words_points needs a validation clip with words"):
        word_test([clip(text) for text in texts], seed=0)


@pytest.mark.parametrize(
    ("heard", "share"),
    [
        (["one two three four"] * 8, 1.0),
        (["one two three"] * 8, 0.75),
        ([""] * 8, 0.0),
        (["one two"] * 4 + [""] * 4, 0.25),
    ],
)
def test_share(heard: list[str], share: float) -> None:
    assert word_test([clip("One, two, three, four!")], seed=0).share(heard) == share
