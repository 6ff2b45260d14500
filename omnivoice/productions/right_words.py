"""Speech from a model in training, and the share of its words that a recogniser hears: for stop_words_points.

The texts are those of validation clips, each with a seed of its own and without a voice, as the samples of a training
are spoken. They are the same at every validation, so that only the weights make a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..text.languages import language_label
from ..text.word_errors import compare, share_right, spoken_words
from ..train.clips import Clip
from ..types import GenerationRequest

SPEECHES = 8  # with fewer clips, a text is spoken several times


@dataclass(frozen=True)
class WordTest:
    """What is spoken at each validation. languages: an id for each request, None where its clip has none."""

    requests: tuple[GenerationRequest, ...]
    languages: tuple[str | None, ...]

    def share(self, heard: Sequence[str]) -> float:
        """Return the share of right words, 0 to 1, if `heard` is what a recogniser understood of each speech."""
        pairs = zip(self.requests, heard, strict=True)
        return share_right(compare(request.text, transcript) for request, transcript in pairs)


def word_test(clips: Sequence[Clip], seed: int) -> WordTest:
    """Return the test for validation clips: the first of them that have words. Raises InputError if none has."""
    spoken = [clip for clip in clips if spoken_words(clip.text)][:SPEECHES]
    if not spoken:
        raise InputError("stop_words_points needs a validation clip with words: raise validation, or set it to 0")
    chosen = [spoken[number % len(spoken)] for number in range(SPEECHES)]
    requests = [
        GenerationRequest(
            text=clip.text,
            seed=(seed + number) % 2**64,
            language=None if clip.language is None else language_label(clip.language),
        )
        for number, clip in enumerate(chosen)
    ]
    return WordTest(tuple(requests), tuple(clip.language for clip in chosen))
