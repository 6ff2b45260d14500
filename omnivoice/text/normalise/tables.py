"""The word lists that the English rules use, from english.json."""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from ...intake.tables import load_table


@cache
def english_words(name: str) -> tuple[str, ...]:
    """Return the words of one list, in their order."""
    return tuple(cast("dict[str, str]", load_table("text/normalise/english.json"))[name].split())


@cache
def english_map(name: str) -> dict[str, str]:
    """Return one table of the words that stand for others."""
    return cast("dict[str, dict[str, str]]", load_table("text/normalise/english.json"))[name]


@cache
def keys_of(name: str) -> str:
    """Return a pattern of the keys of a table, longest first."""
    return "|".join(map(re.escape, sorted(english_map(name), key=len, reverse=True)))
