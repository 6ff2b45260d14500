"""Cues in the output: where each was put, where it is heard, how that compares with the file, and what to say of it.

Speech is measured, not assumed: the timing errors come from the samples of the output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from torch import Tensor

from ..constants import SAMPLE_RATE
from ..intake.limits import shown
from ..text.vocabulary import named
from .cast import Cast
from .cues import Cue, Subtitles
from .subtitle_schedule import SAMPLES_PER_MS, Slot, SubtitleOptions

AUDIBLE = 0.01  # of a cue's peak, -40 dB
HURRIED = 1.25  # times as fast as natural: named in a warning
_HARDLY = SAMPLES_PER_MS  # shifts and overlaps below a millisecond are rounding


@dataclass(frozen=True)
class SpokenCue:
    """One cue as it was spoken; all numbers are samples at 24,000 Hz.

    slot: what was planned. voice: the name of the speaker in the cast, "" for the default one. start, end: where its
    speech stands in the output. heard_start, heard_end: the first and one after the last of its samples there that are
    above 1 % of its peak.
    """

    slot: Slot
    voice: str
    start: int
    end: int
    heard_start: int
    heard_end: int

    @property
    def cue(self) -> Cue:
        """The cue in the file."""
        return self.slot.cue

    @property
    def natural(self) -> int:
        """The natural length: measured if the cue was spoken at it, otherwise estimated."""
        return self.end - self.start if self.slot.room is None else self.slot.natural

    @property
    def rate(self) -> float:
        """The rate of speech, 1 = natural; above 1 it was squeezed."""
        return self.natural / (self.end - self.start)

    @property
    def overflow_seconds(self) -> float:
        """How much longer the natural length is than the cue; 0 if it fits."""
        return max(0, self.natural - self.slot.own) / SAMPLE_RATE

    @property
    def shift_seconds(self) -> float:
        """How much later the speech begins than the cue; below 0 if it begins earlier."""
        return self.start / SAMPLE_RATE - self.cue.start_ms / 1000

    @property
    def start_error(self) -> float:
        """Seconds from the start of the cue to the first sample that is heard."""
        return self.heard_start / SAMPLE_RATE - self.cue.start_ms / 1000

    @property
    def end_error(self) -> float:
        """Seconds from the end of the cue to the last sample that is heard."""
        return self.heard_end / SAMPLE_RATE - self.cue.end_ms / 1000

    @property
    def adjusted(self) -> Cue:
        """The cue with the times of its speech, to the nearest millisecond."""
        start, end = (round(place * 1000 / SAMPLE_RATE) for place in (self.start, self.end))
        return replace(self.cue, start_ms=start, end_ms=max(start, end))


def heard(samples: Tensor) -> tuple[int, int]:
    """Return the place of the first of samples [N] that is above 1 % of their peak, and one after the last."""
    loud = (samples.abs() > AUDIBLE * samples.abs().max()).nonzero()
    return (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (0, 0)


def cast_warnings(subtitles: Subtitles, cast: Cast) -> tuple[str, ...]:
    """Return which speakers in the subtitles are not in the cast, and which of the cast have nothing to say."""
    spoken = {cast.find(cue.speaker).name for cue in subtitles.cues}
    strangers = Counter(cue.speaker for cue in subtitles.cues if cue.speaker and not cast.find(cue.speaker).name)
    found = []
    if strangers:
        names = [f"{shown(name)} ({count})" for name, count in strangers.items()]
        found.append(f"not in the cast, so the default voice speaks their cues: {named(names)}")
    if silent := [shown(name) for name in cast.names if name not in spoken]:
        found.append(f"no cue is spoken by {named(silent)}")
    return tuple(found)


def placing_warnings(spoken: Sequence[SpokenCue], end_ms: int, options: SubtitleOptions) -> tuple[str, ...]:
    """Return what happened to the times of cues, one line for each kind. The report has every cue. end_ms: of the last
    cue in the file."""
    hurried = [f"{one.cue.name} {one.rate:.2f} times" for one in spoken if one.rate >= HURRIED]
    early = [one.cue.name for one in spoken if one.start <= one.cue.start_ms * SAMPLES_PER_MS - _HARDLY]
    late = [f"{one.cue.name} {one.shift_seconds:.2f} s" for one in spoken if one.shift_seconds * 1000 >= 1]
    beyond = [one.cue.name for one in spoken if one.end - one.start - one.slot.own >= _HARDLY]
    mixed = [f"{a.cue.name} and {b.cue.name}" for a, b in pairwise(spoken) if a.end - b.start >= _HARDLY]
    total = round(options.total_seconds * SAMPLE_RATE)
    over = max(one.end for one in spoken) - (total or end_ms * SAMPLES_PER_MS)
    lines = {
        "squeezed, as many times as fast as natural": hurried,
        "begin later, because the cue before goes on": late,
        "begin earlier, because there is no time after them": early,
        "too short to be spoken, so their speech goes on after them": beyond if options.mode == "fit" else [],
        "heard at the same time": mixed,
    }
    found = [f"{about}: {named(names)}" for about, names in lines.items() if names]
    if over >= _HARDLY:
        end = "total_seconds" if total else "the last cue"
        found.append(f"the speech goes on for {over / SAMPLE_RATE:.2f} s after {end}, so the output is longer")
    return tuple(found)
