"""English: what the rules of the `english_…` modules return for a text, the most specific rules first."""

from __future__ import annotations

from .english_counts import RULES as COUNTS
from .result import Replacement
from .rules import Rule, replaced

_RULES: tuple[Rule, ...] = COUNTS


def replacements(text: str) -> list[Replacement]:
    """Return what is spoken for each number, symbol and abbreviation of an English text."""
    return replaced(text, _RULES)
