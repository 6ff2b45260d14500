"""Cutting long text into chunks: our way, `chunk_sentences`, and upstream's, `chunk_upstream`.

Ours measures in `duration` weight, cuts at the ends of lines and sentences, at clauses only where a sentence exceeds
the budget, then at spaces, then anywhere `boundaries` allows; and of all ways to merge the pieces it takes the one
with few, even chunks and good cuts (dynamic programming), so that no tiny rest is left over. Upstream's counts
characters and cuts at every comma and stop (utils/text.py:103); it is kept exactly, for comparison.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from ..errors import InputError
from .boundaries import CHARACTER, CLAUSE, INSIDE, LINE, PARAGRAPH, SENTENCE, SPACE, WEAK, cut_ranks
from .characters import is_spoken, upstream_table
from .clean import joined_lines
from .duration import char_weight

GRAINS = 16  # pieces under a sixteenth of the budget need not be told apart
TENTHS = 10  # weights are multiples of 0.1: whole numbers add up exactly
Span = tuple[int, int]

_EXPLODED = (PARAGRAPH, LINE, SENTENCE, WEAK, CLAUSE)
_EVENLY = (SPACE, CHARACTER, INSIDE)
# What a cut of each rank costs, in chunks.
_CUT_COSTS = {
    PARAGRAPH: 0.0,
    LINE: 0.05,
    SENTENCE: 0.15,
    WEAK: 0.4,
    CLAUSE: 0.5,
    SPACE: 1.0,
    CHARACTER: 1.3,
    INSIDE: 2.0,
}
_MUTE_COST = 10.0  # of a chunk without a letter or number: the model would make noise of it


def chunk_sentences(text: str, *, max_weight: float) -> list[str]:
    """`text` in chunks of at most `max_weight` (`duration.text_weight`), stripped; line breaks are joined.

    text: a result of `clean.speakable_lines`. Only a single word or bracket `[...]` can exceed the budget. Every
    character that is no blank is kept, in order. Raises InputError unless max_weight > 0.
    """
    if not max_weight > 0:
        raise InputError(f"max_weight must be > 0, got {max_weight}")
    joined, line_starts = joined_lines(text.strip())
    measure = _Measure(joined)
    budget = max(1, int(min(max_weight, 1e9) * TENTHS + 1e-6))
    whole = (0, len(joined))
    if measure.weight(whole) <= budget:
        return [joined] if joined else []
    ranks = cut_ranks(joined, line_starts)
    spans = [whole]
    for rank in _EXPLODED:
        spans = _refined(spans, measure, budget, [i for i, r in enumerate(ranks) if r >= rank], evenly=False)
    for rank in _EVENLY:
        spans = _refined(spans, measure, budget, [i for i, r in enumerate(ranks) if r >= rank], evenly=True)
    chunks = _packed(_grains(spans, measure, budget // GRAINS), measure, budget, ranks)
    return [joined[start:end].strip() for start, end in chunks]


class _Measure:
    """Weight of any span of a text, outer blanks left out, in constant time."""

    def __init__(self, text: str) -> None:
        self._sums = [0, *accumulate(round(char_weight(char) * TENTHS) for char in text)]
        self._spoken = [0, *accumulate(int(is_spoken(char)) for char in text)]
        self._solid_after = list(range(len(text) + 1))  # first place from here on that is no blank
        self._solid_before = list(range(len(text) + 1))  # last place up to here that follows no blank
        for i in range(len(text) - 1, -1, -1):
            if text[i].isspace():
                self._solid_after[i] = self._solid_after[i + 1]
        for i in range(1, len(text) + 1):
            if text[i - 1].isspace():
                self._solid_before[i] = self._solid_before[i - 1]

    def weight(self, span: Span) -> int:
        """In tenths; 0 for blanks."""
        start, end = self._solid_after[span[0]], self._solid_before[span[1]]
        return self._sums[end] - self._sums[start] if end > start else 0

    def is_mute(self, span: Span) -> bool:
        """Whether the span has no letter and no number."""
        return self._spoken[span[0]] == self._spoken[span[1]]

    def reach(self, start: int, weight: int) -> int:
        """The furthest place up to which the text from `start` on weighs at most `weight`."""
        return bisect_right(self._sums, self._sums[self._solid_after[start]] + weight) - 1


def _refined(spans: Sequence[Span], measure: _Measure, budget: int, cuts: list[int], *, evenly: bool) -> list[Span]:
    """`spans` with those above the budget cut at `cuts` (ascending): at each of them, or into even parts."""
    result: list[Span] = []
    for start, end in spans:
        while evenly and measure.weight((start, end)) > budget:
            parts = -(-measure.weight((start, end)) // budget)
            place = _even_cut(start, end, measure, budget, -(-measure.weight((start, end)) // parts), cuts)
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
    """The cut that gives the first part about `target` and at most `budget` weight; else the very next; else None."""
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


def _grains(spans: Sequence[Span], measure: _Measure, least: int) -> list[Span]:
    """`spans` with runs of tiny ones joined up to `least` weight, so that packing stays fast on odd texts."""
    grains: list[Span] = []
    for span in spans:
        if grains and measure.weight((grains[-1][0], span[1])) <= least:
            grains[-1] = (grains[-1][0], span[1])
        else:
            grains.append(span)
    return grains


def _packed(spans: Sequence[Span], measure: _Measure, budget: int, ranks: Sequence[int]) -> list[Span]:
    """Neighbouring spans merged into chunks within the budget, at the least total cost."""
    costs, origins = [0.0], [0]
    for last in range(len(spans)):
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
    """Upstream's chunks: pieces that end in a mark, merged up to `chunk_chars` characters, stripped.

    Chunks under `min_chars` join the one before; a first chunk that is too short takes the next one along.
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
    """Cut after each of upstream's marks but in abbreviations; marks at the start of a piece go to the one before."""
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
