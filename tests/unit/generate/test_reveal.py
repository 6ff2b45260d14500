"""One step: the guidance formula, the choice of cells and tokens."""

import torch
import torch.nn.functional as F

from omnivoice.generate.noise import draw_noise
from omnivoice.generate.step import guided_log_probs, reveal
from omnivoice.types import Sampling

MASK = 8
GREEDY = Sampling(steps=1, position_temperature=0.0, layer_penalty=0.0)


def logits(frames, seed):
    return torch.randn(frames, 2, 9, generator=torch.Generator().manual_seed(seed)) * 2


def quiet(sampling, frames):
    return draw_noise([torch.Generator().manual_seed(0)], [(2, frames, 9)], [(1,) * sampling.steps], sampling)[0]


def test_guidance_moves_away_from_the_unconditional():
    c, u = logits(4, 1), logits(4, 2)
    got = guided_log_probs(c, u, guidance=2.0, mask_id=MASK)
    direct = F.log_softmax(3 * F.log_softmax(c, -1) - 2 * F.log_softmax(u, -1), -1)
    torch.testing.assert_close(got[..., :MASK], direct[..., :MASK])
    assert torch.isneginf(got[..., MASK]).all()


def test_guidance_zero_is_plain_softmax():
    c = logits(4, 1)
    got = guided_log_probs(c, None, guidance=0.0, mask_id=MASK)
    torch.testing.assert_close(got[..., :MASK], F.log_softmax(c, -1)[..., :MASK])


def test_reveals_the_most_confident_cells_and_never_the_mask():
    log_probs = guided_log_probs(logits(5, 3), None, guidance=0.0, mask_id=MASK)
    codes = torch.full((2, 5), MASK)
    got = reveal(codes, log_probs, count=3, noise=quiet(GREEDY, 5), step=0, sampling=GREEDY, mask_id=MASK)
    confidence = log_probs.amax(-1).T.flatten()
    best = set(confidence.topk(3).indices.tolist())
    assert set((got.flatten() != MASK).nonzero().flatten().tolist()) == best
    assert torch.equal(got.flatten()[list(best)], log_probs.argmax(-1).T.flatten()[list(best)])
    assert torch.equal(codes, torch.full((2, 5), MASK))  # pure: the input is as before


def test_revealed_cells_stay():
    log_probs = guided_log_probs(logits(3, 4), None, guidance=0.0, mask_id=MASK)
    codes = torch.tensor([[1, MASK, 2], [3, 4, MASK]])
    got = reveal(codes, log_probs, count=2, noise=quiet(GREEDY, 3), step=0, sampling=GREEDY, mask_id=MASK)
    known = codes != MASK
    assert torch.equal(got[known], codes[known])
    assert (got != MASK).all()


def test_layer_penalty_puts_the_first_codebook_first():
    log_probs = guided_log_probs(logits(4, 5), None, guidance=0.0, mask_id=MASK)
    sampling = Sampling(steps=1, position_temperature=0.0, layer_penalty=100.0)
    codes = torch.full((2, 4), MASK)
    got = reveal(codes, log_probs, count=4, noise=quiet(sampling, 4), step=0, sampling=sampling, mask_id=MASK)
    assert (got[0] != MASK).all()
    assert (got[1] == MASK).all()


def test_class_temperature_samples_among_the_likeliest_tenth():
    sampling = Sampling(steps=1, position_temperature=0.0, class_temperature=50.0)
    V = 41
    spread = torch.randn(6, 2, V, generator=torch.Generator().manual_seed(6)) * 3
    log_probs = guided_log_probs(spread, None, guidance=0.0, mask_id=V - 1)
    noise = draw_noise([torch.Generator().manual_seed(3)], [(2, 6, V)], [(12,)], sampling)[0]
    codes = torch.full((2, 6), V - 1)
    got = reveal(codes, log_probs, count=12, noise=noise, step=0, sampling=sampling, mask_id=V - 1)
    top = log_probs.topk(5, dim=-1).indices.transpose(0, 1)  # ceil(0.1 * 41)
    assert (top == got[..., None]).any(-1).all()
    assert not torch.equal(got, log_probs.argmax(-1).T)
