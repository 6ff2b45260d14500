"""In which words two transcripts differ: the least that has to change, as ranges of their words.

Words are those of a reader: with their punctuation, each Han or kana character alone. A tag, phonemes in brackets or
any other bracket counts as a word here, because it is spoken or changes what is spoken. Two words are the same if they
differ in case, quotation marks or the like; a mark that changes how a phrase is spoken (a comma, a question mark) makes
the word before it another one. A full stop at the end of a text makes no difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..intake.cancel import cancellable
from .alignment import equal_pairs
from .characters import is_spoken, is_unspaced
from .word_errors import spoken_words

_BRACKET = re.compile(r"\[[^\[\]\n]{1,200}\]|<[^<>\n]{1,100}>|\{[^{}\n]{1,100}\}")
_WORD = re.compile(r"\S+")
_PHRASE_MARKS = {**dict.fromkeys(",，、;；:：", ","), **dict.fromkeys("?？؟", "?"), **dict.fromkeys("!！", "!")}
_STOPS = ".。．…"
Range = tuple[int, int]


@dataclass(frozen=True)
class WordChange:
    """Words [first, end) of the old text and of the new text; one of the two ranges may be empty."""

    old: Range
    new: Range


def words_and_brackets(text: str) -> list[str]:
    """Return the words of a text with their punctuation, and its brackets, in order. All are parts of the text."""
    found, at = list[str](), 0
    for match in cancellable([*_BRACKET.finditer(text), None], 256):
        for part in _WORD.findall(text[at : match.start() if match else None]):
            found += split_run(part)
        if match:
            found.append(match[0])
            at = match.end()
    return [word for word in cancellable(found, 256) if is_bracket(word) or any(map(is_spoken, word))]


def is_bracket(word: str) -> bool:
    """Whether a word of `words_and_brackets` is a bracket."""
    return _BRACKET.fullmatch(word) is not None


def split_run(run: str) -> list[str]:
    """Split a run of characters without spaces where it changes between characters that are words of their own."""
    found, start, has_word = list[str](), 0, False
    for place, char in enumerate(run):
        is_word = _is_word(char)
        if place > start and (is_word or has_word) and is_spoken(char):
            found.append(run[start:place])
            start, has_word = place, False
        has_word = has_word or is_word
    return [*found, run[start:]] if run else found


def _is_word(char: str) -> bool:
    return is_unspaced(char) and ("\u2e80" <= char <= "\u9fff" or char >= "\uf900")


def word_changes(old: Sequence[str], new: Sequence[str]) -> list[WordChange]:
    """Return what has to change to make `new` of `old`, lists of `words_and_brackets`: as few words as possible.

    Changes that touch are one.
    """
    found, at = list[WordChange](), (0, 0)
    for i, j in [*equal_pairs(_keys(old), _keys(new)), (len(old), len(new))]:
        if (i, j) != at:
            found.append(WordChange((at[0], i), (at[1], j)))
        at = i + 1, j + 1
    return found


def _keys(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Return what decides whether two words are the same."""
    return [
        (word,) if is_bracket(word) else (*spoken_words(word), _mark(word, last=place == len(words) - 1))
        for place, word in enumerate(cancellable(words, 256))
    ]


def _mark(word: str, *, last: bool) -> str:
    """Return the mark that ends a phrase after the word; "" for none, and for a stop at the end of the text."""
    for char in reversed(word):
        if char in _PHRASE_MARKS:
            return _PHRASE_MARKS[char]
        if char in _STOPS:
            return "" if last else "."
        if is_spoken(char):
            break
    return ""
