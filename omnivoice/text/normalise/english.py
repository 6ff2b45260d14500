"""English: what the rules of the `english_…` modules return for a text, the most specific rules first."""

from __future__ import annotations

from functools import cache

from . import (
    english_codes,
    english_counts,
    english_dates,
    english_maths,
    english_phones,
    english_roman,
    english_sizes,
    english_times,
    english_web,
    english_years,
)
from .english_money import money_rules
from .english_names import name_rules
from .english_places import place_rules
from .english_units import unit_rules
from .result import Replacement
from .rules import Rule, replaced


@cache
def _rules() -> tuple[Rule, ...]:
    return (
        *english_web.RULES,
        *english_dates.RULES,
        *english_phones.RULES,
        *english_codes.RULES_FIRST,
        *english_maths.RULES_FIRST,
        *money_rules(),
        *english_times.RULES,
        *english_sizes.RULES,
        *unit_rules(),
        *english_maths.POWERS,
        *english_phones.CUED_RULES,
        *place_rules(),
        *english_codes.RULES,
        *english_roman.RULES,
        *name_rules(),
        *english_years.RULES,
        *english_counts.RULES,
        *english_maths.RULES,
    )


def replacements(text: str) -> list[Replacement]:
    """Return what is spoken for each number, symbol and abbreviation of an English text."""
    return replaced(text, _rules())
