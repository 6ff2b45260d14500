"""The stages of decoding a batch: which cells are revealed in which steps, and what the model is shown meanwhile.

Plain generation has one stage: every cell of every item. Speech that is filled into a recording has the opened frames
alone to reveal, and either one stage, or one for each codebook. In the stage of codebook k the model sees the codebooks
up to k of the frames that are known, and the mask in place of the higher ones: a model whose masks in training followed
the order of decoding has never seen a higher codebook beside a lower one that was masked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import LMConfig
from ..types import Sampling
from .noise import ItemNoise
from .pack import Item
from .schedule import reveals
from .step import Revealer


@dataclass(frozen=True, eq=False)
class Stage:
    """Consecutive steps that reveal the same cells.

    counts: how many each step reveals, [steps][items]. hidden: [K, sum of T] bool, the known cells that the model is
    not shown; None = it is shown everything.
    """

    counts: tuple[tuple[int, ...], ...]
    revealer: Revealer
    hidden: Tensor | None

    def shown(self, codes: Tensor) -> Tensor:
        """Return what the model is shown of codes [K, sum of T]."""
        return codes if self.hidden is None else codes.masked_fill(self.hidden, self.revealer.mask_id)


def first_codes(items: Sequence[Item], config: LMConfig, device: torch.device) -> Tensor:
    """Return the codes before the first step, [K, sum of T]: the mask, and what is known."""
    shape, mask_id = (config.codebooks, sum(item.frames for item in items)), config.audio_mask_id
    if all(item.known is None for item in items):
        return torch.full(shape, mask_id, device=device)
    parts = [torch.full((shape[0], item.frames), mask_id) if item.known is None else item.known for item in items]
    return torch.cat(parts, dim=1).to(device)


def stages(
    items: Sequence[Item], noises: Sequence[ItemNoise], sampling: Sampling, config: LMConfig, device: torch.device
) -> Iterator[Stage]:
    """Yield the stages of a batch, in order."""
    revealer = Revealer.of(noises, sampling, config.audio_mask_id, device)
    opened = [item.opened(config.audio_mask_id) for item in items]
    each = [reveals(int(frames.sum()), config.codebooks, sampling) for frames in opened]
    cells = torch.arange(config.codebooks * sum(item.frames for item in items)).view(config.codebooks, -1)
    parts = cells.split([item.frames for item in items], dim=1)
    known = ~torch.cat(opened)
    for stage, (books, _) in enumerate(each[0]):
        rows = slice(books.start, books.stop)
        own = [part[rows, frames].flatten() for part, frames in zip(parts, opened)]
        hidden = None
        if books.stop < config.codebooks and known.any():
            hidden = torch.zeros(cells.shape, dtype=torch.bool)
            hidden[books.stop :, known] = True
        yield Stage(
            counts=tuple(zip(*(item[stage][1] for item in each))),
            revealer=revealer.among(own),
            hidden=None if hidden is None else hidden.to(device),
        )
