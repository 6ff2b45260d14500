"""Batches of a few sizes, so that one CUDA graph serves many texts.

A graph has fixed shapes. So where steps may be captured, a batch gets one more item, which brings the rows before the
targets and the targets to a multiple of BUCKET each, and whose results are ignored. Items do not influence each other,
so it changes no token. How the rows are divided among documents is read from tensors on the device, which differ from
batch to batch of one shape; only a bound of the longest document is fixed, and rounded too.

The filler is there whether a graph is used or not: graphs on or off, the same products are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from .pack import Item

BUCKET = 32  # a batch of 435 rows, one clone of 5 s, grows by 48 on average
LONGEST_BUCKET = 256  # of a bound that costs nothing but blocks of threads that end at once


def filler(items: Sequence[Item]) -> Item:
    """Return the item that fills up a batch of these items."""
    prefix, frames = sum(item.length - item.frames for item in items), sum(item.frames for item in items)
    return Item(items[0].prompt_ids[:1] * missing(prefix), None, missing(frames))


def missing(count: int) -> int:
    """Return how many are missing to the next multiple of BUCKET, 1 to BUCKET."""
    return BUCKET - count % BUCKET


def rounded(longest: int) -> int:
    """Return the bound for a longest document."""
    return -(-longest // LONGEST_BUCKET) * LONGEST_BUCKET
