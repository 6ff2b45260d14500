"""Which words of a recording are spoken again: named as they stand in its transcript, or by their time."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from ..intake.limits import MAX_VOICE_TEXT_CHARS, check_text_length, shown
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
    check_text_length(named, name="the words to speak again", limit=MAX_VOICE_TEXT_CHARS)
    plain, _, number = named.partition("#")
    wanted = spoken_words(plain)
    if not wanted:
        raise InputError(f"name the words to speak again as they stand in the transcript, got {shown(named)}")
    said = [(part, place) for place, word in enumerate(words) for part in spoken_words(word)]
    parts, owners, count = [part for part, _ in said], [place for _, place in said], len(wanted)
    found = [
        (owners[at], owners[at + count - 1] + 1)
        for at in range(len(parts) - count + 1)
        if parts[at : at + count] == wanted
        and (at == 0 or owners[at - 1] != owners[at])
        and (at + count == len(parts) or owners[at + count] != owners[at + count - 1])
    ]
    if not found:
        raise InputError(f"the words {shown(plain)} are not in the transcript: write them as they stand there")
    if not number:
        if len(found) > 1:
            name = shown(plain.strip())[1:-1]
            raise InputError(
                f"the words {shown(plain)} are {len(found)} times in the transcript: write {name}#1 for the first, "
                f"{name}#2 for the second"
            )
        return found[0]
    digits = number.strip().lstrip("0")
    if not digits.isdecimal() or not 1 <= int(digits) <= len(found):
        raise InputError(f"the number after # must be 1-{len(found)}, got {shown(number)}")
    return found[int(digits) - 1]
