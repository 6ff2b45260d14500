"""Which words of a recording are spoken again: named as they stand in its transcript, or by their time."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..intake.limits import shown
from ..text.differences import WordChange
from ..text.word_errors import spoken_words
from .edit_windows import Range
from .timings import TimedWord


def words_again(
    words: Sequence[str], times: Sequence[TimedWord], spans: Sequence[tuple[float, float]], again: str
) -> list[WordChange]:
    """Return the words that are spoken again, as changes; raises InputError if they are not named, or in both ways.

    spans: (start, end) in seconds. again: the words, see `named_words`.
    """
    if spans and again:
        raise InputError("name the words to speak again or give their span in seconds: leave out one of the two")
    if again:
        named = named_words(words, again)
        return [WordChange(named, named)]
    if not spans:
        raise InputError("nothing to change: the two texts say the same; to speak words again, use redo")
    found = []
    for start, end in spans:
        inside = [word for word, time in enumerate(times) if time.end > start and time.start < end]
        inside = inside or [min(range(len(times)), key=lambda word: abs(times[word].start - start))]
        found.append(WordChange((inside[0], inside[-1] + 1), (inside[0], inside[-1] + 1)))
    return found


def named_words(words: Sequence[str], named: str) -> Range:
    """Return the places [first, end) of words that are named as they stand in the text, in any case and punctuation.

    Words that the text has several times are numbered: "blue letters#2" are the second ones. Raises InputError.
    """
    plain, _, number = named.partition("#")
    wanted, every = spoken_words(plain), [spoken_words(word) for word in words]
    found = []
    for first in range(len(words)):
        end, said = first, list[str]()
        while end < len(words) and len(said) < len(wanted):
            said += every[end]
            end += 1
        if wanted and said == wanted and every[first]:
            found.append((first, end))
    if not found:
        raise InputError(f"the words {shown(plain)} are not in the transcript: write them as they stand there")
    if not number:
        if len(found) > 1:
            raise InputError(
                f"the words {shown(plain)} are {len(found)} times in the transcript: write {plain.strip()}#1 for the "
                f"first, {plain.strip()}#2 for the second"
            )
        return found[0]
    if not number.strip().isdecimal() or not 1 <= int(number) <= len(found):
        raise InputError(f"the number after # must be 1-{len(found)}, got {shown(number)}")
    return found[int(number) - 1]
