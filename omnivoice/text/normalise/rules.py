"""Rules as patterns: which part of a text each takes, and what it is spoken as.

Rules are tried in their order over the whole text, and a place that one has taken is closed to those after it. So the
most specific rule comes first. Spoken words are kept apart from letters and digits beside them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...intake.cancel import hear_cancel
from ...intake.limits import MAX_RUN_CHARS
from .result import Replacement

_BEFORE = re.compile(r"([^\W_][\w'’.&-]*)[\s\"“(:]*$")
_AFTER = re.compile(r"[\s-]*([^\W\d_][\w'’-]*|\d[\d.,]*)")
_REACH = 40  # characters on each side that a rule may look at


@dataclass(frozen=True)
class Rule:
    """A pattern, and a function that returns what a match is spoken as, or None to leave it to other rules."""

    pattern: re.Pattern[str]
    spoken: Callable[[re.Match[str]], str | None]


def rule(pattern: str, spoken: Callable[[re.Match[str]], str | None]) -> Rule:
    """Return the rule of a pattern in which \\w, \\d and \\b mean ASCII characters."""
    return Rule(re.compile(pattern, re.ASCII), spoken)


def replaced(text: str, rules: Sequence[Rule]) -> list[Replacement]:
    """Return the replacements that the rules make in `text`, in order and without overlap.

    They stop where the text would have more than `MAX_RUN_CHARS`, which are too many to be spoken.
    """
    taken = bytearray(len(text))
    found: list[Replacement] = []
    room = MAX_RUN_CHARS - len(text)
    for rule in rules:
        place = 0
        hear_cancel()
        while match := rule.pattern.search(text, place):
            hear_cancel()
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
                room -= len(found[-1].spoken) - (end - start)
                if room < 0:
                    return _in_order(found)
    return _in_order(found)


def _in_order(found: list[Replacement]) -> list[Replacement]:
    """Return the replacements in order, with one space, not two, between neighbours that both bring one."""
    kept: list[Replacement] = []
    for one in sorted(found, key=lambda one: one.start):
        if kept and kept[-1].end == one.start and kept[-1].spoken.endswith(" "):
            one = replace(one, spoken=one.spoken.lstrip(" "))
        kept.append(one)
    return kept


def _apart(text: str, start: int, end: int, spoken: str) -> str:
    """Return `spoken` with a space on each side where a letter or digit would touch it."""
    before = " " if start and text[start - 1].isalnum() and spoken[:1].isalnum() else ""
    after = " " if end < len(text) and text[end].isalnum() and spoken[-1:].isalnum() else ""
    return f"{before}{spoken}{after}"


def word_before(match: re.Match[str]) -> str:
    """Return the word or number just before the match, as written, or "" if there is none in the same sentence."""
    found = _BEFORE.search(match.string[max(0, match.start() - _REACH) : match.start()])
    return found[1] if found else ""


def word_after(match: re.Match[str]) -> str:
    """Return the word or number just after the match, as written, or "" if something else follows."""
    found = _AFTER.match(match.string[match.end() : match.end() + _REACH])
    return found[1] if found else ""


def text_before(match: re.Match[str], characters: int = _REACH) -> str:
    """Return up to that many characters before the match."""
    return match.string[max(0, match.start() - characters) : match.start()]


def text_after(match: re.Match[str], characters: int = _REACH) -> str:
    """Return up to that many characters after the match."""
    return match.string[match.end() : match.end() + characters]
