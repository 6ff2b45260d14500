"""Where the words of an edit are in the recording: the frames to open, and how many take their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from ..constants import FRAME_RATE, HOP, SAMPLE_RATE
from ..errors import InputError, TextError
from ..intake.limits import check_number, shown
from ..text.characters import is_spoken
from ..text.duration import text_weight
from ..text.rules import TextRules
from ..text.word_errors import spoken_words
from .edit_sound import Sound
from .edit_windows import PlacedText, Range
from .timings import TimedWord, estimated_words, sounding, words_of

WIDER = 3.5  # frames that an estimated span is opened wider on each side
FEWEST = 3  # frames of a filled span


@dataclass(frozen=True)
class Span:
    """One change, in frames of the recording. old, new: words [first, end) of the two texts. start, end: the frames to
    open. frames: how many take their place; 0 = they are cut out. found: how its place was found."""

    old: Range
    new: Range
    start: int
    end: int
    frames: int
    found: str


@dataclass(frozen=True)
class FoundWords:
    """The two texts, the time of each word of the old one in seconds, and the changes in order."""

    old: PlacedText
    new: PlacedText
    times: tuple[TimedWord, ...]
    spans: tuple[Span, ...]
    warnings: tuple[str, ...] = ()


def found_words(
    sound: Sound,
    old_text: str,
    new_text: str,
    rules: TextRules,
    *,
    spans: Sequence[tuple[float, float]] = (),
    again: str = "",
    word_times: Sequence[TimedWord] = (),
    seconds: float | None = None,
) -> FoundWords:
    """Return the changes of a recording that says `old_text` and is to say `new_text`; see `edit.EditRequest`."""
    old_words, new_words = words_of(old_text, rules), words_of(new_text, rules)
    for name, words in (("the transcript", old_words), ("the new text", new_words)):
        if not any(map(is_spoken, "".join(words))):
            raise TextError(f"{name} has no word: write what is said")
    if seconds is not None:
        seconds = check_number("duration", seconds, shown_as="seconds")
    first, last = sounding(sound.samples)
    times = tuple(estimated_words(old_text, first / SAMPLE_RATE, last / SAMPLE_RATE, rules))
    old, new = PlacedText.of(old_text, old_words), PlacedText.of(new_text, new_words)
    if old_words == new_words:
        if again:
            return FoundWords(old, new, times, (_spoken_again(sound, times, named_words(old.words, again)),))
        if not spans:
            raise InputError("nothing to change: the two texts say the same; to speak words again, use redo")
        return FoundWords(old, new, times, tuple(_given(times, span) for span in spans))
    if again:
        raise InputError("words can be spoken again where both texts are the same: leave out the new text")
    pace = (last - first) / HOP / text_weight(old_text)
    found = []
    for kind, i0, i1, j0, j1 in SequenceMatcher(None, old_words, new_words, autojunk=False).get_opcodes():
        if kind != "equal":
            start = times[i0].start if i0 < len(times) else times[-1].end
            end = times[i1 - 1].end if i1 > i0 else start
            wider = 0.0 if kind == "delete" else WIDER
            opened = max(0, int(start * FRAME_RATE - wider)), min(sound.frames, math.ceil(end * FRAME_RATE + wider))
            longer = pace * (text_weight(" ".join(new_words[j0:j1])) - text_weight(" ".join(old_words[i0:i1])))
            frames = 0 if kind == "delete" else max(FEWEST, round(opened[1] - opened[0] + longer))
            found.append(Span((i0, i1), (j0, j1), *opened, frames, "estimated"))
    if seconds is not None:
        if len(found) != 1:
            raise InputError(f"seconds needs one change, and the texts differ in {len(found)} places: leave it out")
        found = [replace(found[0], frames=max(1, round(seconds * FRAME_RATE)))]
    return FoundWords(old, new, times, tuple(found))


def _given(times: Sequence[TimedWord], span: tuple[float, float]) -> Span:
    """Return a span that is spoken again."""
    inside = [word for word, time in enumerate(times) if time.end > span[0] and time.start < span[1]] or [0]
    start, end = round(span[0] * FRAME_RATE), max(round(span[0] * FRAME_RATE) + 1, round(span[1] * FRAME_RATE))
    words = inside[0], inside[-1] + 1
    return Span(words, words, start, end, end - start, "given")


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


def _spoken_again(sound: Sound, times: Sequence[TimedWord], words: Range) -> Span:
    """Return the span of words that are spoken again."""
    start = max(0, int(times[words[0]].start * FRAME_RATE - WIDER))
    end = min(sound.frames, math.ceil(times[words[1] - 1].end * FRAME_RATE + WIDER))
    return Span(words, words, start, end, end - start, "estimated")


def window_frames(sound: Sound, times: Sequence[TimedWord], words: Range) -> tuple[int, int]:
    """Return the frames [first, end) of words [first, end): they meet other words in the middle between the two."""
    first, end = words
    start = 0.0 if first == 0 else (times[first - 1].end + times[first].start) / 2
    stop = math.inf if end >= len(times) else (times[end - 1].end + times[end].start) / 2
    return int(start * FRAME_RATE), min(sound.frames, round(min(stop * FRAME_RATE, 1e9)))


def parse_spans(text: str) -> tuple[tuple[float, float], ...]:
    """Return the (start, end) in seconds of "1.2-1.85, 3-4"; raises InputError."""
    found = []
    for part in filter(str.strip, text.split(",")):
        try:
            start, _, end = part.partition("-")
            pair = float(start), float(end)
        except ValueError:
            raise InputError(f"span must be seconds such as 1.2-1.85, got {shown(part)}") from None
        found.append((float(check_number("seconds", pair[0])), float(check_number("seconds", pair[1]))))
    return tuple(found)
