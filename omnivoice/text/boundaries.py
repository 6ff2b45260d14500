"""Where a text may be cut, and how good each place is.

Every position of a text gets a rank: the end of a paragraph or sentence is best; inside a word, a number, a host name
or `[...]`, and between a base and its combining mark, is never. Unusual: a full stop alone proves nothing; it ends
a sentence only when no abbreviation, initial or number explains it.
Which places are used is `chunking`'s business.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from .characters import break_table, clause_marks, is_closer, is_opener, is_unspaced, sentence_ends, word_marks
from .tags import BRACKETED

NEVER, INSIDE, CHARACTER, SPACE, CLAUSE, WEAK, SENTENCE, LINE, PARAGRAPH = range(-1, 8)
"""INSIDE an overlong word; CHARACTER: between two of a script without spaces; WEAK: a doubtful stop (a small letter
follows), or a line break after no stop; LINE and PARAGRAPH: where the text's own lines end."""

_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
MAX_WORD_CHARS = 100  # more without a blank is no word, and may be cut
_MAX_ABBREVIATION_CHARS = 20
_ELLIPSES = "\u2025\u2026\u22ef"
_NON_JOINER, _JOINER = "\u200c", "\u200d"


def cut_ranks(text: str, line_starts: Mapping[int, bool]) -> list[int]:
    """The rank of cutting `text` before each of its characters; [0] is NEVER. Cuts follow blanks, never precede.

    text: one line. line_starts: where its lines began, and whether after a blank line (`clean.joined_lines`).
    """
    ranks = [NEVER, *(_pair_rank(text[i - 1], text[i]) for i in range(1, len(text)))]
    _rank_marks(text, ranks, line_starts)
    for place, blank in line_starts.items():
        ranks[place] = _line_rank(text, place, blank, ranks[place]) if ranks[place] > NEVER else NEVER
    for match in BRACKETED.finditer(text):
        ranks[match.start() + 1 : match.end()] = [NEVER] * (match.end() - match.start() - 1)
    _keep_words_whole(ranks)
    return ranks


def _keep_words_whole(ranks: list[int]) -> None:
    """Forbid cuts INSIDE whatever is a word, number or host name: all but overlong runs without a better place."""
    start = 0
    for place in [*(i for i, rank in enumerate(ranks) if rank > INSIDE), len(ranks)]:
        if place - start <= MAX_WORD_CHARS:
            ranks[start + 1 : place] = [NEVER] * (place - start - 1)
        start = place


def _pair_rank(before: str, after: str) -> int:
    """The rank of the place between two characters, marks aside."""
    if after.isspace() or _extends(after) or before == _JOINER:
        return NEVER
    if _is_mark(after) or is_closer(after) or is_opener(before):
        return INSIDE
    if before.isspace() or before in word_marks():
        return SPACE
    if not (is_unspaced(before) or is_unspaced(after)):
        return INSIDE
    glued = before.isnumeric() or after in break_table("joins_to_previous") or before in break_table("joins_to_next")
    return INSIDE if glued else CHARACTER


def _extends(char: str) -> bool:
    """Whether `char` belongs to the one before it: combining marks, joiners, skin tones, Hangul vowels and finals."""
    joined = char in (_NON_JOINER, _JOINER) or "\u1160" <= char <= "\u11ff" or "\U0001f3fb" <= char <= "\U0001f3ff"
    return joined or unicodedata.category(char)[0] == "M"


def _is_mark(char: str) -> bool:
    return char in sentence_ends() or char in clause_marks()


def _rank_marks(text: str, ranks: list[int], line_starts: Mapping[int, bool]) -> None:
    """Raise the rank after each run of marks and the closing quotes and brackets behind it."""
    place, length = 0, len(text)
    while place < length:
        start = place
        place += 1
        if not _is_mark(text[start]):
            continue
        while place < length and (_is_mark(text[place]) or _closes(text, place)):
            place += 1
        following = place
        while following < length and text[following].isspace():
            following += 1
        if following < length and ranks[following] > NEVER and _may_end(text, start, place, following):
            ranks[following] = max(ranks[following], _mark_rank(text, start, place, following, line_starts))


def _closes(text: str, place: int) -> bool:
    char, after = text[place], text[place + 1 : place + 2]
    return is_closer(char) or (char == "\u201c" and (not after or after.isspace()))  # German closes with it


def _may_end(text: str, start: int, end: int, following: int) -> bool:
    """Whether the marks [start, end) can end anything: not between two digits, and ASCII marks want a space."""
    if following > end:
        return True
    if start and text[start - 1].isnumeric() and text[following].isnumeric():
        return False
    wide = any(_is_mark(char) and char not in break_table("need_space") for char in text[start:end])
    return wide or is_unspaced(text[following])


def _mark_rank(text: str, start: int, end: int, following: int, line_starts: Mapping[int, bool]) -> int:
    run = text[start:end]
    small = _first_letter(text, following).islower()
    if run.count(".") > 1 or any(char in _ELLIPSES for char in run):
        return CLAUSE if small else WEAK
    if not any(char in sentence_ends() for char in run):
        return CLAUSE
    if text[start] == ".":
        word_start = _word_start(text, start)
        if _is_abbreviation(text, word_start, start, following, line_starts):
            return SPACE
        ordinal = start - word_start <= 2 and text[word_start:start].isnumeric()  # "am 1. Januar", or an end after all
        small = small or ordinal or text[following].isnumeric()
    return WEAK if small else SENTENCE


def _first_letter(text: str, place: int) -> str:
    while place < len(text) - 1 and (is_opener(text[place]) or text[place] in "\"'"):
        place += 1
    return text[place]


def _word_start(text: str, stop: int) -> int:
    """Where the word that ends before `stop` begins."""
    first, earliest = stop, max(0, stop - _MAX_ABBREVIATION_CHARS)
    while first > earliest and not (text[first - 1].isspace() or is_opener(text[first - 1])):
        first -= 1
    return first


def _is_abbreviation(text: str, first: int, stop: int, following: int, line_starts: Mapping[int, bool]) -> bool:
    """Whether the full stop belongs to the word [first, stop): Dr. / J. R. R. / e.g. / No. 5 / "1." before an item."""
    word = text[first : stop + 1].lstrip("\"'")
    if word in break_table("abbreviations"):
        return True
    if word in break_table("abbreviations_before_numbers"):
        return text[following].isnumeric()
    if word[:-1].isnumeric():
        return first == 0 or first in line_starts
    return word.lower() != word.upper() and _INITIALS.fullmatch(word) is not None


def _line_rank(text: str, place: int, blank: bool, rank: int) -> int:
    """The rank of a line's start: high after a stop or a blank line, low where a sentence was only wrapped."""
    if blank:
        return PARAGRAPH
    if rank >= SENTENCE:
        return LINE
    return max(rank, SPACE if text[place].islower() else WEAK)
