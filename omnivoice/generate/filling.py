"""Speech that is filled into a recording: the plan of such a run, and the two orders in which codebooks are revealed.

The model is shown the codes of a recording as its target, with the mask in the frames to fill, and the text of the
whole. Both documents of guidance get them. `CODEBOOKS`, the default, reveals the first codebook of all opened frames,
then the second, and so on; it works for every model. `TOGETHER` reveals all codebooks in upstream's order, which only
models can do whose codebooks were masked independently of each other in training. `order_loss` in
`productions.edit_order` tells which kind a model is. Upstream has no counterpart; its closed pull request 93 showed the
unconditional half of guidance the opened frames alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from ..config import LMConfig
from ..errors import InputError, TextError
from ..intake.limits import check_choice, shown
from ..types import GenerationPlan, Sampling

CODEBOOKS, TOGETHER = "codebooks", "together"
ORDERS = (CODEBOOKS, TOGETHER)
FIRST_STEPS, OTHER_STEPS = 12, 2


def in_order(sampling: Sampling, order: str, codebooks: int, *, quick: bool = False) -> Sampling:
    """Return `sampling` for an order, one of ORDERS.

    quick: half as many steps. Raises InputError for an unknown order.
    """
    half = 2 if quick else 1
    if check_choice("order", order, ORDERS) == TOGETHER:
        return replace(sampling, codebook_steps=(), steps=max(1, sampling.steps // half))
    return replace(sampling, codebook_steps=(FIRST_STEPS // half, *[OTHER_STEPS // half] * (codebooks - 1)))


def filling_plan(plan: GenerationPlan, frames: int) -> GenerationPlan:
    """Return the plan of a text for a recording of `frames` frames that is to say it.

    Raises TextError for a text with pauses or of several chunks, InputError for one with a voice.
    """
    if plan.request.voice is not None:
        raise InputError("an edit takes its voice from the recording: leave the voice out")
    if plan.tail_samples or any(chunk.pause_samples for chunk in plan.chunks):
        raise TextError("a text for an edit can hold no pause marks: leave them out, and edit one span at a time")
    if len(plan.chunks) > 1:
        raise TextError(
            f"a text for an edit is spoken in one piece, and {len(plan.request.text)} characters are too long: "
            "change fewer words at a time, and end sentences with full stops"
        )
    return replace(plan, chunks=(replace(plan.chunks[0], frames=frames),), target_samples=None)


def check_filling(plans: Sequence[GenerationPlan], codes: Sequence[Tensor], config: LMConfig) -> None:
    """Raise InputError if plans and codes do not fit each other or the model."""
    if len(plans) != len(codes):
        raise InputError(f"there must be codes for each plan, got {len(codes)} for {len(plans)} plans")
    K, mask_id = config.codebooks, config.audio_mask_id
    for plan, each in zip(plans, codes):
        if not isinstance(each, Tensor) or each.ndim != 2 or each.shape[0] != K or each.is_floating_point():
            raise InputError(f"the codes of a recording must be [{K}, T] integers, got {shown(each)}")
        if len(plan.chunks) != 1 or plan.chunks[0].frames != each.shape[1]:
            raise InputError(f"the plan must have one chunk of {each.shape[1]} frames: make it with filling_plan")
        if each.numel() == 0 or int(each.min()) < 0 or int(each.max()) >= config.audio_vocab_size:
            raise InputError(f"the codes of a recording must be 0-{config.audio_vocab_size - 1}")
        masked = each == mask_id
        if not bool(masked.any()) or not bool((masked == masked[0]).all()):
            raise InputError("the mask must stand in every codebook of the frames to fill, and there must be some")
        steps = plan.request.sampling.codebook_steps
        if steps and len(steps) != K:
            raise InputError(f"codebook_steps must have {K} numbers for this model, got {len(steps)}")
