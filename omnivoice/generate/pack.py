"""Items to generate, packed into one row of documents.

Each item becomes a conditional document (prompt, reference codes, target) and, with guidance, an unconditional one
(the target only). All conditional documents come first, so that the logits split in half. Everything except the
targets is embedded once; each step embeds the targets and writes them into the row. The token layout of the prompt is
in `text/prompt.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..lm import OmniVoiceLM, PackedLayout, TextEmbedding


@dataclass(frozen=True, eq=False)
class Item:
    """One chunk to generate: prompt token ids, reference codes [K, A] or None, and T target frames.

    known: codes [K, T] int64 on the CPU of a recording with the mask in the frames to fill; None = all are to be made.
    """

    prompt_ids: tuple[int, ...]
    reference: Tensor | None
    frames: int
    known: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of rows of the conditional document."""
        return len(self.prompt_ids) + (0 if self.reference is None else int(self.reference.shape[1])) + self.frames

    def opened(self, mask_id: int) -> Tensor:
        """Return which frames are to be made, [T] bool."""
        return torch.ones(self.frames, dtype=torch.bool) if self.known is None else self.known[0] == mask_id


@dataclass(frozen=True, eq=False)
class PackedItems:
    """The constants of a batch.

    base: embedded rows [S, E]; the target rows are zero. offsets: [K, 1], see `OmniVoiceLM.audio_offsets`.
    frames: of each item, in the order of the packed targets [K, sum of T]. guided: whether there are unconditional
    documents.
    """

    base: Tensor
    layout: PackedLayout
    offsets: Tensor
    frames: tuple[int, ...]
    guided: bool

    def rows(self, lm: OmniVoiceLM, codes: Tensor, base: Tensor) -> Tensor:
        """Return `base` with the current codes embedded in it: [S, E]. codes: [K, sum of T], the mask id if unrevealed.

        base: `self.base`, or a copy of it.
        """
        target = lm.embed_audio(codes, self.offsets)  # [sum of T, E]
        if self.guided:
            target = torch.cat((target, target))
        return base.index_copy(0, self.layout.target_rows, target)

    @property
    def constants(self) -> tuple[Tensor, ...]:
        """What differs between batches of the same shape: embedded rows, the targets' positions, the rotary tables, and
        where documents and their targets end."""
        layout = self.layout
        return self.base, layout.target_rows, *layout.rope, layout.rows.ends, layout.targets.ends

    def bounded(self, rounded: Callable[[int], int]) -> PackedItems:
        """Return the same items for kernels that are told `rounded(longest)` of the longest document."""
        layout = self.layout
        rows, targets = (replace(one, bound=rounded(one.longest)) for one in (layout.rows, layout.targets))
        return replace(self, layout=replace(layout, rows=rows, targets=targets, keys=rows))

    def around(self, constants: Sequence[Tensor]) -> PackedItems:
        """Return the same items with tensors like `constants` in place of these."""
        if all(given is own for given, own in zip(constants, self.constants)):
            return self
        base, target_rows, cos, sin, ends, target_ends = constants
        rows = replace(self.layout.rows, ends=ends)
        targets = replace(self.layout.targets, ends=target_ends)
        return replace(self, base=base, layout=PackedLayout(rows, targets, rows, target_rows, (cos, sin)))


def pack_items(
    lm: OmniVoiceLM, text: TextEmbedding, items: Sequence[Item], *, guided: bool, device: torch.device
) -> PackedItems:
    """Embed prompts and references, and lay out the documents, on `device`."""
    config, dtype = lm.config, lm.rows_dtype
    frames, offsets = [item.frames for item in items], lm.audio_offsets(device)
    parts, lengths = [], [item.length for item in items]
    for item in items:
        parts.append(text.rows(item.prompt_ids, dtype=dtype, device=device))
        if item.reference is not None:
            parts.append(lm.embed_audio(item.reference.to(device), offsets))
        parts.append(parts[0].new_zeros(item.frames, config.hidden_size))
    if guided:
        parts.append(parts[0].new_zeros(sum(frames), config.hidden_size))
        lengths += frames
    layout = PackedLayout.build(
        lengths, frames * 2 if guided else frames, head_dim=config.head_dim, theta=config.rope_theta, device=device
    )
    return PackedItems(torch.cat(parts), layout, offsets, tuple(frames), guided)
