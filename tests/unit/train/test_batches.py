"""Order, masks and division of a step: what is drawn depends on seed, epoch and clip alone, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.generate.noise import draw_noise
from omnivoice.generate.schedule import reveal_counts
from omnivoice.generate.step import Revealer
from omnivoice.train.batches import Cursor, Source, label_counts, split_evenly
from omnivoice.train.masking import IGNORED, Example, generators, make_example, mask_like_decoding
from omnivoice.train.settings import Masking
from omnivoice.types import Sampling
from tests.unit.train.training_fixtures import random_clips, tiny_tokenizer

MASK = 1024


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(random_clips(), tiny_tokenizer(), Masking(), MASK, 7)


def same(a: Example, b: Example) -> bool:
    return (a.prompt_ids, a.prompt_frames) == (b.prompt_ids, b.prompt_frames) and torch.equal(a.codes, b.codes)


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
    assert same(source.draw("validation", 0), source.draw("validation", 0))


@given(parts=st.integers(1, 9), count=st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_division_keeps_every_example(parts: int, count: int) -> None:
    examples = [
        Example((1,) * (i % 3), torch.zeros(8, 5 + i, dtype=torch.int64), torch.zeros(8, 5 + i), 0)
        for i in range(count)
    ]
    found = split_evenly(examples, parts)
    assert len(found) == parts
    assert sorted(id(one) for part in found for one in part) == sorted(map(id, examples))
    rows = [sum(one.length for one in part) for part in found]
    assert max(rows) - min(rows) <= max(one.length for one in examples)


def test_counts_are_the_hidden_codes_and_silence_asks_for_nothing(source: Source) -> None:
    examples, _ = source.take(Cursor(), tokens=10_000, clips=64)
    hidden = sum((one.codes == MASK).sum(dim=1) for one in examples)
    assert torch.equal(label_counts(examples), hidden.float())
    silent = replace(examples[0], labels=torch.full_like(examples[0].labels, IGNORED))
    assert torch.equal(label_counts([silent]), torch.ones(8))  # never a division by zero


@pytest.mark.parametrize(
    "masking, wanted", [(Masking(mask=(1, 1), prompt=(0, 0), drop_condition=0), "all"), (Masking(mask=(0, 0)), "none")]
)
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
    """As many of each codebook are known as the sampler itself has revealed, to a model to which all is alike."""
    frames, rounds, sampling, mask = 50, 40, Sampling(), torch.Generator().manual_seed(0)
    alike = torch.full((frames, 8, MASK), -7.0)
    counts = reveal_counts(8 * frames, sampling.steps, sampling.t_shift)
    revealed = torch.zeros(sampling.steps, 8)
    for seed in range(rounds):
        noise = draw_noise([torch.Generator().manual_seed(seed)], [(8, frames, MASK)], [counts], sampling)
        revealer, codes = Revealer.of(noise, sampling, MASK, torch.device("cpu")), torch.full((8, frames), MASK)
        for step, count in enumerate(counts):
            codes, _ = revealer.reveal(codes, alike, step, [count])
            revealed[step] += (codes != MASK).float().mean(dim=1) / rounds
    for step in (8, 16, 24, 28):
        known = sum(counts[: step + 1]) / (8 * frames)
        ours = [(~mask_like_decoding(8, frames, known, mask)).float().mean(dim=1) for _ in range(rounds)]
        assert torch.allclose(sum(ours) / rounds, revealed[step], atol=0.03), step
    assert mask_like_decoding(8, 1, 1.0, mask).sum() == 1, "there is always something to learn"


def test_hidden_by_codebook_leaves_what_is_shown_and_often_hides_nearly_all() -> None:
    clip, masking = random_clips()[3], Masking(by_codebook=1, drop_condition=0, instruct=0, prompt=(0.2, 0.2))
    shares = []
    for place in range(200):
        example = make_example(clip, tiny_tokenizer(), masking, MASK, *generators(1, place))
        hidden = example.codes == MASK
        assert example.prompt_frames > 0 and not hidden[:, : example.prompt_frames].any()
        shares.append(float(hidden[:, example.prompt_frames :].float().mean()))
    assert 0.65 < sum(shares) / 200 < 0.85 and sum(share > 0.95 for share in shares) > 50
