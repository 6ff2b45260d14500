"""Equal words of two lists: exact for usual texts, right for long ones, and bounded for hostile ones."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.text import alignment
from omnivoice.text.alignment import MOST_CELLS, equal_pairs

WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def _check_pairs(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    pairs = equal_pairs(old, new)
    assert all(old[i] == new[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    return pairs


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pairs of words that each exact comparison looks at."""
    seen, exact = list[int](), alignment._exact

    def counted(old: list[int], new: list[int]) -> list[tuple[int, int]]:
        seen.append(len(old) * len(new))
        return exact(old, new)

    monkeypatch.setattr(alignment, "_exact", counted)
    return seen


@given(WORDS, WORDS)
def test_anchors_give_equal_words_in_order(old: list[str], new: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alignment, "EXACT_CELLS", 4)
        _check_pairs(old, new)
        pieces = [*old, "x", *new], [*old[:-1], "x", *new]
        assert (len(old), max(len(old) - 1, 0)) in _check_pairs(*pieces)


@pytest.mark.parametrize("vocabulary", [300, 3_000, 30_000])
def test_a_long_text_with_many_changes_keeps_its_other_words(vocabulary: int, cells: list[int]) -> None:
    draw = random.Random(vocabulary)
    old = [f"w{draw.randrange(vocabulary)}" for _ in range(9_000)]
    new, changed = list(old), draw.sample(range(9_000), 300)
    for place in sorted(changed, reverse=True):
        new[place : place + 1] = draw.choice([["new"], [], ["new", old[place]]])
    assert len(_check_pairs(old, new)) >= 9_000 - 300
    assert sum(cells) <= MOST_CELLS


SAME, HAN = ["the"] * 30_000, [chr(0x4E00 + i * 7919 % 500) for i in range(30_000)]


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        (SAME, ["the"] * 29_999, 29_999),
        (["a", *SAME, "b"], ["c", *SAME, "d"], 0),
        (SAME, ["a"] * 30_000, 0),
        (["a", "b"] * 15_000, ["b", "a"] * 15_000, 0),
        ([f"w{i}" for i in range(30_000)], [f"w{i}" for i in reversed(range(30_000))], 1),
        ([f"w{i}" for i in range(30_000)], [f"v{i}" for i in range(30_000)], 0),
        (HAN, [*HAN[:9], "x", *HAN[10:29_000], "y", *HAN[29_000:]], 1_000),
        ([], SAME, 0),
    ],
)
def test_hostile_lists_cost_no_more_than_the_bound(
    old: list[str], new: list[str], equal: int, cells: list[int]
) -> None:
    assert len(_check_pairs(old, new)) >= equal
    assert sum(cells) <= MOST_CELLS
