"""English abbreviations and titles: Mr., Prof., No. 5, vs., etc. A full stop that also ends the sentence stays."""

from __future__ import annotations

import re
from functools import cache

from .phrases import closing_stop
from .rules import Rule, rule
from .tables import english_map, keys_of


def _abbreviation(match: re.Match[str]) -> str:
    """An abbreviation with one reading."""
    stop = closing_stop(match) if match["word"].endswith(".") else ""
    return english_map("abbreviations")[match["word"]] + stop


def _before_number(match: re.Match[str]) -> str:
    """An abbreviation that is one only before a number: No. 5, p. 7, Vol. 2, Fig. 3."""
    return f"{english_map('before_numbers')[match['word']]} "


def _title(match: re.Match[str]) -> str:
    """A title before a name: Mr. Smith."""
    return english_map("titles_short")[match["word"]]


@cache
def name_rules() -> tuple[Rule, ...]:
    """Return the rules, which need the tables."""
    return (
        rule(rf"(?<![\w.])(?P<word>{keys_of('before_numbers')})[ \u00a0]?(?=#?\d)", _before_number),
        rule(
            rf"(?<![\w.])(?P<word>{keys_of('titles_short')})(?=[ \u00a0](?:[A-Z]|St\.|(?:and|&) [MDP]))(?!\w)", _title
        ),
        rule(rf"(?<![\w.])(?P<word>{keys_of('abbreviations')})(?!\w)", _abbreviation),
    )
