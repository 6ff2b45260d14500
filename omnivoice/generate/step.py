"""One decoding step: what the model predicts for every cell, and which predictions are revealed.

Pure tensor operations with static shapes; nothing here waits for the device. Upstream computes three softmaxes
(models/omnivoice.py:1419). Because the normalisers cancel, z = (1 + g) * conditional - g * unconditional has the same
argmax, and max(z) - logsumexp(z) is the same confidence, within float32 rounding. The layer penalty makes lower
codebooks come first. The mask token is never predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..lm import OmniVoiceLM
from ..types import Sampling, Speedups
from .noise import ItemNoise, gumbel
from .pack import PackedItems

COLDEST = 1e-6  # below this a temperature would push every score out of float32; sampling is greedy long before that
CLASS_TOP_RATIO = 0.1  # of the vocabulary kept when tokens are sampled (upstream _filter_top_k)


def predict(
    lm: OmniVoiceLM, packed: PackedItems, guidance: float, speedups: Speedups, codes: Tensor, base: Tensor
) -> Tensor:
    """Codes [K, sum of T] int64 -> guided log-probabilities [sum of T, K, V] float32, the mask token at -inf.

    base: see `PackedItems.rows`.
    """
    rows = packed.rows(lm, codes, base)
    parts = [(slice(None), packed.layout)] if speedups.packed else packed.layout.documents()
    each = [lm(rows[part], layout, targets_only=speedups.targets_only) for part, layout in parts]
    logits = each[0] if len(each) == 1 else torch.cat(each)
    conditional, unconditional = logits.chunk(2) if packed.guided else (logits, None)
    return guided_log_probs(conditional, unconditional, guidance, speedups, lm.config.audio_mask_id)


def guided_log_probs(
    conditional: Tensor, unconditional: Tensor | None, guidance: float, speedups: Speedups, mask_id: int
) -> Tensor:
    """Logits [R, K, V] float32, twice -> guided log-probabilities [R, K, V], a new tensor, the mask token at -inf."""
    guided = guide_in_one if speedups.one_pass_guidance else guide_as_upstream
    log_probs = guided(conditional, unconditional, guidance)
    log_probs[..., mask_id] = -math.inf
    return log_probs


def guide_in_one(conditional: Tensor, unconditional: Tensor | None, guidance: float) -> Tensor:
    """Logits [R, K, V] float32, twice -> guided log-probabilities [R, K, V], a new tensor."""
    guided = conditional if unconditional is None else torch.lerp(unconditional, conditional, 1 + guidance)
    return F.log_softmax(guided, dim=-1)


def guide_as_upstream(conditional: Tensor, unconditional: Tensor | None, guidance: float) -> Tensor:
    """Compute the same with upstream's three softmaxes, for comparison."""
    log_probs = F.log_softmax(conditional, dim=-1)
    if unconditional is None:
        return log_probs
    return F.log_softmax(log_probs + guidance * (log_probs - F.log_softmax(unconditional, dim=-1)), dim=-1)


@dataclass(frozen=True, eq=False)
class Revealer:
    """Decides which predictions of a batch are revealed. Everything that is constant over the steps, on the device.

    layers: [K, 1] int64, 0 to K - 1. cells: for items with the same number of cells to reveal, the number of the first
    and [items, cells] int64, the positions of these in the flattened [K, sum of T]. positions: Gumbel noise
    [steps, K, sum of T] float32, 0 where an item draws none; None when it is off. noises: for sampling tokens; empty
    when that is off.
    """

    layers: Tensor
    cells: tuple[tuple[int, Tensor], ...]
    positions: Tensor | None
    noises: tuple[ItemNoise, ...]
    sampling: Sampling
    mask_id: int

    @classmethod
    def of(cls, noises: Sequence[ItemNoise], sampling: Sampling, mask_id: int, device: torch.device) -> Revealer:
        """Return the revealer of all cells of items with this noise, packed in this order."""
        K, frames = noises[0].shape[0], [noise.shape[1] for noise in noises]
        cells = [part.flatten() for part in torch.arange(K * sum(frames)).view(K, -1).split(frames, dim=1)]
        drawn = [noise.positions for noise in noises if noise.positions is not None]
        samples = any(state is not None for noise in noises for state in noise.class_states)
        return cls(
            layers=torch.arange(K, device=device)[:, None],
            cells=_alike(cells, device),
            positions=torch.cat(drawn, dim=2).to(device) if drawn else None,
            noises=tuple(noises) if samples else (),
            sampling=sampling,
            mask_id=mask_id,
        )

    def among(self, cells: Sequence[Tensor]) -> Revealer:
        """Return a revealer that chooses among these cells of each item: [n] positions in the flattened codes."""
        return replace(self, cells=_alike(cells, self.layers.device))

    def reveal(self, codes: Tensor, log_probs: Tensor, step: int, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return codes [K, sum of T] with counts[i] more tokens of item i revealed, where the model is most confident.

        log_probs: [sum of T, K, V] float32. Revealed cells are never chosen again. Also returns the sum of the best
        log-probabilities, [] float32: it is not finite if any of them is not, and costs one kernel.
        """
        best, tokens = log_probs.max(dim=-1)  # [sum of T, K]
        if self.noises:
            tokens = self._sample_tokens(log_probs, tokens, step)
        scores = best.t() - self.layers * self.sampling.layer_penalty  # [K, sum of T]
        if self.positions is not None:
            scores = scores / max(self.sampling.position_temperature, COLDEST) + self.positions[step]
        scores = scores.masked_fill(codes != self.mask_id, -math.inf).flatten()
        chosen = [  # items of the same length reveal the same number
            own.gather(1, scores[own].topk(counts[first], dim=1).indices).flatten()
            for first, own in self.cells
            if counts[first]
        ]
        where = chosen[0] if len(chosen) == 1 else torch.cat(chosen)
        flat = codes.flatten().index_copy(0, where, tokens.t().flatten()[where])
        return flat.view_as(codes), best.sum()

    def _sample_tokens(self, log_probs: Tensor, tokens: Tensor, step: int) -> Tensor:
        """Return tokens [sum of T, K], sampled from the likeliest of each cell for items that draw noise now."""
        parts, start = [], 0
        for noise in self.noises:
            rows = slice(start, start + noise.shape[1])
            uniform = noise.class_uniform(step, log_probs.device)  # [K, T, V]
            if uniform is None:
                parts.append(tokens[rows])
            else:
                parts.append(_choose(log_probs[rows], uniform.transpose(0, 1), self.sampling.class_temperature))
            start = rows.stop
        return torch.cat(parts)


def _alike(cells: Sequence[Tensor], device: torch.device) -> tuple[tuple[int, Tensor], ...]:
    """Return the items' cells, those of items with equally many together, each with the number of the first item."""
    alike: dict[int, list[int]] = {}
    for item, own in enumerate(cells):
        alike.setdefault(len(own), []).append(item)
    return tuple((own[0], torch.stack([cells[item] for item in own]).to(device)) for own in alike.values())


def _choose(log_probs: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Sample from the likeliest tenth of the vocabulary of each cell: [T, K, V] -> [T, K].

    The candidates are in the order of the vocabulary, so that the first of equal ones is chosen, as upstream does.
    """
    keep = math.ceil(CLASS_TOP_RATIO * log_probs.shape[-1])
    kept = log_probs.topk(keep, dim=-1).indices.sort(dim=-1).values  # [T, K, keep]
    scores = log_probs.gather(-1, kept) / max(temperature, COLDEST) + gumbel(uniform.gather(-1, kept))
    return kept.gather(-1, scores.argmax(dim=-1, keepdim=True)).squeeze(-1)
