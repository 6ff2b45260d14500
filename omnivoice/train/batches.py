"""Which clips a step trains on, in which order, and how they are split into batches.

The order depends only on the seed and the epoch, and the mask of a clip on seed, epoch and clip. A position in the data
is therefore two numbers, and a run resumes from it exactly. The examples of a step are drawn for all processes and
batches together and split afterwards. Each codebook's loss is the mean over the step, so the split affects only
rounding. (Upstream takes the mean of each batch, and then the mean of the batches.)
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..text.tokenizer import TextTokenizer
from .clips import Clip
from .masking import IGNORED, Example, generators, make_example
from .settings import Masking


@dataclass(frozen=True)
class Cursor:
    """The next clip: its epoch, and its position in the order of that epoch."""

    epoch: int = 0
    position: int = 0


@dataclass(frozen=True, eq=False)
class Source:
    """An endless stream of examples from clips."""

    clips: tuple[Clip, ...]
    tokenizer: TextTokenizer
    masking: Masking
    mask_id: int
    seed: int

    def draw(self, epoch: object, clip: int) -> Example:
        """Return the example of a clip in an epoch, or in validation; it is always the same."""
        pair = generators(self.seed, epoch, clip)
        return make_example(self.clips[clip], self.tokenizer, self.masking, self.mask_id, *pair)

    def take(self, cursor: Cursor, *, tokens: int, clips: int) -> tuple[list[Example], Cursor]:
        """Return (examples, next cursor): one example or more of one epoch, within the limits on tokens and clips."""
        order = _order(self.seed, cursor.epoch, len(self.clips))
        taken: list[Example] = []
        rows, position = 0, cursor.position
        while position < len(order) and len(taken) < clips:
            example = self.draw(cursor.epoch, order[position])
            if taken and rows + example.length > tokens:
                break
            taken.append(example)
            rows, position = rows + example.length, position + 1
        return taken, Cursor(cursor.epoch, position) if position < len(order) else Cursor(cursor.epoch + 1)


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, clips: int) -> tuple[int, ...]:
    """Return the order of the clips in an epoch; cached, since shuffling a million clips takes a second."""
    order = list(range(clips))
    generators(seed, "order", epoch)[0].shuffle(order)
    return tuple(order)


def split_evenly(examples: Sequence[Example], parts: int) -> list[list[Example]]:
    """Split the examples into parts of about equal length, some possibly empty: longest first, each to the shortest
    part."""
    found: list[list[Example]] = [[] for _ in range(parts)]
    rows = [(0, part) for part in range(parts)]  # a heap with the shortest part on top
    for example in sorted(examples, key=lambda one: -one.length):
        length, part = rows[0]
        found[part].append(example)
        heapq.heapreplace(rows, (length + example.length, part))
    return found


def label_counts(examples: Sequence[Example]) -> Tensor:
    """Return [K] float32, the number of labels in each codebook, at least 1 (upstream models/omnivoice.py:557)."""
    counts = sum(((one.labels != IGNORED).sum(dim=1) for one in examples), torch.zeros((), dtype=torch.int64))
    return counts.clamp(min=1).to(torch.float32)
