"""When each word of a transcript is said in a recording: by a recogniser, or estimated from the text and the pauses.

The estimate shares the time of the sound among the words by their weight in the estimate of durations, as `timings`
does. In addition, the pauses of the recording are matched with ends of words, ends of phrases first, so that the error
does not grow over a long recording. A word that the recogniser did not hear rightly gets its share of the time between
its neighbours that it did.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import InputError
from ..intake.limits import MAX_TIMED_WORDS, check_number, shown
from ..text.alignment import equal_pairs
from ..text.duration import text_weight
from ..text.word_errors import spoken_words
from .timings import TimedWord

STEP = SAMPLE_RATE // 100  # 10 ms
QUIET = 0.03  # of the peak level; below it is a pause
LEAST_PAUSE = 0.15  # seconds
NEAR_WORDS = 12  # a pause is matched with an end of a word at most that many words from where it is expected
MISSED_AT_MOST = 2  # pauses in a row that are not matched
NO_MARK, MISSED_MARK, MISSED_PAUSE = 0.25, 0.1, 0.3  # seconds of misplacement that each of these weighs
Array = npt.NDArray[Any]
MOST_BACK = 1.0  # seconds that a recogniser's word may start before the one before it
PHRASE_ENDS = ",.;:!?…，。；：！？、؟۔।"


@dataclass(frozen=True)
class Loudness:
    """levels: the highest sample of each 10 ms of a recording, [n]. first, last: where sound begins and ends, in
    seconds. pauses: (start, end) of the pauses between, in seconds."""

    levels: Tensor
    first: float
    last: float
    pauses: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, samples: Tensor) -> Loudness:
        """Measure samples [1, N] at 24 kHz."""
        count = max(1, samples.shape[1] // STEP)
        padded = torch.nn.functional.pad(samples[0], (0, max(0, count * STEP - samples.shape[1])))
        levels = padded[: count * STEP].abs().view(count, STEP).amax(1)
        loud = (levels > QUIET * levels.max()).nonzero()[:, 0].tolist() or [0, count - 1]
        pauses = [((a + 1) / 100, b / 100) for a, b in pairwise(loud) if (b - a - 1) / 100 >= LEAST_PAUSE]
        return cls(levels, loud[0] / 100, (loud[-1] + 1) / 100, tuple(pauses))

    def is_quiet(self, step: int) -> bool:
        """Whether step `step` of 10 ms is a pause, or outside the recording."""
        return not 0 <= step < len(self.levels) or float(self.levels[step]) <= QUIET * self.peak

    @cached_property
    def peak(self) -> float:
        """The highest level."""
        return float(self.levels.max())

    @property
    def speech_seconds(self) -> float:
        """How long the sound is without its pauses."""
        return self.last - self.first - math.fsum(end - start for start, end in self.pauses)

    def spread(self, seconds: float) -> float:
        """Return how uncertain an estimate is at a time, in the square root of seconds: nothing at a pause and at both
        ends of the sound, most in the middle between two pauses."""
        ends, starts = [self.first, *(end for _, end in self.pauses)], [*(start for start, _ in self.pauses), self.last]
        place, following = bisect_right(ends, seconds), bisect_left(starts, seconds)
        before = ends[place - 1] if place else seconds
        after = starts[following] if following < len(starts) else seconds
        length = after - before
        return math.sqrt((seconds - before) * (after - seconds) / length) if length > 0 else 0.0


def estimated_times(words: Sequence[str], loudness: Loudness) -> list[TimedWord]:
    """Return the estimated time of each word, in seconds. words: as `differences.words_and_brackets` gives them."""
    weights = [max(text_weight(word), 0.1) for word in words]
    pace = loudness.speech_seconds / (math.fsum(weights) or 1.0)
    ends = [0.0, *accumulate(weight * pace for weight in weights)]  # in seconds of speech, without pauses
    added = [0.0, *accumulate(end - start for start, end in loudness.pauses)]
    silent = [start - loudness.first - before for (start, _), before in zip(loudness.pauses, added)]
    matched = _matched(words, ends, silent)
    anchors = [(0.0, 0), *((silent[pause], word) for pause, word in matched), (loudness.speech_seconds, len(words))]
    bounds = [0.0] * (len(words) + 1)
    for (time, word), (next_time, next_word) in pairwise(anchors):
        share = (next_time - time) / max(ends[next_word] - ends[word], 1e-9)
        for place in range(word, next_word + 1):
            bounds[place] = time + (ends[place] - ends[word]) * share

    def in_recording(seconds: float, nearly: float) -> float:
        """Return the time in the recording; nearly: > 0 to be after a pause that begins there, < 0 to be before it."""
        return loudness.first + seconds + added[bisect_left(silent, seconds + nearly)]

    return [
        TimedWord(word, in_recording(start, 1e-6), in_recording(end, -1e-6))
        for word, start, end in zip(words, bounds, bounds[1:])
    ]


@dataclass(frozen=True, eq=False)
class _Row:
    """Matches of pause number `pause`, each with the end of one word.

    words: how many words are before it, [n]. costs: of it and of all matches before it, [n]. before: (row, place) of
    the match before it, [n, 2].
    """

    pause: int
    words: Array
    costs: Array
    before: Array


def _matched(words: Sequence[str], ends: Sequence[float], pauses: Sequence[float]) -> list[tuple[int, int]]:
    """Return (pause, number of words before it) in order, for the pauses that are between words.

    The cost of a match is how much the speech since the match before differs from what is expected, and what was left
    out. ends: of the words, and pauses, both in seconds of speech without pauses.
    """
    marked = np.array([word.rstrip("\"'”’»)]")[-1:] in PHRASE_ENDS for word in words], dtype=bool)
    marks, expected, times = np.concatenate(([0], marked.cumsum())), np.asarray(ends), np.array([*pauses, 0.0])
    rows = [_Row(-1, np.zeros(1, np.int64), np.zeros(1), np.zeros((1, 2), np.int64))]

    def best(near: Sequence[int], pause: int, ending: Array, time: float) -> tuple[Array, Array]:
        """Return the least cost of a match at the end of `ending` [n] words, and (row, place) of the match before, in
        one of the rows `near`."""
        earlier, costs = (np.concatenate([getattr(rows[n], name) for n in near]) for name in ("words", "costs"))
        number = np.repeat([rows[n].pause for n in near], [len(rows[n].words) for n in near])
        since = np.where(number >= 0, times[number], 0.0)
        missed = MISSED_PAUSE * (pause - number - 1) + MISSED_MARK * (
            marks[np.maximum(ending - 1, 0)][:, None] - marks[earlier]
        )
        total = costs + np.abs((time - since) - (expected[ending][:, None] - expected[earlier])) + np.maximum(missed, 0)
        total = np.where(earlier < ending[:, None], total, np.inf)
        place = total.argmin(1)
        where = np.array([(n, k) for n in near for k in range(len(rows[n].words))])
        return total.min(1), where[place]

    def recent() -> range:
        return range(max(0, len(rows) - MISSED_AT_MOST - 1), len(rows))

    for pause, time in enumerate(pauses):
        centre = bisect_left(ends, time)
        ending = np.arange(max(1, centre - NEAR_WORDS), min(len(words) - 1, centre + NEAR_WORDS) + 1)
        costs, before = best(sorted({0, *recent()}), pause, ending, time)
        possible = np.isfinite(costs)
        costs = costs + np.where(marked[ending - 1], 0.0, NO_MARK)
        rows.append(_Row(pause, ending[possible], costs[possible], before[possible]))
    near = recent() if any(len(rows[number].words) for number in recent()) else range(1)
    return _traced(rows, best(near, len(pauses), np.array([len(words)]), ends[-1])[1][0])


def _traced(rows: Sequence[_Row], last: Array) -> list[tuple[int, int]]:
    """Return (pause, number of words) of the match `last`, (row, place), and of those before it, in order."""
    found, (row, place) = list[tuple[int, int]](), last.tolist()
    while row > 0:
        found.append((rows[row].pause, int(rows[row].words[place])))
        row, place = rows[row].before[place].tolist()
    return found[::-1]


def check_word_times(times: object) -> None:
    """Raise InputError for anything but the words of one recording with their times, in order."""
    if not isinstance(times, (tuple, list)):
        raise InputError(f"word_times must be a list of TimedWord, got {shown(times)}")
    if len(times) > MAX_TIMED_WORDS:
        raise InputError(f"word_times must be at most {MAX_TIMED_WORDS} words, got {len(times)}: edit a shorter part")
    latest = 0.0
    for one in times:
        if not isinstance(one, TimedWord) or not isinstance(one.word, str):
            raise InputError(f"word_times must be a list of TimedWord with texts, got {shown(one)} among them")
        start, end = (check_number("seconds", at, shown_as="the seconds of a word") for at in (one.start, one.end))
        if end < start:
            raise InputError(f"the word {shown(one.word)} ends before it starts, at {start:g}-{end:g} s: correct it")
        if start < latest - MOST_BACK:
            raise InputError(
                f"the times of the words must be in order, got {shown(one.word)} at {start:g} s after a word at "
                f"{latest:g} s: take those of this recording"
            )
        latest = max(latest, start)


def recognised_times(words: Sequence[str], heard: Sequence[TimedWord]) -> tuple[list[TimedWord], float]:
    """Return the time of each word by what a recogniser heard, and the share of words that it heard rightly.

    A word that it did not hear gets its share, by weight, of the time between those that it did.
    """
    said = [spoken_words(word) for word in words]
    owners = [place for place, parts in enumerate(said) for _ in parts]
    parts_heard = [spoken_words(one.word) for one in heard]
    times = [one for one, parts in zip(heard, parts_heard) for _ in parts]
    pairs = equal_pairs([part for parts in said for part in parts], [part for parts in parts_heard for part in parts])
    known: dict[int, tuple[float, float]] = {}
    for place, other in pairs:
        start, end = known.get(owners[place], (math.inf, -math.inf))
        known[owners[place]] = min(start, times[other].start), max(end, times[other].end)
    share = len(pairs) / max(len(owners), 1)
    last = max((one.end for one in heard), default=0.0)
    result, place = list[TimedWord](), 0
    while place < len(words):
        if place in known:
            start = max(known[place][0], result[-1].start if result else 0.0)
            result.append(TimedWord(words[place], start, max(start, known[place][1])))
            place += 1
            continue
        following = next((other for other in range(place, len(words)) if other in known), len(words))
        start = result[-1].end if result else 0.0
        end = max(start, known[following][0] if following < len(words) else last)
        weights = [max(text_weight(word), 0.1) for word in words[place:following]]
        bounds = [start, *(start + (end - start) * part / math.fsum(weights) for part in accumulate(weights))]
        result += [TimedWord(*one) for one in zip(words[place:following], bounds, bounds[1:])]
        place = following
    return result, share
