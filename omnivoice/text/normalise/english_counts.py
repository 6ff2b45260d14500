"""Plain English numbers: cardinals, ordinals and decimals."""

from __future__ import annotations

import re

from .english_words import cardinal, digits, ordinal
from .rules import Rule

WHOLE = r"(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d+)"
NUMBER = rf"(?:{WHOLE}(?:\.\d+)?|\.\d+)"
_SIGN = r"(?:(?<![\w.,])[-−–+±](?=[\d.]))?"


def spoken_number(text: str) -> str:
    """Return a number with commas, a decimal point or a sign in words: "-1,234.5"."""
    signs = {"-": "minus ", "−": "minus ", "–": "minus ", "+": "plus ", "±": "plus or minus "}
    if text[0] in signs:
        return signs[text[0]] + spoken_number(text[1:])
    whole, point, decimals = text.replace(",", "").partition(".")
    words = _whole(whole) if whole else ""
    return f"{words} point {digits(decimals)}".strip() if point else words


def _whole(text: str) -> str:
    leading = len(text) > 1 and text[0] == "0"
    return digits(text) if leading or len(text) > 36 else cardinal(int(text))


def _ordinal(match: re.Match[str]) -> str | None:
    return ordinal(int(match["number"].replace(",", ""))) if len(match["number"]) < 36 else None


RULES = (
    Rule(re.compile(rf"(?<![\w.,])(?P<number>{WHOLE})(?:st|nd|rd|th|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)\b", re.ASCII), _ordinal),
    Rule(re.compile(rf"{_SIGN}(?<![\d])(?:{NUMBER})", re.ASCII), lambda match: spoken_number(match[0])),
)
