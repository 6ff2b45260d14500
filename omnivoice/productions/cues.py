"""What a subtitle file says: cues to speak, and everything in it that is not spoken, with the reason.

Times are whole milliseconds, the finest that SRT and WebVTT have, and so a whole number of samples (24 each).
"""

from __future__ import annotations

from dataclasses import dataclass

DESCRIPTION = "a description of a sound"
LYRICS = "lyrics"
DRAWING = "a drawing"
REPEATED = "repeats the caption before it (rolling captions)"
NO_WORDS = "has no words"
NO_TEXT = "has no text"
TOO_EARLY = "ends before the beginning of the video"
OUTSIDE = "is not part of a cue"


@dataclass(frozen=True)
class Cue:
    """Words of one speaker and the time in which they are shown.

    number: as in the file; where the file has none, one more than that of the cue before. start_ms, end_ms: 0 <= start
    <= end; equal if the file gives no usable end. speaker: the name in the file, or as the cast spells it. line: of the
    times in the file, from 1. part: 1, 2, … where several people speak in one cue and share its time; 0 otherwise.
    """

    number: int
    start_ms: int
    end_ms: int
    text: str
    speaker: str | None = None
    line: int = 0
    part: int = 0

    @property
    def name(self) -> str:
        """What messages call the cue, such as "cue 12 (line 45)"."""
        return f"cue {self.number}{f', part {self.part}' if self.part else ''} (line {self.line})"


@dataclass(frozen=True)
class Unspoken:
    """A text that is not spoken, and why. number: of its cue, None outside of cues. whole: it is all that the cue
    holds. line: where the cue's times, or the text outside of cues, stand."""

    number: int | None
    line: int
    text: str
    reason: str
    whole: bool


@dataclass(frozen=True)
class Subtitles:
    """The cues in the order of their times, what is not spoken, and notes on what was corrected or may be
    unexpected.

    end_ms: where the last cue ends, spoken or not."""

    cues: tuple[Cue, ...]
    unspoken: tuple[Unspoken, ...] = ()
    notes: tuple[str, ...] = ()
    end_ms: int = 0
