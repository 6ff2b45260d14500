"""One decoding step: guided scores in one pass, and the tokens that they reveal.

Pure tensor maths with static shapes; nothing here waits for the device. Upstream takes three softmaxes
(models/omnivoice.py:1419); since normalisers cancel, z = (1 + g) * conditional - g * unconditional has the same
argmax, and max(z) - logsumexp(z) is the same confidence, within float32 rounding. Layer penalty: lower codebooks
first. The mask token is never predicted.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..types import Sampling
from .noise import ItemNoise

COLDEST = 1e-6  # below this a temperature would push every score out of float32; it is greedy long before
CLASS_TOP_RATIO = 0.1  # of the vocabulary kept when tokens are sampled (upstream _filter_top_k)


def guided_log_probs(conditional: Tensor, unconditional: Tensor | None, *, guidance: float, mask_id: int) -> Tensor:
    """Logits [R, K, V] float32 -> guided log-probabilities [R, K, V], the mask token at -inf."""
    guided = conditional if unconditional is None else torch.lerp(unconditional, conditional, 1 + guidance)
    log_probs = F.log_softmax(guided, dim=-1)
    log_probs[..., mask_id] = -math.inf
    return log_probs


def reveal(
    codes: Tensor, log_probs: Tensor, *, count: int, noise: ItemNoise, step: int, sampling: Sampling, mask_id: int
) -> Tensor:
    """Codes [K, T] with `count` more tokens revealed, where the model is most confident.

    log_probs: [T, K, V] float32 of this item. Already revealed positions are never chosen again.
    """
    log_probs = log_probs.transpose(0, 1)  # [K, T, V]
    tokens = _choose_tokens(log_probs, noise.class_gumbel(step, codes.device), sampling.class_temperature)  # [K, T]
    layers = torch.arange(codes.shape[0], device=codes.device)[:, None]  # [K, 1]
    scores = log_probs.amax(dim=-1) - layers * sampling.layer_penalty  # [K, T]
    position = noise.position_gumbel(step, codes.device)
    if position is not None:
        scores = scores / max(sampling.position_temperature, COLDEST) + position
    scores = scores.masked_fill(codes != mask_id, -math.inf).flatten()  # [K*T]
    chosen = scores.topk(count).indices
    flat = codes.flatten()
    return flat.index_copy(0, chosen, tokens.flatten()[chosen]).view_as(codes)


def _choose_tokens(log_probs: Tensor, noise: Tensor | None, temperature: float) -> Tensor:
    """The likeliest token of each cell, or a sample among the likeliest tenth of the vocabulary: [K, T]."""
    if noise is None:
        return log_probs.argmax(dim=-1)
    keep = math.ceil(CLASS_TOP_RATIO * log_probs.shape[-1])
    values, indices = log_probs.topk(keep, dim=-1)
    kept = torch.full_like(log_probs, -math.inf).scatter(-1, indices, values)
    return (kept / max(temperature, COLDEST) + noise).argmax(dim=-1)
