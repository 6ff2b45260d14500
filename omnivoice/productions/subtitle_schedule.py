"""Decides how much time each cue gets, before anything is spoken. All lengths are samples at 24,000 Hz.

    fit       speech fills the time of its cue exactly: the model is given that length
    natural   speech takes as long as it takes; a cue waits until the one before it has ended
    fill      natural speech that may go on into the gap before the next cue; what needs more is squeezed to that

In fit, a text that would have to be stretched beyond `slowest_rate` ends before its cue does. In fit and fill, nothing
is spoken faster than four times as fast as natural: a cue too short for that takes the gap after it, then the time
before it at the very end, and what is left overlaps the next cue. Every such case is in the report.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..constants import HOP, SAMPLE_RATE
from ..errors import InputError
from ..generate.chunks import GAP_SAMPLES
from ..intake.limits import LIMITS, MAX_TOTAL_SECONDS, check_choice, check_number
from ..types import GenerationPlan, GenerationRequest
from .cues import Cue

MODES = ("fit", "natural", "fill")
SAMPLES_PER_MS = SAMPLE_RATE // 1000
FASTEST_RATE = LIMITS["speed"].high
_LONGEST = int(LIMITS["duration"].high) * SAMPLE_RATE
DEFAULT_REQUEST = GenerationRequest("", pad_seconds=0.0, fade_seconds=0.02)


@dataclass(frozen=True)
class SubtitleOptions:
    """How cues are spoken.

    mode: one of MODES. total_seconds: length of the output; 0 = to the end of the last cue. slowest_rate: the least
    rate of speech in fit, relative to natural, 0 = none. request: everything else; each cue sets its text, voice and
    duration. Its pads and fades, shorter than the engine's own, belong to every cue.
    """

    mode: str = "fit"
    total_seconds: float = 0.0
    slowest_rate: float = 0.5
    request: GenerationRequest = field(default_factory=lambda: DEFAULT_REQUEST)

    def checked(self) -> SubtitleOptions:
        """Return these options with Python's own numbers; raises InputError for a value that is not allowed."""
        if self.request.duration is not None:
            raise InputError("the times of the cues decide their durations: leave out the duration")
        if self.mode == "fit" and self.request.speed not in (None, 1):
            raise InputError("in mode fit the times of the cues decide the speed: leave it out, or choose another mode")
        return replace(
            self,
            mode=check_choice("mode", self.mode, MODES),
            total_seconds=float(check_number("total_seconds", self.total_seconds)),
            slowest_rate=float(check_number("slowest_rate", self.slowest_rate)),
        )


@dataclass(frozen=True)
class Slot:
    """The time of one cue. natural: an upper bound of its natural length. room: what its speech must take exactly, None
    for its natural length. start: where it begins, except that natural mode may begin later."""

    cue: Cue
    start: int
    natural: int
    room: int | None

    @property
    def own(self) -> int:
        """The length of the cue."""
        return (self.cue.end_ms - self.cue.start_ms) * SAMPLES_PER_MS


def natural_samples(plan: GenerationPlan) -> int:
    """Return the most samples that a plan without a duration can give: frames, joins, pauses and pads."""
    chunks = plan.chunks
    silence = sum(chunk.pause_samples or GAP_SAMPLES for chunk in chunks[1:]) + chunks[0].pause_samples
    pads = 2 * int(plan.request.pad_seconds * SAMPLE_RATE)
    return sum(chunk.frames for chunk in chunks) * HOP + silence + plan.tail_samples + pads


def schedule(
    cues: Sequence[Cue], natural: Sequence[int], end_ms: int, options: SubtitleOptions
) -> tuple[list[Slot], int]:
    """Return a slot for each cue, which are in the order of their starts, and the least length of the output.

    natural: of each cue (`natural_samples`). end_ms: of the last cue in the file, spoken or not. In natural mode the
    output becomes longer if speech goes on. Raises InputError for a total that is shorter than the file.
    """
    limit = output_samples(end_ms, options)
    slots = [
        _slot(cue, length, limit if after is None else after.start_ms * SAMPLES_PER_MS, limit, options)
        for cue, after, length in zip(cues, [*cues[1:], None], natural)
    ]
    length = max([limit, *(slot.start + (slot.room or 0) for slot in slots)])
    if length > MAX_TOTAL_SECONDS * SAMPLE_RATE:
        raise InputError(f"the output can be at most {MAX_TOTAL_SECONDS // 3600} hours long: split the file")
    return slots, length


def output_samples(end_ms: int, options: SubtitleOptions) -> int:
    """Return how long the output should be. Raises InputError for a total that is shorter than the file."""
    total, end = round(options.total_seconds * SAMPLE_RATE), end_ms * SAMPLES_PER_MS
    if total and total < end:
        raise InputError(
            f"total_seconds must be 0 or at least {end_ms / 1000:g}, where the last cue ends, got "
            f"{options.total_seconds:g}"
        )
    return max(total, end)


def _slot(cue: Cue, natural: int, edge: int, limit: int, options: SubtitleOptions) -> Slot:
    """Return the slot of a cue. edge: where the next cue starts. limit: where the output should end."""
    start = cue.start_ms * SAMPLES_PER_MS
    is_open = cue.end_ms == cue.start_ms and edge == limit and not options.total_seconds  # nobody says when it ends
    room = _room(cue, natural, _LONGEST if is_open else max(edge - start, 0), options)
    if room is None or is_open:
        return Slot(cue, start, natural, room)
    if options.total_seconds:
        room = min(room, limit)
    return Slot(cue, min(start, limit - room) if room <= limit else start, natural, room)


def _room(cue: Cue, natural: int, until_next: int, options: SubtitleOptions) -> int | None:
    """Return how long the speech of a cue must be, None for its natural length. until_next: from its start to the next
    cue."""
    if options.mode == "natural":
        return None
    own = (cue.end_ms - cue.start_ms) * SAMPLES_PER_MS
    least = math.ceil(natural / FASTEST_RATE)
    gap = max(own, until_next)
    if options.mode == "fill" or own < least:
        if natural <= gap and natural <= _LONGEST:
            return None
        return min(max(gap, least), _LONGEST)
    most = math.floor(natural / options.slowest_rate) if options.slowest_rate else _LONGEST
    return min(own, max(most, natural), _LONGEST)
