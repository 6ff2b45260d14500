"""The share of right words over a run: whether it has fallen, and how it travels in the training state.

How the words are counted is the caller's part: this package can neither speak nor listen. Validation loss alone does
not show that a LoRA unlearns to speak, since it may still fall while words are lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

ROUNDING = 1e-9  # 1.00 to 0.97 is a fall by 3 points, and not by more


class OnWords(Protocol):
    """Called in the main process before training and at each validation.

    Returns the share of right words, 0 to 1, of speech from the model in training; NaN if it could not be counted, and
    None if the user interrupted it.
    """

    def __call__(self, step: int, /) -> float | None: ...


@dataclass
class Words:
    """Shares of right words, each NaN before it is known. best: the highest. last: of the last validation. kept: of the
    weights that were kept as the best. due: a validation was interrupted, so the resumed run has to repeat it."""

    best: float = math.nan
    last: float = math.nan
    kept: float = math.nan
    due: bool = False

    def add(self, share: float) -> None:
        """Take the share of a validation."""
        self.last = share
        if not self.best >= share:  # also if there is none yet
            self.best = share if math.isfinite(share) else self.best

    def fallen(self, points: float) -> bool:
        """Whether the last share is more than so many hundredths below the best; False if it is not known."""
        return _below(self.last, self.best, points)

    def kept_fallen(self, points: float) -> bool:
        """The same for the weights that were kept."""
        return _below(self.kept, self.best, points)

    def values(self) -> list[float]:
        """Return the numbers that `restored` takes."""
        return [self.best, self.last, self.kept, float(self.due)]

    @classmethod
    def restored(cls, values: Sequence[float]) -> Words:
        """Return what `values` came from."""
        best, last, kept, due = values
        return cls(best, last, kept, bool(due))

    def report(self, points: float) -> str:
        """Return the best and the last share in words, and what a fall means; an empty text if none is known."""
        if not math.isfinite(self.best):
            return ""
        last = f"{self.last:.1%}" if math.isfinite(self.last) else "not counted"
        line = f"right words: {self.best:.1%} at best, {last} at the last validation"
        if not self.fallen(points):
            return line
        if math.isfinite(self.kept):
            return f"{line}; the best weights, from before the fall, had {self.kept:.1%}"
        return f"{line}; no weights from before the fall were kept: lower the learning rate, or validate earlier"


def _below(share: float, best: float, points: float) -> bool:
    return share < best - points / 100 - ROUNDING
