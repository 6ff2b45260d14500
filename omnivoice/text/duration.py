"""Estimates how long a text takes to speak, by upstream's rules, from the weight of its characters.

The weight of a Latin letter is 1, about 45 ms. The Unicode category decides first (marks cost nothing, punctuation 0.5,
numbers 3.5), and the script decides for all other characters. Sums and powers are computed in upstream's order, because
the result is truncated to whole frames. Source: upstream utils/duration.py, models/omnivoice.py:1169.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from functools import cache, lru_cache
from typing import cast

from ..intake.tables import load_table
from .characters import TATWEEL, is_spoken, is_stand_in

FALLBACK_TEXT, FALLBACK_FRAMES = "Nice to meet you.", 25  # the speaking rate without a reference
SHORT_FRAMES = 50  # a cube root raises shorter estimates towards this
# Plausible weight of a transcript per second: the fallback rate is 14, and people speak within a factor of 3 of it.
SLOWEST_RATE, FASTEST_RATE = 4.0, 40.0
_IDEOGRAPHIC_PLANES = 0x20000
_BY_CATEGORY = {"M": "mark", "P": "punctuation", "S": "punctuation", "Z": "space", "N": "digit"}


@cache
def _rules() -> tuple[dict[str, float], list[int], list[str]]:
    """Return the weights by kind, the last code point of each range (ascending), and the kind of each range."""
    table = cast("dict[str, list[tuple[str, str]]]", load_table("text/duration.json"))
    weights = cast("dict[str, float]", table["weights"])
    return weights, [int(last, 16) for last, _ in table["ranges"]], [kind for _, kind in table["ranges"]]


def char_weight(char: str) -> float:
    """Return the weight of one character, a multiple of 0.1."""
    weights, ends, kinds = _rules()
    if char == TATWEEL:
        return weights["mark"]
    kind = _BY_CATEGORY.get(unicodedata.category(char)[0])
    if kind is None:
        code = ord(char)
        place = bisect_left(ends, code)
        outside = "cjk" if code > _IDEOGRAPHIC_PLANES else "default"
        kind = kinds[place] if place < len(kinds) else outside
    return weights[kind]


@lru_cache(maxsize=8192)
def unit_weight(char: str) -> float:
    """Return the weight of one character; 0 if it stands for a token of the model's own."""
    return 0.0 if is_stand_in(char) else char_weight(char)


def text_weight(text: str) -> float:
    """Return the weight of all characters of `text`, added from left to right."""
    total = 0.0
    for char in text:  # not sum(), which rounds differently from Python 3.12 on
        total += unit_weight(char)
    return total


@cache
def _fallback_weight() -> float:
    return text_weight(FALLBACK_TEXT)


def estimate_frames(
    text: str, *, reference_text: str | None = None, reference_frames: int | None = None, speed: float = 1.0
) -> int:
    """Return how many frames (25 per second) `text` takes, at least 1, at the reference's rate if there is one.

    reference_text and reference_frames count only together, and only if the text has any weight. speed must be > 0;
    above 1 is faster.
    """
    weight = text_weight(reference_text) if reference_text and reference_frames else 0.0
    frames = reference_frames if weight and reference_frames else FALLBACK_FRAMES
    estimate = text_weight(text) / ((weight or _fallback_weight()) / frames)
    if estimate < SHORT_FRAMES:
        estimate = SHORT_FRAMES * (estimate / SHORT_FRAMES) ** (1.0 / 3)
    return max(1, int(estimate / speed))


def rate_fault(text: str, seconds: float) -> str | None:
    """Return "too long" or "too short" for a transcript that cannot be spoken in this time, otherwise None.

    A text with nothing but tokens of the model's own, such as [cough], may take any time.
    """
    if any(map(is_stand_in, text)) and not any(map(is_spoken, text)):
        return None
    rate = text_weight(text) / seconds
    if SLOWEST_RATE <= rate <= FASTEST_RATE:
        return None
    return "too long" if rate > FASTEST_RATE else "too short"
