"""A model with a small vocabulary names the words of a text that it cannot say, and where all words are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnivoice import Engine, GenerationRequest
from omnivoice.text.vocabulary import MAX_NAMED, vocabulary_warnings
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint

DEMO_VOICE = Path(__file__).resolve().parents[3] / "demo_voice"
KNOWN = ("it", "is", "anna's", "dog")


@pytest.mark.parametrize("text", ["It is Anna's dog.", "IT IS! [laughter] dog…", "Anna’s dog"])
def test_known_words_give_no_warning(text: str) -> None:
    assert vocabulary_warnings(text, KNOWN) == ()


def test_unknown_words_are_named_once_and_the_vocabulary_is_not() -> None:
    (told,) = vocabulary_warnings("It is Peter, 3 times Peter 犬.", KNOWN)
    assert "knows only 4 words and cannot say peter, 3, times, 犬; demo_voice/CARD.md" in told
    assert "anna" not in told


def test_at_most_ten_unknown_words_are_named() -> None:
    (many,) = vocabulary_warnings(" ".join(f"w{i}" for i in range(MAX_NAMED + 5)), [f"known{i}" for i in range(300)])
    assert "w9 and 5 more" in many and "w10" not in many and "known" not in many and len(many) < 250


def test_the_card_lists_the_words_of_the_demo_voice() -> None:
    card = (DEMO_VOICE / "CARD.md").read_text(encoding="utf-8")
    words = locate_checkpoint(DEMO_VOICE / "demo_voice.safetensors").words
    assert card.split("## Words\n")[1].split() == sorted(words)


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
        assert any("cannot say and;" in warning for warning in plan.warnings) is told
