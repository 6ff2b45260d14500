"""One step: the guidance formula, the choice of cells and tokens."""

import math

import pytest
import torch
import torch.nn.functional as F

from omnivoice.generate.noise import draw_noise, gumbel
from omnivoice.generate.step import Revealer, _choose, guide_as_upstream, guide_in_one
from omnivoice.types import Sampling

MASK = 8
GREEDY = Sampling(steps=1, position_temperature=0.0, layer_penalty=0.0)
CPU = torch.device("cpu")


def logits(frames, seed):
    return torch.randn(frames, 2, 9, generator=torch.Generator().manual_seed(seed)) * 2


def predicted(frames, seed, mask=MASK):
    log_probs = F.log_softmax(logits(frames, seed), dim=-1)
    log_probs[..., mask] = -math.inf
    return log_probs


def revealed(codes, log_probs, counts, frames=None, sampling=GREEDY, mask=MASK, seed=0):
    """One step of items of these lengths, packed."""
    frames = frames or [codes.shape[1]]
    shapes = [(2, T, log_probs.shape[-1]) for T in frames]
    noises = draw_noise(
        [torch.Generator().manual_seed(seed + i) for i in range(len(frames))],
        shapes,
        [(count,) for count in counts],
        sampling,
    )
    return Revealer.of(noises, sampling, mask, CPU).reveal(codes, log_probs, 0, counts)


@pytest.mark.parametrize("guide", [guide_in_one, guide_as_upstream])
def test_guidance_moves_away_from_the_unconditional(guide):
    c, u = logits(4, 1), logits(4, 2)
    direct = F.log_softmax(3 * F.log_softmax(c, -1) - 2 * F.log_softmax(u, -1), -1)
    torch.testing.assert_close(guide(c, u, 2.0), direct)
    assert torch.equal(c, logits(4, 1)) and torch.equal(u, logits(4, 2))


@pytest.mark.parametrize("guide", [guide_in_one, guide_as_upstream])
def test_without_guidance_it_is_a_plain_softmax(guide):
    c = logits(4, 1)
    assert torch.equal(guide(c, None, 0.0), F.log_softmax(c, -1))
    torch.testing.assert_close(guide(c, logits(4, 2), 0.0), F.log_softmax(c, -1))


def test_reveals_the_most_confident_cells():
    log_probs, codes = predicted(5, 3), torch.full((2, 5), MASK)
    got, total = revealed(codes, log_probs, [3])
    best = set(log_probs.amax(-1).T.flatten().topk(3).indices.tolist())
    assert set((got.flatten() != MASK).nonzero().flatten().tolist()) == best
    assert torch.equal(got.flatten()[list(best)], log_probs.argmax(-1).T.flatten()[list(best)])
    assert torch.equal(codes, torch.full((2, 5), MASK))  # pure: the input is as before
    assert math.isfinite(total)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_inf_are_told_wherever_they_are(bad):
    for cell in ((0, 0, 0), (4, 1, 7)):
        raw = logits(5, 3)
        raw[cell] = bad
        assert not math.isfinite(revealed(torch.full((2, 5), MASK), guide_in_one(raw, None, 0.0), [1])[1])


def test_revealed_cells_stay():
    codes = torch.tensor([[1, MASK, 2], [3, 4, MASK]])
    got, _ = revealed(codes, predicted(3, 4), [2])
    known = codes != MASK
    assert torch.equal(got[known], codes[known])
    assert (got != MASK).all()


def test_layer_penalty_puts_the_first_codebook_first():
    sampling = Sampling(steps=1, position_temperature=0.0, layer_penalty=100.0)
    got, _ = revealed(torch.full((2, 4), MASK), predicted(4, 5), [4], sampling=sampling)
    assert (got[0] != MASK).all()
    assert (got[1] == MASK).all()


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(steps=1), Sampling(steps=1, class_temperature=1.0)])
def test_items_of_a_batch_are_revealed_as_if_alone(sampling):
    frames, counts, log_probs = [3, 1, 4], [2, 0, 5], predicted(8, 6)
    codes = torch.full((2, 8), MASK)
    codes[0, 2], codes[1, 5] = 3, 1
    together, _ = revealed(codes, log_probs, counts, frames, sampling)
    start = 0
    for i, (T, count) in enumerate(zip(frames, counts)):
        part = slice(start, start + T)
        if count:
            alone, _ = revealed(codes[:, part], log_probs[part], [count], sampling=sampling, seed=i)
            assert torch.equal(together[:, part], alone)
        else:
            assert torch.equal(together[:, part], codes[:, part])
        start += T


def test_class_temperature_samples_among_the_likeliest_tenth():
    sampling = Sampling(steps=1, position_temperature=0.0, class_temperature=50.0)
    V = 41
    spread = torch.randn(6, 2, V, generator=torch.Generator().manual_seed(6)) * 3
    log_probs = F.log_softmax(spread, -1)
    log_probs[..., V - 1] = -math.inf
    got, _ = revealed(torch.full((2, 6), V - 1), log_probs, [12], sampling=sampling, mask=V - 1, seed=3)
    top = log_probs.topk(5, dim=-1).indices.transpose(0, 1)  # ceil(0.1 * 41)
    assert (top == got[..., None]).any(-1).all()
    assert not torch.equal(got, log_probs.argmax(-1).T)


@pytest.mark.parametrize("levels", [3, 1000])
def test_sampled_tokens_are_upstreams_choice(levels):
    """The first of equal scores among the likeliest tenth (models/omnivoice.py:1575-1592)."""
    generator = torch.Generator().manual_seed(levels)
    log_probs, uniform = (torch.randint(levels, (2, 30, 95), generator=generator) / levels for _ in range(2))
    values, indices = log_probs.topk(10, dim=-1)
    kept = torch.full_like(log_probs, -math.inf).scatter(-1, indices, values)
    scores = kept / 0.7 + gumbel(uniform)
    assert ((scores == scores.amax(-1, keepdim=True)).sum(-1) > 1).any() == (levels == 3)
    assert torch.equal(_choose(log_probs, uniform, 0.7), scores.argmax(dim=-1))
