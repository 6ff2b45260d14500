"""Joins and fades: upstream's numbers, and no chunk faded away."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.joins import fade, gap_samples, join_chunks


def test_join_equals_upstream(golden) -> None:
    chunks = [golden[f"join/in/{i}"] for i in range(3)]
    before = [chunk.clone() for chunk in chunks]
    assert torch.equal(join_chunks(chunks, 1000), golden["join/out"])
    assert all(torch.equal(a, b) for a, b in zip(chunks, before))


def test_fades_equal_upstream(golden) -> None:
    for pad, seconds in [(0.1, 0.1), (0.0, 0.3), (0.05, 0.0)]:
        count, zeros = int(seconds * 1000), int(pad * 1000)
        faded = fade(golden["join/in/0"], fade_in=count, fade_out=count)
        assert torch.equal(torch.nn.functional.pad(faded, (zeros, zeros)), golden[f"fade/{pad}/{seconds}"])


def test_a_single_chunk_is_left_alone() -> None:
    chunk = torch.ones(1, 50)
    assert join_chunks([chunk], 24000) is chunk


def test_a_short_chunk_keeps_its_middle() -> None:
    short = torch.ones(1, 1001)
    joined = join_chunks([torch.ones(1, 9000), short, torch.ones(1, 9000)], 24000)
    zeros = gap_samples(24000)
    assert zeros == 2400
    middle = joined[0, 9000 + zeros : 9000 + zeros + 1001]
    assert float(middle.max()) == 1.0
    assert float(middle[0]) == float(middle[-1]) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 7000), min_size=1, max_size=5))
def test_lengths_add_up_and_nothing_rises(lengths: list[int]) -> None:
    joined = join_chunks([torch.ones(1, n) for n in lengths], 24000)
    assert joined.shape[1] == sum(lengths) + (len(lengths) - 1) * gap_samples(24000)
    assert bool(((joined >= 0) & (joined <= 1)).all())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5000), st.integers(0, 12000))
def test_fades_of_any_length(length: int, count: int) -> None:
    samples = torch.ones(1, length)
    result = fade(samples, fade_in=count, fade_out=count)
    assert result.shape == samples.shape
    assert torch.equal(samples, torch.ones(1, length))
    assert float(result.sum()) >= length / 2 - 1
