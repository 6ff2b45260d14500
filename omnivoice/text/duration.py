"""How long a text takes to speak: upstream's rule-based estimate, from the weight of its characters.

The weight of a Latin letter is 1, about 45 ms. Unusual: the rules go by Unicode category first (marks cost nothing,
punctuation half, numbers 3.5) and by script only for what is left; and sums and powers are computed in
upstream's order, since the result is truncated to whole frames. Source: upstream utils/duration.py,
models/omnivoice.py:1169.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from functools import cache, lru_cache
from typing import cast

from ..intake.tables import load_table
from .characters import TATWEEL

FALLBACK_TEXT, FALLBACK_FRAMES = "Nice to meet you.", 25  # the speaking rate where no reference gives one
SHORT_FRAMES = 50  # estimates below this are raised towards it, by a cube root
# Weight per second that a transcript can have: the fallback rate is 14, and people speak within a factor of about 3
# of it.
SLOWEST_RATE, FASTEST_RATE = 4.0, 40.0
_IDEOGRAPHIC_PLANES = 0x20000
_BY_CATEGORY = {"M": "mark", "P": "punctuation", "S": "punctuation", "Z": "space", "N": "digit"}


@cache
def _rules() -> tuple[dict[str, float], list[int], list[str]]:
    """Weights by kind; the last code point of each range, ascending; the kind of each range."""
    table = cast("dict[str, list[tuple[str, str]]]", load_table("text/duration.json"))
    weights = cast("dict[str, float]", table["weights"])
    return weights, [int(last, 16) for last, _ in table["ranges"]], [kind for _, kind in table["ranges"]]


@lru_cache(maxsize=8192)
def char_weight(char: str) -> float:
    """The weight of one character: a multiple of 0.1."""
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


def text_weight(text: str) -> float:
    """The weight of all characters of `text`, added from left to right."""
    total = 0.0
    for char in text:  # not sum(): from Python 3.12 on it rounds better than what the checkpoint was tuned with
        total += char_weight(char)
    return total


def estimate_frames(
    text: str, *, reference_text: str | None = None, reference_frames: int | None = None, speed: float = 1.0
) -> int:
    """Audio frames (25 a second) that `text` takes, at least 1, at the rate of the reference if there is one.

    reference_text and reference_frames count only together; a reference without weight has no rate. speed > 1 is
    faster, and must be > 0.
    """
    weight = text_weight(reference_text) if reference_text and reference_frames else 0.0
    frames = reference_frames if weight and reference_frames else FALLBACK_FRAMES
    estimate = text_weight(text) / ((weight or text_weight(FALLBACK_TEXT)) / frames)
    if estimate < SHORT_FRAMES:
        estimate = SHORT_FRAMES * (estimate / SHORT_FRAMES) ** (1.0 / 3)
    return max(1, int(estimate / speed))


def rate_fault(text: str, seconds: float) -> str | None:
    """What is wrong with a transcript that nobody says in that time: "too long" or "too short"; else None."""
    rate = text_weight(text) / seconds
    if SLOWEST_RATE <= rate <= FASTEST_RATE:
        return None
    return "too long" if rate > FASTEST_RATE else "too short"
