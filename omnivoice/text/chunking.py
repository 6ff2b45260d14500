"""Cuts long text into chunks, in this package's way (`chunk_sentences`) or in upstream's (`chunk_upstream`).

`chunk_sentences` measures in `duration` weight. It cuts at the ends of lines and sentences. Where a sentence exceeds
the budget it cuts at clauses, then at spaces, then anywhere `boundaries` allows. Dynamic programming then merges the
pieces into few, even chunks with good cuts, so that no tiny chunk is left over. `chunk_upstream` counts characters and
cuts at every comma and stop (utils/text.py:103); it equals upstream exactly, for comparison.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from ..errors import InputError
from ..intake.cancel import cancellable, hear_cancel
from .boundaries import CHARACTER, NEVER, PARAGRAPH, SENTENCE, SPACE, SYLLABLE, cut_ranks
from .characters import is_spoken, upstream_table
from .clean import joined_lines
from .duration import unit_weight

MERGED_PART = 16  # pieces are merged up to 1/16 of the budget before packing
LEAST_SHARE = 0.4  # of the budget, for a part that ends before a leading vowel
TENTHS = 10  # weights are multiples of 0.1, and whole numbers add up exactly
Span = tuple[int, int]

_CUT_COSTS = (2.0, 1.3, 1.1, 1.0, 0.5, 0.4, 0.15, 0.05, 0.0)  # by rank, from INSIDE to PARAGRAPH; a chunk costs 1
_MUTE_COST = 10.0  # for a chunk without a letter or number, which the model would turn into noise


def chunk_sentences(text: str, *, max_weight: float, first_weight: float = 0.0) -> list[str]:
    """Return `text` in stripped chunks of at most `max_weight` (`duration.text_weight`), with line breaks joined.

    text: a result of `clean.speakable_lines`. Only a single word or bracket `[...]` can exceed the budget. All
    characters except spaces are kept, in order. first_weight: if > 0, the first chunk ends with the sentence that
    brings it to this weight, if as much text is left then. Raises InputError unless max_weight > 0.
    """
    if not max_weight > 0:
        raise InputError(f"max_weight must be > 0, got {max_weight}")
    joined, line_starts = joined_lines(text.strip())
    hear_cancel()
    measure = _Measure(joined)
    budget = max(1, int(min(max_weight, 1e9) * TENTHS + 1e-6))
    everything, first = (0, len(joined)), int(min(first_weight, 1e9) * TENTHS)
    if measure.weight(everything) <= (min(budget, 2 * first) if first else budget):
        return [joined] if joined else []
    hear_cancel()
    ranks = cut_ranks(joined, line_starts)
    hear_cancel()
    start = _first_end(measure, ranks, first, budget) if first else 0
    spans = [(start, len(joined))]
    for rank in cancellable(range(PARAGRAPH, NEVER, -1)):  # at every good place, then evenly where there is none
        cuts = [i for i, r in enumerate(ranks) if r >= rank]
        spare = [i for i, r in enumerate(ranks) if r >= CHARACTER] if rank == SYLLABLE else []
        spans = _split(spans, measure, budget, cuts, evenly=rank <= SPACE, spare=spare)
    chunks = _pack(_merge_tiny(spans, measure, budget // MERGED_PART), measure, budget, ranks)
    return [joined[a:b].strip() for a, b in [*([(0, start)] if start else []), *chunks]]


def _first_end(measure: _Measure, ranks: Sequence[int], least: int, budget: int) -> int:
    """Return the first end of a sentence that leaves at least `least` weight before and after it, and at most `budget`
    before it; 0 if there is none."""
    end = len(ranks)
    ends = (i for i, rank in enumerate(ranks) if rank >= SENTENCE and measure.weight((0, i)) >= least)
    place = next(ends, end)
    fits = measure.weight((0, place)) <= budget and measure.weight((place, end)) >= least
    return place if fits else 0


class _Measure:
    """Computes the weight of any span of a text without its outer spaces, in constant time."""

    def __init__(self, text: str) -> None:
        self._sums = [0, *accumulate(round(unit_weight(char) * TENTHS) for char in text)]
        self._spoken = [0, *accumulate(int(is_spoken(char)) for char in text)]
        self._solid_after = list(range(len(text) + 1))  # the first place from here on that is not a space
        self._solid_before = list(range(len(text) + 1))  # the last place up to here that does not follow a space
        for i in range(len(text) - 1, -1, -1):
            if text[i].isspace():
                self._solid_after[i] = self._solid_after[i + 1]
        for i in range(1, len(text) + 1):
            if text[i - 1].isspace():
                self._solid_before[i] = self._solid_before[i - 1]

    def weight(self, span: Span) -> int:
        """Return the weight of a span in tenths; 0 for spaces."""
        start, end = self._solid_after[span[0]], self._solid_before[span[1]]
        return self._sums[end] - self._sums[start] if end > start else 0

    def is_mute(self, span: Span) -> bool:
        """Whether the span has no letter and no number."""
        return self._spoken[span[0]] == self._spoken[span[1]]

    def reach(self, start: int, weight: int) -> int:
        """Return the furthest place up to which the text from `start` on weighs at most `weight`."""
        return bisect_right(self._sums, self._sums[self._solid_after[start]] + weight) - 1


def _split(
    spans: Sequence[Span], measure: _Measure, budget: int, cuts: list[int], *, evenly: bool, spare: list[int]
) -> list[Span]:
    """Return `spans`, with those above the budget cut at `cuts` (ascending): at every one, or into even parts.

    spare: more cuts, for an even part that `cuts` would make too short or too long.
    """
    result: list[Span] = []
    for start, end in cancellable(spans, 64):
        while evenly and measure.weight((start, end)) > budget:
            parts = -(-measure.weight((start, end)) // budget)
            target = -(-measure.weight((start, end)) // parts)
            place = _even_cut(start, end, measure, budget, target, cuts)
            if spare and (place is None or not LEAST_SHARE * budget <= measure.weight((start, place)) <= budget):
                place = _even_cut(start, end, measure, budget, target, spare)
            if place is None:
                break
            result.append((start, place))
            start = place
        places = [start]
        if not evenly and measure.weight((start, end)) > budget:
            places += cuts[bisect_right(cuts, start) : bisect_right(cuts, end - 1)]
        result += zip(places, [*places[1:], end])
    return result


def _even_cut(start: int, end: int, measure: _Measure, budget: int, target: int, cuts: list[int]) -> int | None:
    """Return the cut that gives the first part about `target` and at most `budget` weight.

    If no cut does, return the next one, or None if the span has no cut.
    """
    first = bisect_right(cuts, start)
    if first == len(cuts) or cuts[first] >= end:
        return None
    below = cuts[max(first, bisect_right(cuts, min(measure.reach(start, target), end - 1)) - 1)]
    after = bisect_right(cuts, below)
    if after < len(cuts) and cuts[after] < end:
        above = cuts[after]
        weight = measure.weight((start, above))
        if weight <= budget and weight - target < target - measure.weight((start, below)):
            return above
    return below


def _merge_tiny(spans: Sequence[Span], measure: _Measure, least: int) -> list[Span]:
    """Return `spans` with runs of tiny ones merged up to `least` weight, so that packing stays fast on odd texts."""
    merged: list[Span] = []
    for span in spans:
        if merged and measure.weight((merged[-1][0], span[1])) <= least:
            merged[-1] = (merged[-1][0], span[1])
        else:
            merged.append(span)
    return merged


def _pack(spans: Sequence[Span], measure: _Measure, budget: int, ranks: Sequence[int]) -> list[Span]:
    """Return chunks within the budget: neighbouring spans merged at the least total cost."""
    costs, origins = [0.0], [0]
    for last in cancellable(range(len(spans)), 64):
        best, origin = float("inf"), last
        for first in range(last, -1, -1):
            chunk = (spans[first][0], spans[last][1])
            weight = measure.weight(chunk)
            if weight > budget and first < last:
                break
            slack = 1 - min(1.0, weight / budget)
            cost = costs[first] + 1 + slack * slack
            cost += _CUT_COSTS[ranks[chunk[0]]] if first else 0.0
            cost += _MUTE_COST if measure.is_mute(chunk) else 0.0
            if cost < best:
                best, origin = cost, first
        costs.append(best)
        origins.append(origin)
    chunks: list[Span] = []
    end = len(spans)
    while end:
        chunks.append((spans[origins[end]][0], spans[end - 1][1]))
        end = origins[end]
    return chunks[::-1]


def chunk_upstream(text: str, chunk_chars: int, min_chars: int = 3) -> list[str]:
    """Return upstream's chunks: pieces that end in a mark, merged up to `chunk_chars` characters, stripped.

    A chunk shorter than `min_chars` is joined to the one before it, and a first chunk to the one after it.
    """
    merged: list[str] = []
    for piece in _upstream_pieces(text):
        if merged and len(merged[-1]) + len(piece) <= chunk_chars:
            merged[-1] += piece
        else:
            merged.append(piece)
    short_first = bool(merged) and len(merged[0]) < min_chars
    chunks: list[str] = []
    for place, piece in enumerate(merged):
        if chunks and (len(piece) < min_chars or (place == 1 and short_first)):
            chunks[-1] += piece
        else:
            chunks.append(piece)
    return [chunk.strip() for chunk in chunks if chunk.strip()]


def _upstream_pieces(text: str) -> list[str]:
    """Cut after each of upstream's marks except in abbreviations; move marks at a piece's start to the one before."""
    marks, closing = upstream_table("split"), upstream_table("closing")
    abbreviations = upstream_table("abbreviations")
    longest = max(map(len, abbreviations))
    pieces: list[str] = []
    start = 0
    for place, char in enumerate(text):
        if place == start and pieces and (char in marks or char in closing):
            pieces[-1] += char
            start += 1
        elif char in marks:
            recent = text[max(start, place - longest) : place + 1].split()
            if char != "." or not recent or recent[-1] not in abbreviations:
                pieces.append(text[start : place + 1])
                start = place + 1
    return [*pieces, text[start:]] if start < len(text) else pieces
