"""What kind of character is it: sentence end, clause mark, Han, a script without spaces, something to speak.

Unusual: the sets come from Unicode properties that Python's `unicodedata` does not have, so they lie in
`breaks.json`; letters, digits and marks come from `unicodedata`. Nothing here cuts or changes text, but for
`end_punctuation`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache, lru_cache
from typing import cast

from ..intake.tables import load_table

HAN = "\u4e00-\u9fff"  # upstream's range for Chinese, as a regex class (models/omnivoice.py:1716)
TATWEEL = "\u0640"  # lengthens an Arabic word on paper only
IDEOGRAPHIC_FULL_STOP = "\u3002"
_HAN = re.compile(f"[{HAN}]")


@cache
def break_table(name: str) -> tuple[str, ...]:
    """The entries of one list of breaks.json."""
    return tuple(cast("dict[str, list[str]]", load_table("text/breaks.json"))[name])


@cache
def upstream_table(name: str) -> tuple[str, ...]:
    """The entries (characters or words) of one of upstream's own tables in breaks.json."""
    return tuple(cast("dict[str, dict[str, str]]", load_table("text/breaks.json"))["upstream"][name])


@cache
def _ranges(name: str) -> tuple[tuple[int, int], ...]:
    pairs = (entry.partition("-") for entry in break_table(name))
    return tuple(sorted((int(first, 16), int(last or first, 16)) for first, _, last in pairs))


@cache
def _marks(name: str) -> frozenset[str]:
    return frozenset(chr(code) for first, last in _ranges(name) for code in range(first, last + 1))


def sentence_ends() -> frozenset[str]:
    """Full stops, question and exclamation marks of all scripts (Unicode Sentence_Break STerm and ATerm)."""
    return _marks("sentence_ends")


def clause_marks() -> frozenset[str]:
    """Commas, colons, semicolons of all scripts, dashes and ellipses (Unicode Terminal_Punctuation, the rest)."""
    return _marks("clause_marks")


def word_marks() -> frozenset[str]:
    """Visible word separators: Ethiopic wordspace, Tibetan tsheg and their like."""
    return _marks("word_marks")


def has_han(text: str) -> bool:
    """Whether `text` counts as Chinese for upstream: it has a character of U+4E00-9FFF."""
    return _HAN.search(text) is not None


@lru_cache(maxsize=8192)
def is_unspaced(char: str) -> bool:
    """Whether `char` belongs to a script written without spaces (Han, kana, Thai ...), and is no number there."""
    ranges = _ranges("no_space")
    place = bisect_right(ranges, (ord(char), 0x110000)) - 1
    if place < 0 or ord(char) > ranges[place][1] or char.isnumeric():
        return False
    return char.upper() == char.lower()  # the full-width forms hold cased letters too


def is_closer(char: str) -> bool:
    """Whether `char` is a closing bracket or quote (U+201C closes in German and Czech, but opens elsewhere)."""
    return char in "\"'" or unicodedata.category(char) in ("Pe", "Pf")


def is_opener(char: str) -> bool:
    """Whether `char` is an opening bracket or quote."""
    return unicodedata.category(char) in ("Ps", "Pi")


def is_spoken(char: str) -> bool:
    """Whether `char` gives the model something to say: a letter or a number of any script."""
    return unicodedata.category(char)[0] in "LN" and char != TATWEEL


def end_punctuation(text: str) -> str:
    """`text`, stripped, with a full stop if it has no end mark: an ideographic one if it has Han, else ".".

    For transcripts of reference recordings (upstream utils/text.py:199). What upstream takes for an end mark counts;
    unlike it, so do the end marks of all scripts, and those behind closing quotes.
    """
    text = text.strip()
    if not text:
        return text
    comma = text[-1] in clause_marks() and unicodedata.category(text[-1]) != "Pd"  # a dash ends nothing
    if text[-1] in upstream_table("ends") or text[-1] in sentence_ends() or comma:
        return text
    inner = text
    while inner and is_closer(inner[-1]):
        inner = inner[:-1]
    if inner and inner[-1] in sentence_ends():
        return text
    return text + (IDEOGRAPHIC_FULL_STOP if has_han(text) else ".")
