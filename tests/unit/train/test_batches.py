"""Order, masks and division of a step: what is drawn depends on seed, epoch and clip alone, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.train.batches import Cursor, Source, divided, label_counts, silent
from omnivoice.train.masking import IGNORED, Example, generators, make_example
from omnivoice.train.settings import Masking
from tests.unit.train.training_fixtures import random_clips, tiny_tokenizer

MASK = 1024


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(random_clips(), tiny_tokenizer(), Masking(), MASK, 7)


def same(a: Example, b: Example) -> bool:
    return (a.prompt_ids, a.shown) == (b.prompt_ids, b.shown) and torch.equal(a.codes, b.codes)


@pytest.mark.parametrize("tokens, clips", [(1, 64), (100, 64), (150, 2), (10_000, 64), (10_000, 1)])
def test_an_epoch_holds_every_clip_once(source: Source, tokens: int, clips: int) -> None:
    cursor, lengths = Cursor(), []
    while cursor.epoch == 0:
        taken, cursor = source.take(cursor, tokens=tokens, clips=clips)
        assert 1 <= len(taken) <= clips
        assert len(taken) == 1 or sum(one.length for one in taken) <= tokens
        lengths += [one.codes.shape[1] for one in taken]
    assert sorted(lengths) == sorted(clip.codes.shape[1] for clip in source.clips)
    assert cursor == Cursor(1, 0)


def test_epochs_and_seeds_differ_and_a_drawing_repeats(source: Source) -> None:
    everything = {"tokens": 10_000, "clips": 64}
    first, second = (source.take(Cursor(epoch), **everything)[0] for epoch in (0, 1))
    again = source.take(Cursor(0), **everything)[0]
    other = replace(source, seed=8).take(Cursor(0), **everything)[0]
    assert all(map(same, first, again))
    for drawn in (second, other):
        assert not all(map(same, first, drawn))


def test_global_generators_are_not_touched(source: Source) -> None:
    before = torch.get_rng_state()
    source.take(Cursor(), tokens=1000, clips=64)
    assert torch.equal(torch.get_rng_state(), before)


def test_validation_is_always_drawn_alike(source: Source) -> None:
    assert all(map(same, source.all("validation"), source.all("validation")))
    assert len(source.all("validation")) == len(source.clips)


@given(parts=st.integers(1, 9), count=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_division_keeps_every_example(parts: int, count: int) -> None:
    examples = [
        Example((1,) * (i % 3), torch.zeros(8, 5 + i, dtype=torch.int64), torch.zeros(8, 5 + i), 0)
        for i in range(count)
    ]
    found = divided(examples, parts)
    assert len(found) == parts
    assert sorted(id(one) for part in found for one in part) == sorted(map(id, examples))
    rows = [sum(one.length for one in part) for part in found]
    assert max(rows) - min(rows) <= max(one.length for one in examples)


def test_counts_are_the_hidden_codes_and_silence_asks_for_nothing(source: Source) -> None:
    examples, _ = source.take(Cursor(), tokens=10_000, clips=64)
    hidden = sum((one.codes == MASK).sum(dim=1) for one in examples)
    assert torch.equal(label_counts(examples), hidden.float())
    assert torch.equal(label_counts([silent(examples[0])]), torch.ones(8))  # never a division by zero


@pytest.mark.parametrize("masking, wanted", [
    (Masking(mask=(1, 1), prompt=(0, 0), drop_condition=0), "all"), (Masking(mask=(0, 0)), "none"),
])  # fmt: skip
def test_the_ends_of_the_mask(masking: Masking, wanted: str) -> None:
    clip = random_clips()[0]
    example = make_example(clip, tiny_tokenizer(), masking, MASK, *generators(1))
    hidden = example.codes == MASK
    assert hidden.all() if wanted == "all" else not hidden.any()
    assert torch.equal(example.labels != IGNORED, hidden)


def test_one_frame_can_be_learnt() -> None:
    clip = replace(random_clips()[0], codes=torch.zeros(8, 1, dtype=torch.int16))
    for place in range(50):
        example = make_example(clip, tiny_tokenizer(), Masking(), MASK, *generators(1, place))
        assert example.targets == 1


def test_hidden_by_codebook_is_what_decoding_finds() -> None:
    """Below one codebook all is known, above it all is hidden; the first is that one in more than half of all cases."""
    clip, masking, firsts = random_clips()[3], Masking(by_codebook=1, drop_condition=0, prompt=(0, 0)), 0
    for place in range(200):
        hidden = make_example(clip, tiny_tokenizer(), masking, MASK, *generators(1, place)).codes == MASK
        shares = hidden.float().mean(dim=1).tolist()
        part = next((k for k, share in enumerate(shares) if share > 0), 8)
        assert all(share == 1 for share in shares[part + 1 :]), shares
        firsts += part == 0
    assert 90 < firsts < 140
