"""The word lists that the English rules use, from english.json."""

from __future__ import annotations

from functools import cache
from typing import cast

from ...intake.tables import load_table


@cache
def english_words(name: str) -> tuple[str, ...]:
    """Return the words of one list, in their order."""
    return tuple(cast("dict[str, str]", load_table("text/normalise/english.json"))[name].split())
