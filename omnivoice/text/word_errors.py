"""Compares what was to be said with what a recogniser heard, word by word.

A word is lower-cased and has no punctuation. In scripts written without spaces (Chinese, Japanese, Thai ...) each
character is a word. Tags, pauses and phonemes in brackets are not words, nor are a model's own tokens. Numbers are
compared as written: "21" is not "twenty-one". Texts of more than a thousand words that differ are aligned in pieces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..intake.cancel import cancellable
from .alignment import equal_pairs
from .characters import is_spoken, is_stand_in, is_unspaced

EXACT_CELLS = 1_000_000  # pairs of words that are compared one by one, in about 100 MB
_UNSPOKEN = re.compile(r"\[[^\[\]]*\]|<[^<>\n]{1,100}>")
_IN_NUMBER = re.compile(r"(?<=\d)[.,](?=\d)")  # 1,000 and 1000 are one word
_APOSTROPHES = "'`´\N{RIGHT SINGLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}"
_POINTS = range(10, 37)  # combining classes of Hebrew and Arabic vowel points, which recognisers leave out


@dataclass(frozen=True)
class Comparison:
    """How `heard` differs from `said`, both lists of words.

    pairs: the words heard rightly, as ascending places in (said, heard). A word heard as another one is both lost and
    added. errors: the fewest words to replace, delete or insert to make one list of the other.
    """

    said: tuple[str, ...]
    heard: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    errors: int

    @property
    def right(self) -> int:
        """The number of words heard rightly."""
        return len(self.pairs)

    @property
    def lost(self) -> tuple[int, ...]:
        """The places in `said` of the words that were not heard."""
        found = {place for place, _ in self.pairs}
        return tuple(place for place in range(len(self.said)) if place not in found)

    @property
    def added(self) -> tuple[int, ...]:
        """The places in `heard` of the words that were not to be said."""
        found = {place for _, place in self.pairs}
        return tuple(place for place in range(len(self.heard)) if place not in found)


def spoken_words(text: str) -> list[str]:
    """Return the words of `text` in the form in which they are compared."""
    plain = unicodedata.normalize("NFKD", _UNSPOKEN.sub(" ", text)).casefold()
    plain = "".join(char for char in plain if unicodedata.combining(char) not in _POINTS)
    found, current = list[str](), ""
    for char in _IN_NUMBER.sub("", unicodedata.normalize("NFC", plain)):
        kind = unicodedata.category(char)
        if char in _APOSTROPHES or kind == "Cf":
            continue  # inside a word: don't, zero-width joiners
        letter = is_spoken(char) and not is_stand_in(char)
        if current and (not (letter or kind[0] == "M") or (letter and (is_unspaced(char) or is_unspaced(current[0])))):
            found.append(current)
            current = ""
        if letter or (current and kind[0] == "M"):
            current += char
    return [*found, current] if current else found


def compare(text: str, heard: str) -> Comparison:
    """Return how `heard` differs from `text`; among alignments with the fewest errors, one with the most right."""
    said_words, heard_words = spoken_words(text), spoken_words(heard)
    start = 0
    while start < min(len(said_words), len(heard_words)) and said_words[start] == heard_words[start]:
        start += 1
    errors, pairs = _aligned(said_words[start:], heard_words[start:])
    shifted = [(start + said, start + other) for said, other in pairs]
    same = [(place, place) for place in range(start)]
    return Comparison(tuple(said_words), tuple(heard_words), (*same, *shifted), errors)


def share_right(comparisons: Iterable[Comparison]) -> float:
    """Return 1 minus errors per word to be said, over all comparisons together, at least 0; 1 if there are no words."""
    found = list(comparisons)
    words, errors = sum(len(one.said) for one in found), sum(one.errors for one in found)
    return max(0.0, 1.0 - errors / words) if words else 1.0


def _aligned(said: Sequence[str], heard: Sequence[str]) -> tuple[int, list[tuple[int, int]]]:
    """Return (the errors, the pairs of equal words in such an alignment): the fewest, up to `EXACT_CELLS`; the pairs of
    longer texts are those of `alignment.equal_pairs`, which takes bounded time and memory."""
    if len(said) * len(heard) > EXACT_CELLS:
        found = equal_pairs(said, heard)
        ends = [(-1, -1), *found, (len(said), len(heard))]
        return sum(max(b[0] - a[0], b[1] - a[1]) - 1 for a, b in pairwise(ends)), found
    rows = [[(j, 0) for j in range(len(heard) + 1)]]  # (errors, minus the pairs) of each pair of prefixes
    for i, word in enumerate(cancellable(said), 1):
        above, row = rows[-1], [(i, 0)]
        for j, other in enumerate(heard, 1):
            (e, r), (up, up_right), (left, left_right) = above[j - 1], above[j], row[j - 1]
            diagonal = (e, r - 1) if word == other else (e + 1, r)
            row.append(min(diagonal, (up + 1, up_right), (left + 1, left_right)))
        rows.append(row)
    i, j, pairs = len(said), len(heard), list[tuple[int, int]]()
    while i and j:
        (e, r), same = rows[i - 1][j - 1], said[i - 1] == heard[j - 1]
        if rows[i][j] == ((e, r - 1) if same else (e + 1, r)):
            i, j = i - 1, j - 1
            pairs += [(i, j)] if same else []
        elif rows[i][j] == (rows[i - 1][j][0] + 1, rows[i - 1][j][1]):
            i -= 1
        else:
            j -= 1
    return rows[-1][-1][0], pairs[::-1]
