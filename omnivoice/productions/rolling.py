"""Rolling captions: each cue repeats the end of the one before and adds to it, as YouTube's automatic captions do.

Spoken as they stand, nearly every word would be said twice. A file counts as rolling if this happens at least twice and
in a tenth of its cues, so that somebody who says "No." twice is heard twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_TOUCHING_MS = 100  # cues this close follow each other at once
_FLASH_MS = 100  # a cue this short only moves the lines up
_LEAST_SHARE = 0.1


@dataclass(frozen=True)
class Shown:
    """What a cue shows, with line breaks, and when."""

    start_ms: int
    end_ms: int
    text: str


def repeated_words(cues: Sequence[Shown]) -> list[int]:
    """Return how many words at the start of each cue repeat the cue before; all are 0 unless the file is rolling."""
    repeats, rolls = [0] * len(cues), 0
    before: Shown | None = None
    for i, cue in enumerate(cues):
        words = cue.text.split()
        if not words:
            continue
        if before is not None and cue.start_ms - before.end_ms <= _TOUCHING_MS and before.start_ms <= cue.start_ms:
            repeats[i] = _overlap(before.text, words)
            rolls += _is_roll(before, cue, repeats[i], len(words))
        before = cue
    return repeats if rolls >= max(2, _LEAST_SHARE * len(cues)) else [0] * len(cues)


def without_words(text: str, count: int) -> str:
    """Return `text` without its first `count` words; the other words stay on their lines."""
    rows = []
    for row in text.split("\n"):
        words = row.split()
        rows.append(" ".join(words[count:]))
        count = max(0, count - len(words))
    return "\n".join(row for row in rows if row)


def _overlap(before: str, words: list[str]) -> int:
    """Return how many of `words` repeat what was shown before, from the start of one of its lines to its end."""
    rows = [row.split() for row in before.split("\n")]
    for first in range(len(rows)):
        shown = [word for row in rows[first:] for word in row]
        if shown and words[: len(shown)] == shown:
            return len(shown)
    return 0


def _is_roll(before: Shown, cue: Shown, repeated: int, words: int) -> bool:
    """Whether a repetition is that of a rolling caption: it adds words, flashes by, or drops lines."""
    if not repeated:
        return False
    return repeated < words or cue.end_ms - cue.start_ms <= _FLASH_MS or repeated < len(before.text.split())
