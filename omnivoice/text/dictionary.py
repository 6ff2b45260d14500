"""Pronunciation dictionaries: words of a text are replaced by what is to be spoken, before anything else is done to it.

A word counts where no letter, mark or digit stands next to it; scripts without spaces, such as Han and kana, have no
such borders. The longest word wins, then one whose capitals must be right, then one of the language, then the later
one. A replacement is not replaced again, and control spans (`normalise.protected`) stay as they are. Runs of white
space and the two forms of an apostrophe or of a letter with a mark count as equal.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..intake.cancel import hear_cancel
from ..types import Dictionary, DictionaryEntry
from .characters import is_unspaced
from .normalise import Normalised, Replacement, protected_spans
from .normalise.result import applied
from .normalise.scripts import language_parts
from .tags import BRACKETED

_HIDDEN = "\ufffc"  # stands for each character of a control span
_HEARD_EVERY = 1_024  # letters, after which Cancel is asked for
_JAMO = ("\u1160", "\u11ff")  # vowels and final consonants of Korean, which NFC joins to the letter before them


@dataclass(frozen=True)
class Respelled:
    """A text with replacements, and the entries that made them."""

    result: Normalised
    used: frozenset[DictionaryEntry] = frozenset()


def respelled(text: str, dictionary: Dictionary, language: str | None, *, tokens: Collection[str] = ()) -> Respelled:
    """Return `text` with the words of the dictionary replaced.

    language: the id of the text's language; None = that of the letters, line by line, as normalisation finds it.
    tokens: strings that the model knows as tokens of their own, which stay.
    """
    visible = list(text)
    for start, end in protected_spans(text, tokens):
        visible[start:end] = _HIDDEN * (end - start)
    masked = "".join(visible)
    parts = [(0, len(text), language)] if language else language_parts(masked)
    found: list[Replacement] = []
    used: set[DictionaryEntry] = set()
    brackets = [match.span() for match in BRACKETED.finditer(masked)]
    for start, end, entry in _words(masked, _index(dictionary), parts):
        if "[" in entry.replacement and any(begin < start and end < stop for begin, stop in brackets):
            continue  # phonemes in brackets cannot stand in other brackets
        used.add(entry)
        if text[start:end] != entry.replacement:
            found.append(Replacement(start, end, entry.replacement))
    return Respelled(applied(text, found), frozenset(used))


def merged(first: Dictionary, second: Dictionary) -> tuple[Dictionary, tuple[str, ...]]:
    """Return both dictionaries as one, and the words for which `second` has another replacement than `first`."""
    before = {_identity(entry): entry for entry in first.entries}
    after = {_identity(entry): entry for entry in second.entries}
    changed = [
        entry.word for key, entry in after.items() if key in before and before[key].replacement != entry.replacement
    ]
    kept = [entry for key, entry in before.items() if key not in after]
    return Dictionary((*kept, *second.entries)), tuple(changed)


def entry_key(entry: DictionaryEntry) -> str:
    """Return the word of an entry in the form in which two of them are compared."""
    exact = _plain(entry.word)[0]
    return "".join(exact if entry.exact_case else map(_lower, exact))


def _identity(entry: DictionaryEntry) -> tuple[str, str | None, bool]:
    return entry_key(entry), entry.language, entry.exact_case


class _Index:
    """Finds the entries of a dictionary by the lower-case spelling of their words."""

    def __init__(self, entries: Iterable[DictionaryEntry]) -> None:
        self.entries: dict[str, list[tuple[str, DictionaryEntry]]] = {}
        lengths: dict[str, set[int]] = {}
        for entry in entries:
            word = "".join(map(_lower, _plain(entry.word)[0]))
            self.entries.setdefault(word, []).append((entry_key(entry), entry))
            lengths.setdefault(word[:1], set()).add(len(word))
        self.lengths = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}

    def best(self, word: str, exact: str, language: str | None) -> DictionaryEntry | None:
        """Return the entry for a word in lower case that is written `exact`, None if there is none."""
        fitting = [
            (entry.exact_case, entry.language is not None, number, entry)
            for number, (key, entry) in enumerate(self.entries.get(word, ()))
            if entry.language in (None, language) and (not entry.exact_case or key == exact)
        ]
        return max(fitting, key=lambda one: one[:3])[3] if fitting else None


@lru_cache(maxsize=4)
def _index(dictionary: Dictionary) -> _Index:
    return _Index(dictionary.entries)


def _words(
    text: str, index: _Index, parts: Sequence[tuple[int, int, str | None]]
) -> Iterator[tuple[int, int, DictionaryEntry]]:
    """Yield (start, end, entry) of the words in `text`, in order and without overlap. parts: see `language_parts`."""
    exact, places = _plain(text)
    units = [*map(_lower, exact)]
    starts = [start for start, _, _ in parts]
    at = 0
    while at < len(units):
        if at % _HEARD_EVERY == 0:
            hear_cancel()
        for size in index.lengths.get(units[at][:1], ()):
            end = _end(units, at, size)
            if not end or _is_part(exact, at, end):
                continue
            language = parts[bisect_right(starts, places[at][0]) - 1][2]
            entry = index.best("".join(units[at:end]), "".join(exact[at:end]), language)
            if entry is not None:
                yield places[at][0], places[end - 1][1], entry
                at = end - 1
                break
        at += 1


def _end(units: Sequence[str], at: int, size: int) -> int:
    """Return the end of the units from `at` that together have `size` characters; 0 if there are none."""
    length = 0
    for end in range(at, len(units)):
        length += len(units[end])
        if length >= size:
            return end + 1 if length == size else 0
    return 0


def _plain(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """Return the letters of `text` in a form that can be compared, and (start, end) of each.

    A letter with its marks is one, in NFC. A run of white space is one space, or two line breaks for a blank line.
    """
    units: list[str] = []
    places: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        end, space = at + 1, text[at].isspace()
        while end < len(text) and (text[end].isspace() if space else _belongs(text[end])):
            end += 1
        unit = text[at:end]
        if space:
            units.append("\n\n" if unit.count("\n") > 1 else " ")
        else:
            units.append(unicodedata.normalize("NFC", unit).replace("’", "'"))
        places.append((at, end))
        at = end
    return units, places


def _lower(unit: str) -> str:
    return unit.lower().replace("ς", "σ")  # as the capital of both becomes


def _belongs(char: str) -> bool:
    """Whether `char` is a part of the letter before it."""
    return not char.isascii() and (unicodedata.category(char)[0] == "M" or _JAMO[0] <= char <= _JAMO[1])


def _is_part(units: Sequence[str], start: int, end: int) -> bool:
    """Whether the units from `start` to `end` are a part of a longer word."""
    before = units[start - 1][-1] if start else ""
    after = units[end][0] if end < len(units) else ""
    return _joins(before, units[start][0]) or _joins(after, units[end - 1][-1])


def _joins(neighbour: str, edge: str) -> bool:
    """Whether a neighbour, "" for none, belongs to the word with this edge."""
    if not neighbour or is_unspaced(neighbour) or is_unspaced(edge):
        return False
    return unicodedata.category(neighbour)[0] in "LMN"
