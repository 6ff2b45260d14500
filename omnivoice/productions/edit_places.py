"""Where the words of an edit are in the recording: the frames to open, and how many take their place.

The edges of a word that was found by estimate move outwards, to a pause if there is one near, or else to the quietest
place within the error of the estimate: a bit of a neighbour that is opened too is spoken again, while a rest of the old
word would be heard. A word that is deleted is cut at the quietest places near its edges.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..constants import FRAME_RATE
from ..errors import InputError, TextError
from ..intake.limits import MAX_EDITS, MAX_ORDER_CHARS, check_number, check_text_length, shown
from ..text.characters import is_spoken
from ..text.differences import WordChange, is_bracket, word_changes, words_and_brackets
from ..text.duration import estimate_frames, rate_fault, text_weight
from ..text.rules import TextRules
from .edit_again import words_again
from .edit_sound import Sound
from .edit_spans import check_spans, given_ranges, time_between, times_in_spans
from .edit_windows import PlacedText, Range
from .timings import ESTIMATED, RECOGNISED, TimedWord
from .word_times import Loudness, check_word_times, estimated_times, recognised_times

DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"), "-")
GIVEN = "given"
FEWEST = 3  # frames of a filled span
NEAREST = 5  # frames between two spans; nearer ones are one
LEAST_RIGHT = 0.5  # of the words of a transcript that the recogniser heard
STEPS = 100  # a second, of `Loudness`
PAUSE_STEPS = 25  # how far away a pause attracts an edge
LEAST_QUIET = 8  # steps of such a pause; the closure of a "p", "t" or "k" inside a word is shorter
CUT_STEPS, CUT_WEIGHT = 2, 15.0  # a deletion is cut that near an edge; one error away weighs as much as 15 dB


# How far an estimated edge may be from the true one, at least and at most, as a share of the square root of the seconds
# of sound that separate it from the pauses on both sides; measured on espeak-ng's own times of words.
ESTIMATED_REACH = (0.2, 0.3)
RECOGNISED_REACH = (2, 6)  # steps
LEAST_REACH = (3, 6)  # steps of an estimated edge at a pause


ESTIMATED_CUT = (
    "where the deleted words begin and end is estimated: if a piece of them stays or a neighbour is cut, give the "
    "times of the words from a recogniser, or the span in seconds"
)


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
    """Return the changes of a recording that says `old_text` and is to say `new_text`; see `edit.EditRequest`.

    Raises TextError for a text without a word, InputError for texts that are the same, for a transcript that cannot be
    that of the recording, and for spans that do not fit.
    """
    check_spans(spans)
    check_word_times(word_times)
    old, new = _placed(old_text, "the transcript"), _placed(new_text, "the new text")
    loudness = Loudness.of(sound.samples)
    times, how, warnings = _times(old, loudness, word_times)
    changes = word_changes(old.words, new.words)
    if len(changes) > MAX_EDITS:
        raise InputError(
            f"the texts differ in {len(changes)} places, at most {MAX_EDITS} can be edited in one run: check that the "
            "transcript is what the recording says, or change fewer words at a time"
        )
    if not changes:
        changes = words_again(old.words, times, spans, again)
    elif again:
        raise InputError("words can be spoken again where both texts are the same: leave out the new text")
    pace = _pace(old.words, loudness)
    placer = _Placer(sound.frames, loudness, times, how, pace, new_pace=pace * _pace_ratio(old.words, new.words))
    if spans:
        ranges = given_ranges(changes, spans, sound.frames)
        found = [placer.given(change, new.words, range_) for change, range_ in zip(changes, ranges)]
        if old.words != new.words:
            times = times_in_spans(times, [(change.old, range_) for change, range_ in zip(changes, ranges)])
    else:
        found = _merged([placer.place(change, new.words) for change in changes])
    if seconds is not None:
        length = check_number("duration", seconds, shown_as="seconds")
        if len(found) != 1:
            raise InputError(f"seconds needs one change, and the texts differ in {len(found)} places: leave it out")
        found = [replace(found[0], frames=max(1, round(length * FRAME_RATE)))]
    if how == ESTIMATED and not spans and any(span.frames == 0 for span in found):
        warnings = (*warnings, ESTIMATED_CUT)
    return FoundWords(old, new, tuple(times), tuple(found), warnings)


def _placed(text: str, name: str) -> PlacedText:
    words = words_and_brackets(text)
    if not any(is_spoken(char) for word in words if not is_bracket(word) for char in word):
        raise TextError(f"{name} has no word: write what is said")
    return PlacedText.of(text, words)


def _times(
    old: PlacedText, loudness: Loudness, heard: Sequence[TimedWord]
) -> tuple[list[TimedWord], str, tuple[str, ...]]:
    """Return the time of each word, how it was found, and warnings; raises InputError for another's transcript."""
    if not heard:
        problem = rate_fault(old.text, max(loudness.speech_seconds, 0.01))
        if problem:
            raise InputError(
                f"the transcript is {problem} for {loudness.speech_seconds:.1f} s of speech: write exactly what the "
                "recording says, word for word"
            )
        return estimated_times(old.words, loudness), ESTIMATED, ()
    times, right = recognised_times(old.words, heard)
    if right < LEAST_RIGHT:
        raise InputError(
            f"the recogniser heard only {right:.0%} of the words of the transcript: write exactly what the recording "
            "says, and take the times of this recording"
        )
    if times[-1].end > len(loudness.levels) / STEPS + 1:
        raise InputError("the times of the words go beyond the end of the recording: take those of this recording")
    return times, RECOGNISED, ()


def _pace(words: Sequence[str], loudness: Loudness) -> float:
    """Return the frames that a recording takes for a weight of 1."""
    return loudness.speech_seconds * FRAME_RATE / max(math.fsum(map(text_weight, words)), 0.1)


def _pace_ratio(old: Sequence[str], new: Sequence[str]) -> float:
    """Return how much more time a weight of 1 takes in the new text: short texts are spoken more slowly than long ones,
    by upstream's estimate, so that a sentence of a second that becomes longer also becomes faster."""
    paces = [estimate_frames(" ".join(words)) / max(text_weight(" ".join(words)), 0.1) for words in (new, old)]
    return paces[0] / paces[1]


@dataclass(frozen=True, eq=False)
class _Placer:
    """Finds the frames of changes. pace, new_pace: frames for a weight of 1 in the recording, and in its new words."""

    frames: int
    loudness: Loudness
    times: Sequence[TimedWord]
    how: str
    pace: float
    new_pace: float

    def place(self, change: WordChange, new_words: Sequence[str]) -> Span:
        """Return the span of a change."""
        first, end = change.old
        if first == end:  # an insertion
            start = stop = time_between(self.times, first)
        else:
            start, stop = self.times[first].start, self.times[end - 1].end
        if change.new[0] == change.new[1]:  # a deletion
            cut = self._cut(start), self._cut(stop)
            return Span(change.old, change.new, *self._within(*cut), 0, self.how)
        start, stop = self._outwards(start, -1), self._outwards(stop, 1)
        a, b = self._within(math.floor(start * FRAME_RATE), math.ceil(stop * FRAME_RATE))
        return Span(change.old, change.new, a, b, self.length(change, new_words, b - a), self.how)

    def given(self, change: WordChange, new_words: Sequence[str], opened: Range) -> Span:
        """Return the span of a change whose frames are given."""
        frames = 0 if change.new[0] == change.new[1] else self.length(change, new_words, opened[1] - opened[0])
        return Span(change.old, change.new, *opened, frames, GIVEN)

    def length(self, change: WordChange, new_words: Sequence[str], opened: int) -> int:
        """Return how many frames take the place of `opened` ones."""
        weights = [sum(map(text_weight, words)) for words in (self._old(change), new_words[slice(*change.new)])]
        return max(FEWEST, round(opened + self.new_pace * weights[1] - self.pace * weights[0]))

    def _old(self, change: WordChange) -> list[str]:
        return [time.word for time in self.times[slice(*change.old)]]

    def _within(self, start: int, end: int) -> tuple[int, int]:
        start = min(max(start, 0), self.frames)
        return start, min(max(end, start), self.frames)

    def _outwards(self, seconds: float, direction: int) -> float:
        """Return where an edge of opened words is to be: a pause that is near, or the quietest place."""
        step, (least, most) = round(seconds * STEPS), self._reach(seconds)
        for distance in range(PAUSE_STEPS + 1):
            start = step + distance * direction
            if all(self.loudness.is_quiet(start + further * direction) for further in range(LEAST_QUIET)):
                return (start + LEAST_REACH[0] * direction) / STEPS
        places = [step + distance * direction for distance in range(least, most + 1)]
        return min(places, key=self._level) / STEPS

    def _reach(self, seconds: float) -> tuple[int, int]:
        """Return how many steps an edge moves outwards, at least and at most."""
        if self.how == RECOGNISED:
            return RECOGNISED_REACH
        spread = self.loudness.spread(seconds) * STEPS
        least, most = (max(least, round(share * spread)) for share, least in zip(ESTIMATED_REACH, LEAST_REACH))
        return least, max(least, most)

    def _cut(self, seconds: float) -> int:
        """Return the frame at which a recording is cut: at a low level, and near an edge of the deleted words."""
        step, error = round(seconds * STEPS), float(CUT_STEPS)
        if self.how == ESTIMATED:
            error += self.loudness.spread(seconds) * STEPS / 10
        reach = math.ceil(2 * error)

        def cost(place: int) -> float:
            return 20 * math.log10(self._level(place) + self._floor) + CUT_WEIGHT * ((place - step) / error) ** 2

        return round(min(range(step - reach, step + reach + 1), key=cost) / STEPS * FRAME_RATE)

    @property
    def _floor(self) -> float:
        return 1e-4 * self.loudness.peak + 1e-9

    def _level(self, step: int) -> float:
        """Return the level around a step, 0 outside the recording."""
        near = self.loudness.levels[max(step - 1, 0) : max(step + 2, 0)]
        return float(near.sum()) if near.numel() else 0.0


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Return the spans, those that overlap or nearly touch as one, with the words between them spoken again."""
    merged: list[Span] = []
    for span in spans:
        before = merged[-1] if merged else None
        if before is not None and (
            span.start < before.end or (span.start - before.end < NEAREST and before.frames and span.frames)
        ):
            between = max(0, span.start - before.end)
            overlap = max(0, before.end - span.start)
            merged[-1] = Span(
                old=(before.old[0], span.old[1]),
                new=(before.new[0], span.new[1]),
                start=min(before.start, span.start),
                end=max(before.end, span.end),
                frames=max(FEWEST, before.frames + between + span.frames - overlap),
                found=span.found,
            )
        else:
            merged.append(span)
    return merged


def parse_spans(text: str) -> tuple[tuple[float, float], ...]:
    """Return the (start, end) in seconds of "1.2-1.85, 3-4", with a dash of any kind; raises InputError."""
    found = []
    for part in filter(str.strip, check_text_length(text, name="span", limit=MAX_ORDER_CHARS).split(",")):
        try:
            if "_" in part:
                raise ValueError("Python's float would read it")
            start, _, end = part.translate(DASHES).partition("-")
            pair = float(start), float(end)
        except ValueError:
            raise InputError(
                f"span must be seconds such as 1.2-1.85, got {shown(part)}: write decimals with a point, and a comma "
                "between two spans"
            ) from None
        found.append((float(check_number("seconds", pair[0])), float(check_number("seconds", pair[1]))))
    return tuple(found)
