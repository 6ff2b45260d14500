"""How well the model knows the first codebook of opened frames: one forward pass, without guidance and noise.

`productions.edit_order` compares what it is shown of the other frames. Items are packed together as in `sample`, so
a loss depends neither on the other items nor on the split into batches, within rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import LMConfig
from ..errors import InputError, NumericError
from ..intake.limits import shown
from ..types import Sampling
from .pack import Item, pack_items
from .sample import Sampler
from .stages import first_codes
from .step import predict

UNGUIDED = Sampling(guidance=0.0)


@dataclass(frozen=True, eq=False)
class OpenedSpeech:
    """What the model is shown of a recording, and what is to be found there.

    prompt_ids: of the text, see `text.prompt`. codes: [K, T] int64 on the CPU, with the mask in every codebook of the
    opened frames; of the others, with the mask in place of what is not shown. first: [T] int64, the first codebook of
    the recording.
    """

    prompt_ids: tuple[int, ...]
    codes: Tensor
    first: Tensor

    @property
    def item(self) -> Item:
        """The item for `pack`."""
        return Item(self.prompt_ids, None, int(self.codes.shape[1]), self.codes)


def check_opened(speech: Sequence[OpenedSpeech], config: LMConfig) -> None:
    """Raise InputError if codes do not fit the model, or nothing is opened."""
    K, mask_id = config.codebooks, config.audio_mask_id
    for each in speech:
        codes, first = each.codes, each.first
        if not isinstance(codes, Tensor) or codes.ndim != 2 or codes.shape[0] != K or codes.dtype != torch.int64:
            raise InputError(f"the codes of a recording must be [{K}, T] int64, got {shown(codes)}")
        if codes.numel() == 0 or int(codes.min()) < 0 or int(codes.max()) > mask_id:
            raise InputError(f"the codes of a recording must be 0-{mask_id}")
        if first.shape != codes.shape[1:] or int(first.min()) < 0 or int(first.max()) >= mask_id:
            raise InputError(f"the first codebook must be {codes.shape[1]} codes of 0-{mask_id - 1}")
        opened = each.item.opened(mask_id)
        if not bool(opened.any()) or not bool((codes[:, opened] == mask_id).all()):
            raise InputError("the mask must stand in every codebook of the opened frames, and there must be some")


def opened_losses(sampler: Sampler, speech: Sequence[OpenedSpeech]) -> list[Tensor]:
    """Return -log p of the first codebook in the opened frames of each recording: [opened frames] float32, in nats.

    If float16 overflows, the model continues in bfloat16. Raises NumericError if a loss is still not finite.
    """
    losses = _losses(sampler, speech)
    if not bool(torch.isfinite(losses).all()) and sampler.lm.continue_in_bfloat16():
        sampler.graphs.clear("the model continues in bfloat16")
        losses = _losses(sampler, speech)
    if not bool(torch.isfinite(losses).all()):
        raise NumericError(
            f"the model produced NaN or Inf on {sampler.device.type}: load it in fp32, and check the model file"
        )
    mask_id = sampler.lm.config.audio_mask_id
    parts = losses.split([each.item.frames for each in speech])
    return [part[each.item.opened(mask_id)] for part, each in zip(parts, speech)]


def _losses(sampler: Sampler, speech: Sequence[OpenedSpeech]) -> Tensor:
    """Return -log p of the first codebook in all frames, [sum of T] float32 on the CPU."""
    lm, device, items = sampler.lm, sampler.device, [each.item for each in speech]
    packed = pack_items(lm, sampler.text, items, guided=False, device=device)
    codes = first_codes(items, lm.config, device)
    log_probs = predict(lm, packed, 0.0, sampler.speedups, codes, packed.base)  # [sum of T, K, V]
    first = torch.cat([each.first for each in speech]).to(device)
    return -log_probs[:, 0].gather(1, first[:, None])[:, 0].cpu()
