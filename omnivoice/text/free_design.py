"""A voice described in free words -> the closed vocabulary, with everything that could not be used named.

The model knows a few dozen words; users write "a warm deep voice, British lady". Known words and synonyms are taken
wherever they stand; the rest is ignored, and said to be. Nothing is guessed: there is no language model here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from ..errors import InputError
from ..intake.limits import shown
from ..intake.tables import load_table
from ..voice import VoiceDesign
from .design import MAX_CHARS, design_options, parse_design

_FILLERS = frozenset(
    {"a", "an", "the", "and", "with", "of", "in", "voice", "speaker", "accent", "pitch", "pitched", "very"}
)
_MAX_NAMED = 8


def design_from_free_text(text: str, given: VoiceDesign | None = None) -> tuple[VoiceDesign | None, tuple[str, ...]]:
    """The design that `text` describes (None if no word of it is known), and warnings that name what was ignored.

    given: attributes that are settled already, and lead. The first word of a category counts; a dialect gives way to
    an accent that came first, and the other way round.
    Raises InputError only for what is no string of at most 500 characters.
    """
    if not isinstance(text, str) or len(text) > MAX_CHARS:
        raise InputError(f"voice description must be a string of at most {MAX_CHARS} characters, got {shown(text)}")
    attributes = list(given.attributes) if given else []
    unused: list[str] = []
    rest = text.lower()
    for match in _pattern().finditer(rest):
        for attribute in _meanings()[_spaced(match[0])]:
            if not _fits([*attributes, attribute]):
                unused.append(match[0])
            elif attribute not in attributes:
                attributes.append(attribute)
    unknown = [
        word for word in re.findall(r"[^\W_]+(?:[-'][^\W_]+)*", _pattern().sub(" ", rest)) if word not in _FILLERS
    ]
    warnings = []
    if unused:
        warnings.append(
            f"of two words for one attribute, or accent and dialect, only the first counts; not {_named(unused)}"
        )
    if unknown:
        allowed = "; ".join(", ".join(words) for words in design_options().values())
        warnings.append(f"the voice description knows no {_named(unknown)}, ignored; it knows: {allowed}")
    return (VoiceDesign(tuple(attributes)) if attributes else None), tuple(warnings)


def _named(words: list[str]) -> str:
    return ", ".join(shown(word) for word in dict.fromkeys(words[:_MAX_NAMED]))


def _fits(attributes: list[str]) -> bool:
    try:
        parse_design(",".join(attributes))
    except InputError:
        return False
    return True


def _spaced(phrase: str) -> str:
    return re.sub(r"[\s_-]+", " ", phrase)


@cache
def _meanings() -> dict[str, tuple[str, ...]]:
    """{phrase in lower case, blanks for hyphens: canonical attributes}."""
    table = cast("dict[str, dict[str, dict[str, str]]]", load_table("text/design.json"))
    known = {
        _spaced(word): (word,)
        for words in table["categories"].values()
        for pair in words.items()
        for word in pair
        if word
    }
    synonyms = cast("dict[str, str]", load_table("text/design.json")["synonyms"])  # type: ignore[index]
    return known | {_spaced(phrase): tuple(words.split(", ")) for phrase, words in synonyms.items()}


@cache
def _pattern() -> re.Pattern[str]:
    """Any known phrase, the longest first; words in Latin letters only as whole words."""
    phrases = sorted(_meanings(), key=len, reverse=True)
    alternatives = [re.escape(p).replace(r"\ ", r"[\s_-]+") for p in phrases]
    bounded = [rf"(?<![a-z]){a}(?![a-z])" if p.isascii() else a for p, a in zip(phrases, alternatives)]
    return re.compile("|".join(bounded))
