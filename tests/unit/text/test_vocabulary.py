"""A model of a small vocabulary tells which words of a text it cannot say, and which it can."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnivoice import Engine, GenerationRequest
from omnivoice.text.vocabulary import SHOWN, vocabulary_warnings
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint

KNOWN = ("it", "is", "anna's", "dog")


@pytest.mark.parametrize("text", ["It is Anna's dog.", "IT IS! [laughter] dog\u2026", "Anna\u2019s dog"])
def test_known_words_are_not_told(text: str) -> None:
    assert vocabulary_warnings(text, KNOWN) == ()


def test_unknown_words_are_named_once_with_all_that_are_known() -> None:
    (told,) = vocabulary_warnings("It is Peter, 3 times Peter \u72ac.", KNOWN)
    assert "and peter, 3, times, \u72ac will not be understood; the 4 words it knows: anna's, dog, is, it" in told
    (many,) = vocabulary_warnings(" ".join(f"w{i}" for i in range(SHOWN + 5)), KNOWN)
    assert "w7 and 5 more will" in many and "w8" not in many


def test_a_model_without_a_vocabulary_says_anything() -> None:
    assert vocabulary_warnings("Whatever.", ()) == ()


def test_a_single_file_carries_its_words_to_the_speech(checkpoint: Path, tmp_path: Path) -> None:
    files = locate_checkpoint(checkpoint)
    assert files.words == ()
    words = [f"word{i}" for i in range(300)]
    first = export_checkpoint(files, tmp_path / "first.safetensors", words=words)
    again = export_checkpoint(locate_checkpoint(first), tmp_path / "again.safetensors")
    assert locate_checkpoint(again).words == tuple(words)
    for model, told in ((again, True), (checkpoint, False)):
        (plan,) = Engine.load(model).plan([GenerationRequest("Word1 and word2.")])
        assert any("and will not be understood" in warning for warning in plan.warnings) is told
