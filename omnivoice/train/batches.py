"""Which clips a step learns from, in which order, and how they are divided.

Unusual: the order depends on the seed and the epoch alone, and each drawing of a clip on seed, epoch and clip; so a
place in the data is two numbers, and a run goes on from it exactly. A step is filled for all processes and batches
together and divided afterwards, and each codebook's mean is over the whole step: how it was divided changes nothing
but rounding. (Upstream means each batch by itself, and then the batches.)
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
    """The next clip: its epoch, and its position in that epoch's order."""

    epoch: int = 0
    position: int = 0


@dataclass(frozen=True, eq=False)
class Source:
    """Examples drawn from clips, without end."""

    clips: tuple[Clip, ...]
    tokenizer: TextTokenizer
    masking: Masking
    mask_id: int
    seed: int

    def draw(self, epoch: object, clip: int) -> Example:
        """The drawing of that clip in that epoch, always the same."""
        pair = generators(self.seed, epoch, clip)
        return make_example(self.clips[clip], self.tokenizer, self.masking, self.mask_id, *pair)

    def take(self, cursor: Cursor, *, tokens: int, clips: int) -> tuple[list[Example], Cursor]:
        """Examples of at most so many rows and clips, and where to go on: at least one, and none of the next epoch."""
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

    def all(self, name: str) -> list[Example]:
        """One drawing of every clip, the same whenever asked for under this name: for validation."""
        return [self.draw(name, clip) for clip in range(len(self.clips))]


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, clips: int) -> tuple[int, ...]:
    """The clips of an epoch; kept, since each of its steps asks, and shuffling a million takes a second."""
    order = list(range(clips))
    generators(seed, "order", epoch)[0].shuffle(order)
    return tuple(order)


def split_evenly(examples: Sequence[Example], parts: int) -> list[list[Example]]:
    """The examples in so many parts of about equal length; some may be empty. Longest first, each to the shortest."""
    found: list[list[Example]] = [[] for _ in range(parts)]
    rows = [(0, part) for part in range(parts)]  # a heap: the shortest, and of those the first, is on top
    for example in sorted(examples, key=lambda one: -one.length):
        length, part = rows[0]
        found[part].append(example)
        heapq.heapreplace(rows, (length + example.length, part))
    return found


def label_counts(examples: Sequence[Example]) -> Tensor:
    """[K] float32: labels that count in each codebook, at least 1 (upstream models/omnivoice.py:557)."""
    counts = sum(((one.labels != IGNORED).sum(dim=1) for one in examples), torch.zeros((), dtype=torch.int64))
    return counts.clamp(min=1).to(torch.float32)


def without_labels(example: Example) -> Example:
    """The same example, asking for nothing."""
    return Example(example.prompt_ids, example.codes, torch.full_like(example.labels, IGNORED), example.shown)
