"""English words around a number that decide how it is read."""

from __future__ import annotations

import re

from .rules import text_after, word_after, word_before
from .tables import english_words

_ED = re.compile(r"\w{3,}ed$")


def attributive(match: re.Match[str]) -> bool:
    """Whether the amount describes the noun after it, and so its unit is in the singular: "a $5 bill"."""
    after = word_after(match)
    if not re.match(r"[ \u00a0-][a-z]", text_after(match)) or after in english_words("no_nouns"):
        return False
    if text_after(match)[:1] == "-":
        return True
    if after in english_words("money_nouns"):
        return True
    past = _ED.search(after) and after not in english_words("ed_nouns")
    return word_before(match).lower() in english_words("determiners") and not past


def before_noun(match: re.Match[str]) -> bool:
    """Whether a noun in small letters follows at once: "a 65W charger"."""
    return re.match(r" [a-z]", text_after(match)) is not None and word_after(match) not in english_words("no_nouns")


def closing_stop(match: re.Match[str]) -> str:
    """Return "." if the full stop at the end of the match, an abbreviation's, also ends the sentence; else ""."""
    after = text_after(match)
    if re.match(r"[\"”’)\]]*\s*$|[\"”’)\]]*[ \t]*\n", after):
        return "."
    return "." if re.match(r"[\"”’)]*\s+[\"“(]?[A-Z]", after) and word_after(match) in english_words("starters") else ""
