"""Ranks every position of a text by how well it can be cut there.

The end of a paragraph or sentence is best. A text is never cut inside a word, a number, a host name or `[...]`, or
before a combining mark. A full stop ends a sentence only if no abbreviation, initial or number explains it. `chunking`
decides which positions are used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from .characters import break_table, is_closer, is_opener, is_stand_in, is_unspaced, marks
from .tags import BRACKETED

NEVER, INSIDE, CHARACTER, SYLLABLE, SPACE, CLAUSE, WEAK, SENTENCE, LINE, PARAGRAPH = range(-1, 9)
"""INSIDE: inside an overlong word. CHARACTER: between two characters of a script without spaces. SYLLABLE: before a
leading vowel of Thai or Lao, which starts a syllable. WEAK: after a doubtful stop (a lower-case letter follows), or at
a line break with no stop before it. LINE and PARAGRAPH: at the text's own line breaks."""

_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
MAX_WORD_CHARS = 100  # longer runs without a space are not words and may be cut
_MAX_ABBREVIATION_CHARS = 20
_ELLIPSES = "‥…⋯"
_NON_JOINER, _JOINER = "\N{ZERO WIDTH NON-JOINER}", "\N{ZERO WIDTH JOINER}"


def cut_ranks(text: str, line_starts: Mapping[int, bool]) -> list[int]:
    """Return the rank of a cut before each character of `text`; the first is NEVER. Cuts come after spaces.

    text: one line. line_starts: {start of an original line: whether a blank line came before it}, from
    `clean.joined_lines`.
    """
    ranks = [NEVER, *(_pair_rank(text[i - 1], text[i]) for i in range(1, len(text)))]
    _rank_marks(text, ranks, line_starts)
    for place, blank in line_starts.items():
        ranks[place] = _line_rank(text, place, blank, ranks[place]) if ranks[place] > NEVER else NEVER
    for match in BRACKETED.finditer(text):
        ranks[match.start() + 1 : match.end()] = [NEVER] * (match.end() - match.start() - 1)
    _forbid_cuts_in_words(ranks)
    return ranks


def _forbid_cuts_in_words(ranks: list[int]) -> None:
    """Turn INSIDE into NEVER in words, numbers and host names: in all but overlong runs without a better place."""
    start = 0
    for place in [*(i for i, rank in enumerate(ranks) if rank > INSIDE), len(ranks)]:
        if place - start <= MAX_WORD_CHARS:
            ranks[start + 1 : place] = [NEVER] * (place - start - 1)
        start = place


def _pair_rank(before: str, after: str) -> int:
    """Return the rank of a cut between two characters, without regard to punctuation."""
    if after.isspace() or _extends(after) or before == _JOINER:
        return NEVER
    if _is_mark(after) or is_closer(after) or is_opener(before):
        return INSIDE
    if before.isspace() or before in marks("word_marks"):
        return SPACE
    if is_stand_in(before) or is_stand_in(after) or not (is_unspaced(before) or is_unspaced(after)):
        return INSIDE  # a token belongs to the word that it touches
    leading_vowels = break_table("joins_to_next")
    if before.isnumeric() or after in break_table("joins_to_previous") or before in leading_vowels:
        return INSIDE
    return SYLLABLE if after in leading_vowels else CHARACTER


def _extends(char: str) -> bool:
    """Whether `char` extends the one before it: combining marks, joiners, skin tones, Hangul vowels and finals."""
    hangul = "\N{HANGUL JUNGSEONG FILLER}" <= char <= "\N{HANGUL JONGSEONG SSANGNIEUN}"
    skin_tone = "\N{EMOJI MODIFIER FITZPATRICK TYPE-1-2}" <= char <= "\N{EMOJI MODIFIER FITZPATRICK TYPE-6}"
    return char in (_NON_JOINER, _JOINER) or hangul or skin_tone or unicodedata.category(char)[0] == "M"


def _is_mark(char: str) -> bool:
    return char in marks("sentence_ends") or char in marks("clause_marks")


def _rank_marks(text: str, ranks: list[int], line_starts: Mapping[int, bool]) -> None:
    """Raise the rank after each run of punctuation and the closing quotes and brackets that follow it."""
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
    closes_german = char == "“" and (not after or after.isspace())
    return is_closer(char) or is_stand_in(char) or closes_german


def _may_end(text: str, start: int, end: int, following: int) -> bool:
    """Whether the marks [start, end) can end a clause: not between two digits, and ASCII marks need a space."""
    if following > end:
        return True
    if start and text[start - 1].isnumeric() and text[following].isnumeric():
        return False
    wide = any(_is_mark(char) and char not in break_table("need_space") for char in text[start:end])
    return wide or is_unspaced(text[following])


def _mark_rank(text: str, start: int, end: int, following: int, line_starts: Mapping[int, bool]) -> int:
    """Return the rank of a cut after the marks [start, end)."""
    run = text[start:end]
    first_letter = _first_letter(text, following)
    lower_case = first_letter.islower()
    if run.count(".") > 1 or any(char in _ELLIPSES for char in run):
        return CLAUSE if lower_case else SENTENCE if first_letter.isupper() else WEAK
    if not any(char in marks("sentence_ends") for char in run):
        return CLAUSE
    if text[start] == ".":
        word_start = _word_start(text, start)
        if _is_abbreviation(text, word_start, start, following, line_starts):
            return SPACE
        ordinal = start - word_start <= 2 and text[word_start:start].isnumeric()  # "am 1. Januar", or a sentence's end
        lower_case = lower_case or ordinal or text[following].isnumeric()
    return WEAK if lower_case else SENTENCE


def _first_letter(text: str, place: int) -> str:
    while place < len(text) - 1 and (is_opener(text[place]) or is_stand_in(text[place]) or text[place] in "\"'¿¡"):
        place += 1
    return text[place]


def _word_start(text: str, stop: int) -> int:
    """Return where the word that ends before `stop` starts."""
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
    """Return the rank of a line's start: high after a stop or a blank line, low where a sentence was wrapped."""
    if blank:
        return PARAGRAPH
    if rank >= SENTENCE:
        return LINE
    return max(rank, SPACE if text[place].islower() else WEAK)
