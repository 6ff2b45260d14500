"""Merging LoRAs into a language model that is loaded, for callers without a host that patches weights.

A host such as ComfyUI patches instead, so that a LoRA can be removed again. `export` merges into files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from torch import Tensor

from ..intake.limits import check_number
from ..lm import OmniVoiceLM
from .lora import Change, LoRA, merged, placed
from .read import fill

Rows = tuple[int, int] | None


def merge_loras(lm: OmniVoiceLM, loras: Sequence[tuple[LoRA, float]], *, fused: bool) -> None:
    """Add (LoRA, strength) pairs to the weights of `lm`; the changes add up and are rounded once, to its dtype.

    fused: whether the model's layers are. Weights that a LoRA changes are new tensors, so a file that they were mapped
    from stays as it is. Raises InputError for a strength, LoraError if a weight overflows.
    """
    found: dict[str, dict[tuple[str, Rows], list[tuple[Change, float]]]] = defaultdict(lambda: defaultdict(list))
    for lora, strength in loras:
        amount = check_number("strength", strength)
        for module, weight, rows, change in placed(lora, lm.config, fused=fused) if amount != 0 else ():
            found[weight][module, rows].append((change, amount))
    state = lm.state_dict()
    new: dict[str, Tensor] = {}
    for name, parts in found.items():
        new[name] = state[name].clone()
        for (module, rows), changes in parts.items():
            part = new[name] if rows is None else new[name].narrow(0, *rows)
            part.copy_(merged(part.cpu(), changes, f"{module}.weight", part.dtype))
    fill(lm, new)
