"""Classifies characters: sentence ends, clause marks, Han, scripts without spaces, characters that can be spoken.

Some sets come from Unicode properties that Python's `unicodedata` lacks, and are in `breaks.json`. Letters, digits and
marks come from `unicodedata`. Only `end_punctuation` changes a text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import cache, lru_cache
from typing import cast

from ..intake.tables import load_table

HAN = "\u4e00-\u9fff"  # upstream's range for Chinese, as a regex class (models/omnivoice.py:1716)
TATWEEL = "\N{ARABIC TATWEEL}"  # lengthens a written Arabic word and is not spoken
IDEOGRAPHIC_FULL_STOP = "。"
_HAN = re.compile(f"[{HAN}]")
FIRST_STAND_IN = 0x100000  # Unicode's last plane is for private use, and stands for a model's own tokens here
STAND_INS = re.compile("[\U00100000-\U0010ffff]")


@cache
def break_table(name: str) -> tuple[str, ...]:
    """Return the entries of one list in breaks.json."""
    return tuple(cast("dict[str, list[str]]", load_table("text/breaks.json"))[name])


@cache
def upstream_table(name: str) -> tuple[str, ...]:
    """Return the entries (characters or words) of one of upstream's own tables in breaks.json."""
    return tuple(cast("dict[str, dict[str, str]]", load_table("text/breaks.json"))["upstream"][name])


@cache
def _ranges(name: str) -> tuple[tuple[int, int], ...]:
    pairs = (entry.partition("-") for entry in break_table(name))
    return tuple(sorted((int(first, 16), int(last or first, 16)) for first, _, last in pairs))


@cache
def marks(name: str) -> frozenset[str]:
    """Return the marks of all scripts that have one role.

    "sentence_ends": full stops, question marks and exclamation marks (Unicode Sentence_Break STerm and ATerm).
    "clause_marks": commas, colons, semicolons, dashes and ellipses (the rest of Terminal_Punctuation). "word_marks":
    visible word separators, such as the Ethiopic wordspace and the Tibetan tsheg.
    """
    return frozenset(chr(code) for first, last in _ranges(name) for code in range(first, last + 1))


def has_han(text: str) -> bool:
    """Whether upstream takes `text` for Chinese: it has a character in U+4E00-9FFF."""
    return _HAN.search(text) is not None


@lru_cache(maxsize=8192)
def is_unspaced(char: str) -> bool:
    """Whether `char` is of a script written without spaces (Han, kana, Thai ...) and is not a number."""
    ranges = _ranges("no_space")
    place = bisect_right(ranges, (ord(char), 0x110000)) - 1
    if place < 0 or ord(char) > ranges[place][1] or char.isnumeric():
        return False
    return char.upper() == char.lower()  # the full-width forms include cased letters


def is_closer(char: str) -> bool:
    """Whether `char` is a closing bracket or quote. “ is not: it closes in German and Czech, but opens elsewhere."""
    return char in "\"'" or unicodedata.category(char) in ("Pe", "Pf")


def is_opener(char: str) -> bool:
    """Whether `char` is an opening bracket or quote."""
    return unicodedata.category(char) in ("Ps", "Pi")


def is_spoken(char: str) -> bool:
    """Whether `char` can be spoken: a letter or a number of any script."""
    return unicodedata.category(char)[0] in "LN" and char != TATWEEL


def is_stand_in(char: str) -> bool:
    """Whether `char` stands for a token of the model's own, see `own_tokens`."""
    return ord(char) >= FIRST_STAND_IN


def is_content(char: str) -> bool:
    """Whether `char` is something to speak or to do: a letter, a number or a stand-in."""
    return is_spoken(char) or is_stand_in(char)


def end_punctuation(text: str) -> str:
    """Return `text`, stripped, with a full stop if it has no end mark: an ideographic one if it has Han, else ".".

    It is for transcripts of reference recordings (upstream utils/text.py:199). All of upstream's end marks count;
    unlike in upstream, so do those of all scripts, and those before closing quotes.
    """
    text = text.strip()
    if not text:
        return text
    comma = text[-1] in marks("clause_marks") and unicodedata.category(text[-1]) != "Pd"  # a dash is not an end mark
    if text[-1] in upstream_table("ends") or text[-1] in marks("sentence_ends") or comma:
        return text
    inner = text
    while inner and (is_closer(inner[-1]) or is_stand_in(inner[-1])):
        inner = inner[:-1]
    if inner and inner[-1] in marks("sentence_ends"):
        return text
    return text + (IDEOGRAPHIC_FULL_STOP if has_han(text) else ".")
