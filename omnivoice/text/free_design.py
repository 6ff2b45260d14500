"""A voice described in free words, such as "a warm deep voice, British lady", mapped to the closed vocabulary.

The model knows a few dozen words. Known words and synonyms count wherever they occur; a warning names the other words.
There is no language model here, so nothing is guessed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from ..errors import InputError
from ..intake.limits import shown
from ..intake.tables import load_table
from ..voice import VoiceDesign
from .design import WHERE_LISTED, check_length, known_words, parse_design, word_key
from .vocabulary import named

_FILLERS = frozenset(
    {"a", "an", "the", "and", "with", "of", "in", "voice", "speaker", "accent", "pitch", "pitched", "very"}
)


def design_from_free_text(text: str, given: VoiceDesign | None = None) -> tuple[VoiceDesign | None, tuple[str, ...]]:
    """Return the design that `text` describes, or None if it has no known word, and warnings that name unused words.

    given: attributes that are already chosen; they take precedence. Otherwise the first word of each category counts.
    A voice has an accent or a dialect, whichever comes first. Raises InputError for anything but a string of at most
    500 characters.
    """
    check_length(text, "the voice description")
    attributes = list(given.attributes) if given else []
    unused: list[str] = []
    lowered = text.lower()
    for match in _phrase_pattern().finditer(lowered):
        for attribute in _attributes_by_phrase()[word_key(match[0])]:
            if not _is_valid([*attributes, attribute]):
                unused.append(match[0])
            elif attribute not in attributes:
                attributes.append(attribute)
    remaining = _phrase_pattern().sub(" ", lowered)
    unknown = [word for word in re.findall(r"[^\W_]+(?:[-'][^\W_]+)*", remaining) if word not in _FILLERS]
    warnings = []
    if unused:
        warnings.append(
            f"the voice description has words that are not used: {_quoted(unused)}; a voice takes one word for each "
            "attribute, and either an accent or a dialect; menus come first, then earlier words"
        )
    if unknown:
        warnings.append(
            f"the voice description has words that the model does not know: {_quoted(unknown)}; {WHERE_LISTED}"
        )
    return (VoiceDesign(tuple(attributes)) if attributes else None), tuple(warnings)


def _quoted(words: list[str]) -> str:
    return named([shown(word) for word in dict.fromkeys(words)])


def _is_valid(attributes: list[str]) -> bool:
    try:
        parse_design(",".join(attributes))
    except InputError:
        return False
    return True


@cache
def _attributes_by_phrase() -> dict[str, tuple[str, ...]]:
    """Return {`word_key` of a phrase: its attributes in the spelling of the vocabulary}."""
    synonyms = cast("dict[str, dict[str, str]]", load_table("text/design.json"))["synonyms"]
    known = {key: (word,) for key, (_, word) in known_words().items()}
    return known | {word_key(phrase): tuple(words.split(", ")) for phrase, words in synonyms.items()}


@cache
def _phrase_pattern() -> re.Pattern[str]:
    """Return a pattern for every known phrase, longest first; Latin letters match whole words only."""
    phrases = sorted(_attributes_by_phrase(), key=len, reverse=True)
    alternatives = [re.escape(p).replace(r"\ ", r"[\s_-]+") for p in phrases]
    bounded = [rf"(?<![a-z]){a}(?![a-z])" if p.isascii() else a for p, a in zip(phrases, alternatives)]
    return re.compile("|".join(bounded))
