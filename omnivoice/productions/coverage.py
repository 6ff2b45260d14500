"""Which words of a text a recogniser did not hear, heard twice, or heard in addition or instead.

Words that are spelled nearly alike count as the same, because recognisers spell names in their own way, and numbers are
compared as words. Everything else that differs is a finding, also where the recogniser is the one who is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Protocol

from ..errors import InputError
from ..text.normalise import normalise
from ..text.word_errors import compare
from ..types import GenerationPlan, Speech, Waveform
from .checks import Finding
from .takes import CheckAll, check_each

WORDS = "words"
ALIKE = 0.75  # the share of letters that words spelled alike have in common


class Transcribe(Protocol):
    """Returns what each recording says, in order; "" for nothing."""

    def __call__(self, recordings: Sequence[Waveform], /) -> list[str]: ...


def checks_with(transcribe: Transcribe) -> CheckAll:
    """Return the checks of speech together with those of its words."""

    def check(plans: Sequence[GenerationPlan], speeches: Sequence[Speech], /) -> list[tuple[Finding, ...]]:
        heard = transcribe([speech.waveform for speech in speeches])
        return [
            (*own, *coverage(" ".join(chunk.text for chunk in plan.chunks), text, language=plan.language))
            for own, plan, text in zip(check_each(plans, speeches), plans, heard)
        ]

    return check


def coverage(text: str, heard: str, *, language: str | None = None) -> tuple[Finding, ...]:
    """Return a finding for each place where the words heard are not those of the text."""
    compared = compare(_as_words(text, language), _as_words(heard, language))
    ends = [(-1, -1), *compared.pairs, (len(compared.said), len(compared.heard))]
    found = []
    for (said, other), (next_said, next_other) in itertools.pairwise(ends):
        lost, added = compared.said[said + 1 : next_said], compared.heard[other + 1 : next_other]
        around = compared.heard[max(0, other + 1 - len(added)) : other + 1], compared.heard[next_other:][: len(added)]
        found += [Finding(WORDS, sentence, 0.0) for sentence in _differences(lost, added, around)]
    return tuple(found)


def _as_words(text: str, language: str | None) -> str:
    """Return the text with numbers as words, as far as the language has rules for them."""
    try:
        return normalise(text, language).text
    except InputError:  # a language of the model's own
        return text


def _differences(
    lost: Sequence[str], added: Sequence[str], around: tuple[Sequence[str], Sequence[str]]
) -> Iterator[str]:
    """Yield what is wrong between two words heard rightly. around: as many words heard before and after as `added`."""
    if lost and added:
        if SequenceMatcher(None, "".join(lost), "".join(added), autojunk=False).ratio() < ALIKE:
            yield f"“{' '.join(added)}” was heard in place of “{' '.join(lost)}”"
    elif lost:
        yield f"“{' '.join(lost)}” was not heard"
    elif added:
        how = "twice" if added in around else "in addition"
        yield f"“{' '.join(added)}” was heard {how}"
