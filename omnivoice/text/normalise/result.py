"""What the rules of a language return, and what `normalise` makes of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Replacement:
    """Text between `start` and `end` that is to be spoken as `spoken`; what the rules of a language return."""

    start: int
    end: int
    spoken: str


@dataclass(frozen=True)
class Change:
    """One replacement that was made: `original` stood between `start` and `end` of the original text."""

    start: int
    end: int
    original: str
    spoken: str


@dataclass(frozen=True)
class Normalised:
    """A normalised text, the changes in their order, and warnings, such as a package that is missing."""

    text: str
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()

    def origin(self, index: int) -> int:
        """Return where the character at `index` of the normalised text came from: its place in the original text.

        Every character of spoken words has the start of what they replace. The length of the text gives the length of
        the original.
        """
        starts, shift = [], 0  # of the changes, in the normalised text
        for change in self.changes:
            starts.append(change.start + shift)
            shift += len(change.spoken) - len(change.original)
        number = bisect_right(starts, index) - 1
        if number < 0:
            return index
        change, start = self.changes[number], starts[number]
        after = index - start - len(change.spoken)
        return change.start if after < 0 else change.end + after
