"""Coverage: which words were lost, added, repeated or replaced, in several languages, and retries by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from omnivoice.engine import Engine
from omnivoice.productions.coverage import checks_with, coverage
from omnivoice.productions.takes import SpeakWithRetries
from omnivoice.types import GenerationRequest, Sampling, Waveform


@pytest.mark.parametrize(
    ("text", "heard", "language", "wanted"),
    [
        ("The dog slept, here.", "the dog slept here", "English", []),
        ("The dog slept here.", "The dog here.", "English", ["“slept” was not heard"]),
        ("The dog slept here.", "The dog.", "English", ["“slept here” was not heard"]),
        ("The dog slept here.", "", "English", ["“the dog slept here” was not heard"]),
        ("The dog slept.", "The the dog slept.", "English", ["“the” was heard twice"]),
        ("The dog slept.", "The dog slept. The dog slept.", "English", ["“the dog slept” was heard twice"]),
        ("The dog slept.", "The dog slept well now.", "English", ["“well now” was heard in addition"]),
        ("The dog slept.", "Oh, the dog slept.", "English", ["“oh” was heard in addition"]),
        ("The dog slept.", "The cat slept.", "English", ["“cat” was heard in place of “dog”"]),
        ("The harbour is here.", "The harbor is here.", "English", []),
        ("Every weekend.", "Every week end.", "English", []),
        ("I have 21 cats.", "I have twenty-one cats.", "English", []),
        ("I have twenty-one cats.", "I have 21 cats.", "English", []),
        ("A [laughter] dog [pause 1s] slept.", "A dog slept.", "English", []),
        ("今天天气很好。", "今天天气好", "Chinese", ["“很” was not heard"]),
        ("今天天气很好。", "今天天气很好。", "Chinese", []),
        ("今日は晴れです。", "今日は晴れ晴れです", "Japanese", ["“晴 れ” was heard twice"]),
        ("Это дом.", "это дом", None, []),
        ("[laughter]", "", None, []),
        ("The dog slept.", "The slept.", "a language of its own", ["“dog” was not heard"]),
    ],
)
def test_what_differs_is_named(text: str, heard: str, language: str | None, wanted: list[str]) -> None:
    assert [one.text for one in coverage(text, heard, language=language)] == wanted


def test_words_that_are_not_heard_are_spoken_again(checkpoint: Path) -> None:
    """The recogniser, a fake, hears the first two takes of one text wrongly."""
    engine, asked = Engine.load(checkpoint), list[int]()

    def transcribe(recordings: Sequence[Waveform], /) -> list[str]:
        asked.append(len(recordings))
        right = ["One two three.", "Four five six."]
        return right[-1:] if len(asked) > 2 else [*right[:1], "Five six."][-len(recordings) :]

    def check(plans: Sequence, speeches: Sequence) -> list:
        return [[one for one in found if one.kind == "words"] for found in checks_with(transcribe)(plans, speeches)]

    retrying = SpeakWithRetries(engine.generate_plans, 3, check=check)
    texts = ("One two three.", "Four five six.")
    spoken = retrying(engine.plan([GenerationRequest(text, seed=1, sampling=Sampling(steps=2)) for text in texts]))
    assert asked == [2, 1, 1]
    assert [one.seed for one in spoken] == [1, 3]
    assert spoken[1].warnings[-2:] == ("seed 2 was rejected: “four” was not heard", "seed 3 is used")
