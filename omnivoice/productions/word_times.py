"""When each word of a transcript is said in a recording: by a recogniser, or estimated from the text and the pauses.

The estimate shares the time of the sound among the words by their weight in the estimate of durations, as `timings`
does. In addition, the pauses of the recording are matched with ends of words, ends of phrases first, so that the error
does not grow over a long recording. A word that the recogniser did not hear rightly gets its share of the time between
its neighbours that it did.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..text.duration import text_weight
from ..text.word_errors import compare, spoken_words
from .timings import TimedWord

STEP = SAMPLE_RATE // 100  # 10 ms
QUIET = 0.03  # of the peak level; below it is a pause
LEAST_PAUSE = 0.15  # seconds
NEAR_WORDS = 12  # a pause is matched with an end of a word at most that many words from where it is expected
MISSED_AT_MOST = 2  # pauses in a row that are not matched
NO_MARK, MISSED_MARK, MISSED_PAUSE = 0.25, 0.1, 0.3  # seconds of misplacement that each of these weighs
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
        return not 0 <= step < len(self.levels) or float(self.levels[step]) <= QUIET * float(self.levels.max())

    @property
    def speech_seconds(self) -> float:
        """How long the sound is without its pauses."""
        return self.last - self.first - math.fsum(end - start for start, end in self.pauses)

    def spread(self, seconds: float) -> float:
        """Return how uncertain an estimate is at a time, in the square root of seconds: nothing at a pause and at both
        ends of the sound, most in the middle between two pauses."""
        before = max((end for end in (self.first, *(end for _, end in self.pauses)) if end <= seconds), default=seconds)
        after = min((start for start in (*(a for a, _ in self.pauses), self.last) if start >= seconds), default=seconds)
        length = after - before
        return math.sqrt((seconds - before) * (after - seconds) / length) if length > 0 else 0.0


def estimated_times(words: Sequence[str], loudness: Loudness) -> list[TimedWord]:
    """Return the estimated time of each word, in seconds. words: as `differences.words_and_brackets` gives them."""
    weights = [max(text_weight(word), 0.1) for word in words]
    pace = loudness.speech_seconds / (math.fsum(weights) or 1.0)
    ends = [0.0, *accumulate(weight * pace for weight in weights)]  # in seconds of speech, without pauses
    silent, at = list[float](), 0.0
    for start, end in loudness.pauses:
        silent.append(start - loudness.first - at)
        at += end - start
    matched = _matched(words, ends, silent)
    anchors = [(0.0, 0), *((silent[pause], word) for pause, word in matched), (loudness.speech_seconds, len(words))]
    bounds = [0.0] * (len(words) + 1)
    for (time, word), (next_time, next_word) in pairwise(anchors):
        share = (next_time - time) / max(ends[next_word] - ends[word], 1e-9)
        for place in range(word, next_word + 1):
            bounds[place] = time + (ends[place] - ends[word]) * share
    return [
        TimedWord(word, _with_pauses(loudness, start, after=True), _with_pauses(loudness, end, after=False))
        for word, start, end in zip(words, bounds, bounds[1:])
    ]


def _with_pauses(loudness: Loudness, seconds: float, *, after: bool) -> float:
    """Return the time in the recording of a time of speech without pauses. after: of one that a pause begins at, its
    end."""
    time = loudness.first + seconds
    for start, end in loudness.pauses:
        if time > start + 1e-6 or (after and time > start - 1e-6):
            time += end - start
    return time


@dataclass(frozen=True)
class _Match:
    """Pause number `pause` at the end of `word` words; `cost` of it and of the matches before it, the last of which is
    `before`."""

    pause: int
    word: int
    cost: float
    before: _Match | None


def _matched(words: Sequence[str], ends: Sequence[float], pauses: Sequence[float]) -> list[tuple[int, int]]:
    """Return (pause, number of words before it) in order, for the pauses that are between words.

    The cost of a match is how much the speech since the match before differs from what is expected, and what was left
    out. ends: of the words, and pauses, both in seconds of speech without pauses.
    """
    marked = [word.rstrip("\"'”’»)]")[-1:] in PHRASE_ENDS for word in words]
    marks = [0, *accumulate(map(int, marked))]

    def cost(one: _Match, pause: int, word: int, time: float) -> float:
        since = (pauses[one.pause] if one.pause >= 0 else 0.0), ends[one.word]
        missed = MISSED_PAUSE * (pause - one.pause - 1) + MISSED_MARK * (marks[max(word - 1, 0)] - marks[one.word])
        return one.cost + abs((time - since[0]) - (ends[word] - since[1])) + max(missed, 0.0)

    rows = [[_Match(-1, 0, 0.0, None)]]
    for pause, time in enumerate(pauses):
        centre = bisect_left(ends, time)
        row = []
        for word in range(max(1, centre - NEAR_WORDS), min(len(words) - 1, centre + NEAR_WORDS) + 1):
            options = [(cost(one, pause, word, time), one) for one in _earlier(rows, word)]
            if options:
                least, before = min(options, key=lambda option: option[0])
                row.append(_Match(pause, word, least + (0.0 if marked[word - 1] else NO_MARK), before))
        rows.append(row)
    last, every = len(pauses), [one for row in rows[-MISSED_AT_MOST - 1 :] for one in row] or rows[0]
    end: _Match | None = min(every, key=lambda one: cost(one, last, len(words), ends[-1]))
    found = list[tuple[int, int]]()
    while end is not None and end.before is not None:
        found.append((end.pause, end.word))
        end = end.before
    return found[::-1]


def _earlier(rows: Sequence[Sequence[_Match]], word: int) -> Iterator[_Match]:
    """Yield the matches of the last pauses that end before `word` words, and the start."""
    recent = rows[-MISSED_AT_MOST - 1 :]
    yield from (
        one for row in (recent if recent[0] is rows[0] else [rows[0], *recent]) for one in row if one.word < word
    )


def recognised_times(words: Sequence[str], heard: Sequence[TimedWord]) -> tuple[list[TimedWord], float]:
    """Return the time of each word by what a recogniser heard, and the share of words that it heard rightly.

    A word that it did not hear gets its share, by weight, of the time between those that it did.
    """
    said = [spoken_words(word) for word in words]
    owners = [place for place, parts in enumerate(said) for _ in parts]
    times = [one for one in heard for _ in spoken_words(one.word)]
    pairs = compare(" ".join(words), " ".join(one.word for one in heard)).pairs
    known: dict[int, tuple[float, float]] = {}
    for place, other in pairs:
        start, end = known.get(owners[place], (math.inf, -math.inf))
        known[owners[place]] = min(start, times[other].start), max(end, times[other].end)
    share = len(pairs) / max(len(owners), 1)
    last = max((one.end for one in heard), default=0.0)
    result, place = list[TimedWord](), 0
    while place < len(words):
        if place in known:
            result.append(TimedWord(words[place], *known[place]))
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
