"""Which part of a recording the model is shown for an edit, and what is said in it.

A window holds whole sentences: those of the change, and neighbours until there is enough sound to take the voice from.
More would cost time, and a model knows texts of a few sentences best. Changes whose windows meet share one. A sentence
without a stop, as in an unpunctuated transcript, is cut between words. Nothing here runs a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..constants import FRAME_RATE, HOP, SAMPLE_RATE
from ..text.boundaries import SENTENCE, cut_ranks
from ..text.clean import joined_lines
from .edit_sound import Sound
from .timings import TimedWord, sounding

EDGE_SECONDS = 0.1  # of the silence around what the model is shown
LONGEST_SECONDS = 20.0  # of a sentence that is shown whole
Range = tuple[int, int]


@dataclass(frozen=True)
class PlacedText:
    """A text on one line. words: as `timings.words_of` gives them, and where each of them ends. ranks: of a cut before
    each character, as `boundaries.cut_ranks` gives them."""

    text: str
    words: tuple[str, ...]
    ends: tuple[int, ...]
    ranks: tuple[int, ...]

    @classmethod
    def of(cls, text: str, words: Sequence[str]) -> PlacedText:
        """Find the words in the text; each is looked for after the one before it."""
        line, line_starts = joined_lines(text.strip())
        ends, at = list[int](), 0
        for word in words:
            at = line.index(word, at) + len(word)
            ends.append(at)
        return cls(line, tuple(words), tuple(ends), tuple(cut_ranks(line, line_starts)))

    def part(self, words: Range) -> str:
        """Return the text of words [first, end) and of what stands before the first and, at the end, after the last."""
        first, end = words
        start = self.ends[first - 1] if first else 0
        stop = len(self.text) if end == len(self.ends) else self.ends[end - 1] if end else 0
        return self.text[start:stop].strip()

    def sentence_starts(self) -> list[int]:
        """Return the words that begin a sentence, without the first word."""
        return [
            word + 1
            for word, (end, next_end) in enumerate(pairwise(self.ends))
            if any(rank >= SENTENCE for rank in self.ranks[end : next_end - len(self.words[word + 1]) + 1])
        ]


@dataclass(frozen=True)
class Window:
    """Words [first, end) of the old transcript, and the numbers of the changes among them."""

    words: Range
    changes: tuple[int, ...]


def windows(
    old: PlacedText, times: Sequence[TimedWord], changes: Sequence[Range], *, context_seconds: float
) -> list[Window]:
    """Return the windows of changes, in order. changes: the words of `old` that each replaces, [first, end).

    times: of each word of `old`. A window has at least `context_seconds`, as far as the recording has sentences.
    """
    if not old.words:
        return [Window((0, 0), tuple(range(len(changes))))]
    units = list(_units(old, times, changes))
    found: list[Window] = []
    for number, change in enumerate(changes):
        start, end = change if change[1] > change[0] else (max(change[0] - 1, 0), max(change[0], 1))
        first, last = _grown(units, times, _unit_of(units, start), _unit_of(units, end - 1), context_seconds)
        words = units[first][0], units[last][1]
        if found and words[0] < found[-1].words[1]:
            before = found.pop()
            both = min(before.words[0], words[0]), max(before.words[1], words[1])
            found.append(Window(both, (*before.changes, number)))
        else:
            found.append(Window(words, (number,)))
    return found


def _units(old: PlacedText, times: Sequence[TimedWord], changes: Sequence[Range]) -> Iterator[Range]:
    """Yield the sentences as ranges of words; a long one is cut at its widest gaps, outside of the changes."""
    starts = [0, *old.sentence_starts(), len(old.words)]
    for first, end in pairwise(starts):
        yield from _cut((first, end), times, changes)


def _cut(words: Range, times: Sequence[TimedWord], changes: Sequence[Range]) -> Iterator[Range]:
    first, end = words
    if end - first < 2 or times[end - 1].end - times[first].start <= LONGEST_SECONDS:
        yield words
        return
    middle, length = (times[first].start + times[end - 1].end) / 2, times[end - 1].end - times[first].start
    places = [
        (times[word].start - times[word - 1].end - abs(times[word].start - middle) / length, word)
        for word in range(first + 1, end)
        if not any(start < word < stop for start, stop in changes)
    ]
    if not places:
        yield words
        return
    place = max(places)[1]
    yield from _cut((first, place), times, changes)
    yield from _cut((place, end), times, changes)


def _unit_of(units: Sequence[Range], word: int) -> int:
    return next(number for number, (first, end) in enumerate(units) if first <= word < end)


def _grown(units: Sequence[Range], times: Sequence[TimedWord], first: int, last: int, context_seconds: float) -> Range:
    """Return units [first, last] with neighbours, the one before first, until they last `context_seconds`."""

    def seconds() -> float:
        return times[units[last][1] - 1].end - times[units[first][0]].start

    before = True
    while seconds() < context_seconds and (first > 0 or last < len(units) - 1):
        if (before and first > 0) or last == len(units) - 1:
            first -= 1
        else:
            last += 1
        before = not before
    return first, last


def window_frames(
    found: Sequence[Window], times: Sequence[TimedWord], spans: Sequence[Range], sound: Sound
) -> list[Range]:
    """Return the frames [first, end) of each window.

    Words meet their neighbours in the middle between the two. Of a longer silence at either end, `EDGE_SECONDS` stay: a
    model is trained on recordings that begin and end with speech. A window holds the frames that its changes open, and
    none that another window's do. spans: the opened frames [start, end) of each change, in order.
    """
    ranges, last = list[Range](), 0
    for number, window in enumerate(found):
        first, end = window.words
        start = 0.0 if first == 0 else (times[first - 1].end + times[first].start) / 2
        stop = math.inf if end >= len(times) else (times[end - 1].end + times[end].start) / 2
        low, high = _sounding(sound, int(start * FRAME_RATE), min(sound.frames, round(min(stop * FRAME_RATE, 1e9))))
        most = sound.frames if number + 1 == len(found) else spans[found[number + 1].changes[0]][0]
        opened = spans[window.changes[0]][0], spans[window.changes[-1]][1]
        ranges.append((max(last, min(low, opened[0])), min(most, max(high, opened[1]))))
        last = opened[1]
    return ranges


def _sounding(sound: Sound, first: int, end: int) -> Range:
    """Return frames [first, end) without the silence at both ends but `EDGE_SECONDS` of it."""
    if first >= end:
        return first, end
    heard = sounding(sound.samples[:, first * HOP : end * HOP])
    edges = heard[0] / SAMPLE_RATE - EDGE_SECONDS, heard[1] / SAMPLE_RATE + EDGE_SECONDS
    return first + max(0, int(edges[0] * FRAME_RATE)), min(end, first + math.ceil(edges[1] * FRAME_RATE))


def new_range(words: Range, changes: Sequence[tuple[Range, Range]]) -> Range:
    """Return the words of the new text that take the place of words [first, end) of the old one.

    changes: (words of the old text, words of the new text) of each change, in order. A window holds whole changes.
    """
    first, end = words
    added_before = sum(new[1] - new[0] - (old[1] - old[0]) for old, new in changes if _is_before(old, first))
    added = sum(
        new[1] - new[0] - (old[1] - old[0]) for old, new in changes if not _is_before(old, first) and old[1] <= end
    )
    return first + added_before, end + added_before + added


def _is_before(old: Range, first: int) -> bool:
    """Whether a change belongs to a window before word `first`; an insertion belongs to the word before it."""
    return old[1] <= first and (old[0] < first or (old == (first, first) and first > 0))
