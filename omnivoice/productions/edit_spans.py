"""Spans in seconds that are given for changes: their frames, and what they tell about the times of the words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ..constants import FRAME_RATE
from ..errors import InputError
from ..intake.limits import MAX_EDITS, check_number, shown
from ..text.differences import WordChange
from .edit_windows import Range
from .timings import TimedWord


def check_spans(spans: object) -> None:
    """Raise InputError for anything but at most `MAX_EDITS` pairs of seconds."""
    if not isinstance(spans, (tuple, list)):
        raise InputError(f"spans must be a list of (start, end) in seconds, got {shown(spans)}")
    if len(spans) > MAX_EDITS:
        raise InputError(f"there can be at most {MAX_EDITS} spans in one run, got {len(spans)}: give fewer at a time")
    for span in spans:
        if not isinstance(span, (tuple, list)) or len(span) != 2:
            raise InputError(f"a span must be (start, end) in seconds, got {shown(span)}")
        for value in span:
            check_number("seconds", value, shown_as="the seconds of a span")


def given_ranges(changes: Sequence[WordChange], spans: Sequence[tuple[float, float]], frames: int) -> list[Range]:
    """Return the frames [start, end) of each change from its span in seconds, in a recording of `frames` frames.

    Only an insertion has a span without length, which opens no frame. Raises InputError for spans that do not fit.
    """
    if len(changes) != len(spans):
        raise InputError(
            f"there must be one span for each change, and the texts differ in {len(changes)} places, got {len(spans)} "
            "spans: give the others too, or leave the spans out"
        )
    seconds, last, found = frames / FRAME_RATE, 0.0, list[Range]()
    for change, (start, end) in zip(changes, spans):
        is_insertion = change.old[0] == change.old[1]
        if not last <= start <= end <= seconds:
            raise InputError(
                f"span {start:g}-{end:g} must lie within the {seconds:g} s of the recording, begin before it ends and "
                "not overlap the span before it"
            )
        if start == end and not is_insertion:
            raise InputError(
                f"span {start:g}-{end:g} has no length: give when the words to change begin and when they end"
            )
        earlier = found[-1][1] if found else 0
        first = max(earlier, round(start * FRAME_RATE))
        if not is_insertion:
            first = min(first, frames - 1)
        stop = max(first if is_insertion else first + 1, round(end * FRAME_RATE))
        if first < earlier or stop > frames:
            raise InputError(
                f"span {start:g}-{end:g} is less than a frame of {1 / FRAME_RATE:g} s from the one before it: give one "
                "span that holds both, and change the words between them too"
            )
        last = end
        found.append((first, stop))
    return found


def times_in_spans(times: Sequence[TimedWord], spans: Sequence[tuple[Range, Range]]) -> list[TimedWord]:
    """Return the times moved so that changed words are in their spans, and all others between them in proportion.

    spans: (words [first, end), frames [start, end)) of each change, in order.
    """
    knots = [(0.0, 0.0)]
    for (first, end), (start, stop) in spans:
        if first < end:
            knots += [(times[first].start, start / FRAME_RATE), (times[end - 1].end, stop / FRAME_RATE)]
        else:
            knots += [(time_between(times, first), start / FRAME_RATE), (time_between(times, first), stop / FRAME_RATE)]
    last = max(times[-1].end, knots[-1][0])
    knots.append((last, max(last, knots[-1][1])))

    def moved(seconds: float, *, is_end: bool) -> float:
        place = bisect_right(knots, (seconds, -1.0 if is_end else float("inf")))
        (x, y), (next_x, next_y) = knots[max(place - 1, 0)], knots[min(max(place, 1), len(knots) - 1)]
        share = (seconds - x) / (next_x - x) if next_x > x else 0.0
        return y + (next_y - y) * min(max(share, 0.0), 1.0)

    return [TimedWord(one.word, moved(one.start, is_end=False), moved(one.end, is_end=True)) for one in times]


def time_between(times: Sequence[TimedWord], word: int) -> float:
    """Return the time between a word and the one before it."""
    if word == 0:
        return times[0].start
    return times[-1].end if word == len(times) else (times[word - 1].end + times[word].start) / 2
