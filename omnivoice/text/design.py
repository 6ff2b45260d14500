"""Voice design: the closed vocabulary of voices that can be described, and the string that the model was trained on.

A design has at most one word each for gender, age, pitch, style, and English accent or Chinese dialect. It keeps the
user's order, as upstream does. It is rendered in Chinese for Chinese text or a dialect, and in English otherwise.
Words outside the vocabulary are refused here; `free_design` maps free text. The words are in `design.json`. Sources:
upstream utils/voice_design.py, models/omnivoice.py:1492.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import cache
from typing import cast

from ..errors import InputError
from ..intake.limits import shown
from ..intake.tables import load_table
from ..voice import VoiceDesign
from .characters import has_han
from .vocabulary import named

MAX_CHARS = 500
WHERE_LISTED = (
    "the menus of Voice Design Attributes and web/docs/OmniVoiceVoiceDesignAttributes.md list the known words"
)
_FEW_OPTIONS = 8  # a message lists this many in full
_UNSET = ("", "none", "auto", "any")


def parse_design(text: str | None) -> VoiceDesign | None:
    """Return the design in a comma-separated string of English or Chinese words in any case; None for an empty one.

    A word given twice counts once. Raises InputError for unknown words (with close matches), for two words of one
    category, and for a dialect together with an accent.
    """
    if text is None:
        return None
    check_length(text, "the voice design")
    parts = re.split(f"[{re.escape(cast(str, _table()['splitters']))}]", text)
    words = [part.strip() for part in parts if part.strip()]
    return _checked(words) if words else None


def check_length(text: object, name: str) -> None:
    """Raise InputError unless `text` is a string of at most 500 characters."""
    if not isinstance(text, str) or len(text) > MAX_CHARS:
        got = f"{len(text)} characters" if isinstance(text, str) else shown(text)
        raise InputError(f"{name} must be a string of at most {MAX_CHARS} characters, got {got}")


def design_from_attributes(**attributes: object) -> VoiceDesign | None:
    """Return the design with these attributes, by category, or None if all are unset.

    None, "" and "auto" leave a category unset. A short form is accepted where the category completes it: "british",
    "low", "sichuan". Raises InputError as `parse_design` does, and for a word of another category.
    """
    words: list[str] = []
    for category in design_options():
        value = attributes.get(category)
        if value is not None and not isinstance(value, str):
            raise InputError(f"{category} must be a string, got {shown(value)}")
        if value is None or value.strip().lower() in _UNSET:
            continue
        found = _find(value) or _find(f"{value} {category}")
        if found is None or found[0] != category:
            raise InputError(f"{category} must be {choices(value, design_options()[category])}, got {shown(value)}")
        words.append(found[1])
    return _checked(words) if words else None


def render_design(design: VoiceDesign, text: str) -> str:
    """Return the instruct string for speaking `text`: "female, low pitch", or Chinese words joined by wide commas.

    Raises InputError for a design that `parse_design` would refuse.
    """
    words = _checked(design.attributes).attributes
    entries = [cast("tuple[str, str]", _find(word)) for word in words]
    categories = {category for category, _ in entries}
    chinese = "dialect" in categories or ("accent" not in categories and has_han(text))
    separators = cast("dict[str, str]", _table()["separators"])
    rendered = [_in_language(category, word, chinese) for category, word in entries]
    return separators["chinese" if chinese else "english"].join(rendered)


def design_options() -> dict[str, tuple[str, ...]]:
    """Return the English words of each category, for menus and messages; dialects as "sichuan dialect"."""
    return {category: tuple(words) for category, words in _categories().items()}


def choices(value: object, options: Sequence[str]) -> str:
    """Return what an error message about `value` offers: few options in full, of many only the close ones."""
    if len(options) <= _FEW_OPTIONS:
        return f"one of {', '.join(options)}"
    close = difflib.get_close_matches(word_key(str(value)[:MAX_CHARS]), options, n=3)
    meant = f" (did you mean {' or '.join(close)}?)" if close else ""
    return f"one of the {len(options)} in the menu of Voice Design Attributes{meant}"


def _table() -> dict[str, object]:
    return cast("dict[str, object]", load_table("text/design.json"))


def _categories() -> dict[str, dict[str, str]]:
    """Return {category: {English: Chinese}}; accents have no Chinese form, dialects are always rendered in Chinese."""
    return cast("dict[str, dict[str, str]]", _table()["categories"])


@cache
def known_words() -> dict[str, tuple[str, str]]:
    """Return {`word_key` of a word: (its category, the word as a design stores it)}."""
    known: dict[str, tuple[str, str]] = {}
    for category, words in _categories().items():
        for english, chinese in words.items():
            known[word_key(english)] = (category, chinese if category == "dialect" else english)
            if chinese:
                known[word_key(chinese)] = (category, chinese)
    return known


def word_key(word: str) -> str:
    """Return `word` in lower case, with a space for each run of spaces, hyphens and underscores."""
    return " ".join(re.split(r"[\s_-]+", word.strip().lower()))


def _find(word: str) -> tuple[str, str] | None:
    return known_words().get(word_key(word))


def _in_language(category: str, word: str, chinese: bool) -> str:
    for english, other in _categories()[category].items():
        if word in (english, other):
            return (other or english) if chinese or category == "dialect" else english
    raise AssertionError("every checked word is in the table")


def _checked(words: Sequence[str]) -> VoiceDesign:
    unknown = [word for word in words if not isinstance(word, str) or _find(word) is None]
    if unknown:
        raise InputError(_unknown_message(unknown))
    chosen: dict[str, str] = {}
    for category, word in (cast("tuple[str, str]", _find(word)) for word in words):
        earlier = chosen.setdefault(category, word)
        if _in_language(category, earlier, True) != _in_language(category, word, True):
            raise InputError(f"the voice design takes one {category}, got {earlier} and {word}: remove one")
    if "accent" in chosen and "dialect" in chosen:
        raise InputError(
            f"the voice design takes an accent (English) or a dialect (Chinese), got {chosen['accent']} and "
            f"{chosen['dialect']}: remove one"
        )
    return VoiceDesign(tuple(chosen.values()))


def _unknown_message(words: Sequence[object]) -> str:
    described = []
    for word in words:
        close = difflib.get_close_matches(word_key(str(word)[:MAX_CHARS]), known_words(), n=1)
        described.append(shown(word) + (f" (did you mean {known_words()[close[0]][1]}?)" if close else ""))
    return f"the voice design does not know {named(described)}; {WHERE_LISTED}"
