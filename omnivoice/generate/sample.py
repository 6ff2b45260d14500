"""The sampling loop: a batch of items from all-masked to codes.

Items of one call share their sampling settings and are packed together; each brings its own noise, drawn
beforehand, so an item's tokens do not depend on its neighbours. The model stops running as soon as nothing
is masked (short items are done before the last step). Finite logits are checked once, after the loop, to keep the
device busy. Choosing what goes into a batch is `engine`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..config import LMConfig
from ..errors import NumericError
from ..lm import OmniVoiceLM
from ..types import Sampling
from .noise import ItemNoise, draw_noise
from .pack import Item, pack_items
from .schedule import reveal_counts
from .step import guided_log_probs, reveal


def item_noise(
    config: LMConfig, items: Sequence[Item], generators: Sequence[torch.Generator], sampling: Sampling
) -> list[ItemNoise]:
    """The noise of every item, drawn from its generator; one that is shared is drawn in upstream's order."""
    shapes = [(config.codebooks, item.frames, config.audio_vocab_size) for item in items]
    return draw_noise(generators, shapes, _counts(config, items, sampling), sampling)


def _counts(config: LMConfig, items: Sequence[Item], sampling: Sampling) -> list[tuple[int, ...]]:
    return [reveal_counts(item.frames * config.codebooks, sampling.steps, sampling.t_shift) for item in items]


def sample_codes(
    lm: OmniVoiceLM, items: Sequence[Item], noises: Sequence[ItemNoise], *, sampling: Sampling,
    device: torch.device, on_step: Callable[[int], None],
) -> list[Tensor]:  # fmt: skip
    """One [K, T] int64 tensor of codes per item, on the CPU. `on_step(len(items))` is called `sampling.steps` times.

    Raises NumericError when the model's output is not finite.
    """
    config = lm.config
    counts = _counts(config, items, sampling)
    packed = pack_items(lm, items, guided=sampling.guidance != 0, device=device)
    codes = [torch.full((config.codebooks, item.frames), config.audio_mask_id, device=device) for item in items]
    finite = torch.ones((), dtype=torch.bool, device=device)
    for step in range(sampling.steps):
        if any(count[step] for count in counts):
            logits = lm(packed.rows(lm, torch.cat(codes, dim=1)), packed.layout)
            finite = finite & torch.isfinite(logits).all()
            conditional, unconditional = logits.chunk(2) if packed.guided else (logits, None)
            log_probs = guided_log_probs(
                conditional, unconditional, guidance=sampling.guidance, mask_id=config.audio_mask_id
            )
            for i, (start, end) in enumerate(packed.frame_spans):
                if counts[i][step]:
                    codes[i] = reveal(
                        codes[i], log_probs[start:end], count=counts[i][step], noise=noises[i], step=step,
                        sampling=sampling, mask_id=config.audio_mask_id,
                    )  # fmt: skip
        on_step(len(items))
    if not bool(finite):
        raise NumericError(
            f"the model produced NaN or Inf in {lm.get_dtype()} on {device.type}: load it in float32 "
            "(or bfloat16 on a GPU that has it), and check the model file"
        )
    return [c.cpu() for c in codes]
