"""Which words two lists share, in order: exactly for texts of usual length, and in bounded time for all others.

The exact comparison grows with the product of the lengths. A long text is first cut at anchors: runs of words that
occur once in each of the two lists, as far as they are in the same order in both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence

from ..intake.cancel import cancellable, hear_cancel

EXACT_CELLS = 250_000  # pairs of words that are compared one by one in one piece
MOST_CELLS = 750_000  # in all pieces together
RUNS = (8, 4, 2, 1)  # words of an anchor; longer ones are more certain
DEEPEST = 4  # how often a piece between two anchors is cut again
Pairs = list[tuple[int, int]]


def equal_pairs(old: Sequence[Hashable], new: Sequence[Hashable]) -> Pairs:
    """Return the places (in old, in new) of equal words in an alignment, both ascending.

    It has the fewest changed words, and among these the fewest separate changes, so that a change stays in one piece.
    That is exact for a piece of at most `EXACT_CELLS`. In a longer one without anchors, no words are equal.
    """
    numbers: dict[Hashable, int] = {}
    first, second = ([numbers.setdefault(word, len(numbers)) for word in words] for words in (old, new))
    pairs, cells, pieces = Pairs(), MOST_CELLS, [((0, 0), (len(first), len(second)), 0)]
    while pieces:
        hear_cancel()
        (i, j), (i_end, j_end), depth = pieces.pop()
        while i < i_end and j < j_end and first[i] == second[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        while i < i_end and j < j_end and first[i_end - 1] == second[j_end - 1]:
            i_end, j_end = i_end - 1, j_end - 1
            pairs.append((i_end, j_end))
        size = (i_end - i) * (j_end - j)
        if 0 < size <= min(EXACT_CELLS, cells):
            cells -= size
            pairs += [(i + a, j + b) for a, b in _exact(first[i:i_end], second[j:j_end])]
        elif size and depth < DEEPEST:
            anchors = [(i + a, j + b) for a, b in _anchors(first[i:i_end], second[j:j_end])]
            pairs += anchors
            starts, ends = [(i, j), *((a + 1, b + 1) for a, b in anchors)], [*anchors, (i_end, j_end)]
            pieces += [(start, end, depth + 1) for start, end in zip(starts, ends)] if anchors else []
    return sorted(pairs)


def _anchors(old: Sequence[int], new: Sequence[int]) -> Pairs:
    """Return the first words of the longest runs that occur once in each list, those in the same order in both."""
    for run in cancellable(RUNS):
        places = _once(new, run)
        both = [(i, places[words]) for words, i in _once(old, run).items() if words in places]
        if both:
            return _ascending(sorted(both))
    return []


def _once(words: Sequence[int], run: int) -> dict[tuple[int, ...], int]:
    """Return the place of each run of words that occurs once."""
    found: dict[tuple[int, ...], int] = {}
    for place, each in enumerate(zip(*(words[skip:] for skip in range(run)))):
        found[each] = -1 if each in found else place
    return {each: place for each, place in found.items() if place >= 0}


def _ascending(pairs: Pairs) -> Pairs:
    """Return the longest part of pairs, whose first numbers ascend, in which the second ones ascend too."""
    tails, ends = list[int](), list[int]()  # of the best part of each length: its last number, and its last pair
    before = list[int]()
    for place, (_, second) in enumerate(pairs):
        length = bisect_left(tails, second)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1], ends[length : length + 1] = [second], [place]
    found, place = Pairs(), ends[-1] if ends else -1
    while place >= 0:
        found.append(pairs[place])
        place = before[place]
    return found[::-1]


def _exact(old: Sequence[int], new: Sequence[int]) -> Pairs:
    rows = [[(j, int(j > 0), j > 0) for j in range(len(new) + 1)]]  # (changed words, changes, whether one is open)
    for i, word in enumerate(cancellable(old), 1):
        above, row = rows[-1], [(i, 1, True)]
        for j, other in enumerate(new, 1):
            options = [_changed(above[j - 1]), _changed(above[j]), _changed(row[j - 1])]
            if word == other:
                cost, count, _ = above[j - 1]
                options.append((cost, count, False))
            row.append(min(options))
        rows.append(row)
    pairs, i, j = Pairs(), len(old), len(new)
    while i and j:
        here = rows[i][j]
        if old[i - 1] == new[j - 1] and here == (*rows[i - 1][j - 1][:2], False):
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif here == _changed(rows[i - 1][j - 1]):
            i, j = i - 1, j - 1
        elif here == _changed(rows[i - 1][j]):
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _changed(state: tuple[int, int, bool]) -> tuple[int, int, bool]:
    cost, count, is_open = state
    return cost + 1, count + (not is_open), True
