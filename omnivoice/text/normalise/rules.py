"""Rules as patterns: which part of a text each takes, and what it is spoken as.

Rules are tried in their order over the whole text, and a place that one has taken is closed to those after it. So the
most specific rule comes first. Spoken words are kept apart from letters and digits beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .result import Replacement


@dataclass(frozen=True)
class Rule:
    """A pattern, and a function that returns what a match is spoken as, or None to leave it to other rules."""

    pattern: re.Pattern[str]
    spoken: Callable[[re.Match[str]], str | None]


def replaced(text: str, rules: Sequence[Rule]) -> list[Replacement]:
    """Return the replacements that the rules make in `text`, in order and without overlap."""
    taken = bytearray(len(text))
    found: list[Replacement] = []
    for rule in rules:
        place = 0
        while match := rule.pattern.search(text, place):
            start, end = match.span()
            place = max(end, start + 1)
            if closed := taken.rfind(1, start, end) + 1:
                place = max(closed, start + 1)
                continue
            spoken = rule.spoken(match) if end > start else None
            if spoken is None:
                place = start + 1
            elif spoken != match[0]:
                found.append(Replacement(start, end, _apart(text, start, end, spoken)))
                taken[start:end] = b"\1" * (end - start)
    return sorted(found, key=lambda one: one.start)


def _apart(text: str, start: int, end: int, spoken: str) -> str:
    """Return `spoken` with a space on each side where a letter or digit would touch it."""
    before = " " if start and text[start - 1].isalnum() and spoken[:1].isalnum() else ""
    after = " " if end < len(text) and text[end].isalnum() and spoken[-1:].isalnum() else ""
    return f"{before}{spoken}{after}"
