"""Items to generate, packed into one row of documents.

Each item gives a conditional document (prompt, reference codes, target) and, when guidance is on, an
unconditional one (target alone). All conditional documents come first, so that logits split in half.
Everything but the targets is embedded once; a step only embeds the targets and puts them in place.
The prompt's token layout is `text.prompt`'s business, not this file's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..lm import OmniVoiceLM, PackedLayout


@dataclass(frozen=True, eq=False)
class Item:
    """One thing to generate: prompt token ids, reference codes [K, A] or None, and T target frames."""

    prompt_ids: tuple[int, ...]
    reference: Tensor | None
    frames: int

    @property
    def length(self) -> int:
        """Rows of the conditional document."""
        return len(self.prompt_ids) + (0 if self.reference is None else int(self.reference.shape[1])) + self.frames


@dataclass(frozen=True, eq=False)
class PackedItems:
    """The constants of a batch. base: [S, E] embedded rows, targets still empty. frame_spans: each item's
    columns in the packed targets [K, sum of T]. guided: whether unconditional documents are present."""

    base: Tensor
    layout: PackedLayout
    frame_spans: tuple[tuple[int, int], ...]
    guided: bool

    def rows(self, lm: OmniVoiceLM, codes: Tensor) -> Tensor:
        """The embedded row [S, E] for the current codes [K, sum of T], mask id where not yet revealed."""
        target = lm.embed_audio(codes)  # [sum of T, E]
        if self.guided:
            target = torch.cat((target, target))
        return self.base.index_copy(0, self.layout.target_rows, target.to(self.base.dtype))


def pack_items(lm: OmniVoiceLM, items: Sequence[Item], *, guided: bool, device: torch.device) -> PackedItems:
    """Embed prompts and references, and lay the documents out; tensors land on `device`."""
    frames = [item.frames for item in items]
    parts, lengths = [], [item.length for item in items]
    for item in items:
        parts.append(lm.embed_text(torch.tensor(item.prompt_ids, device=device)))
        if item.reference is not None:
            parts.append(lm.embed_audio(item.reference.to(device)))
        parts.append(parts[0].new_zeros(item.frames, parts[0].shape[1]))
    if guided:
        parts.append(parts[0].new_zeros(sum(frames), parts[0].shape[1]))
        lengths += frames
    config = lm.config
    layout = PackedLayout.build(
        lengths, frames * 2 if guided else frames, head_dim=config.head_dim, theta=config.rope_theta, device=device
    )
    starts = [sum(frames[:i]) for i in range(len(frames))]
    spans = tuple((start, start + t) for start, t in zip(starts, frames))
    return PackedItems(torch.cat(parts), layout, spans, guided)
