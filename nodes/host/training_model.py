"""The model that is trained in ComfyUI: a private copy of the graph's language model.

The graph's weights are inference tensors, and ComfyUI patches them in place. So each weight is copied, with the patches
of LoRA nodes applied in float32, and rounded once. The graph's model is neither moved nor changed.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator

import comfy.lora
import comfy.model_management as mm
import torch

from ...omnivoice.devices import AUTO, DTYPES
from ...omnivoice.errors import InputError
from ...omnivoice.lm import OmniVoiceLM
from ...omnivoice.lm.fused import fused_rows, unfused_part
from ...omnivoice.ops import PLAIN_OPS
from ...omnivoice.weights.read import META, dtypes_of, fill
from . import lora, models


@contextlib.contextmanager
def training_mode() -> Iterator[None]:
    """Enable gradients inside ComfyUI's inference mode, and set ComfyUI's flag that disables code without gradients."""
    with torch.inference_mode(False), torch.enable_grad():
        mm.in_training = True
        try:
            yield
        finally:
            mm.in_training = False


def training_dtype(choice: str, device: torch.device) -> torch.dtype:
    """Return the dtype for `choice`; auto is bfloat16 on GPUs where ComfyUI would use it, else float32.

    Never float16, whose gradients vanish.
    """
    if choice != AUTO:
        return DTYPES[choice]
    slow = mm.is_device_cpu(device) or mm.is_device_mps(device)
    return torch.bfloat16 if not slow and mm.should_use_bf16(device) else torch.float32


@torch.no_grad()
def private_copy(model: models.LoadedModel, dtype: torch.dtype, place: torch.device) -> OmniVoiceLM:
    """Return an unfused, patched copy of the language model on `place`; only one weight at a time is float32.

    Raises InputError for weights in 8 bits: a LoRA would learn to correct their rounding.
    """
    if models.has_8_bit_weights(model):
        raise InputError("a model with dtype fp8 cannot be trained: set dtype of Load OmniVoice to auto")
    config, patched = model.engine.lm.config, model.lm.get_key_patches()
    rows = fused_rows(config) if lora.is_fused(model) else {}
    module = OmniVoiceLM(config, ops=PLAIN_OPS, device=META, dtype=dtype, fused=False)
    parts, dtypes = defaultdict[str, list[tuple[str, int, int]]](list), dtypes_of(module)
    for name in dtypes:
        source, first, count = rows.get(name, (name, 0, -1))
        parts[source].append((name, first, count))
    tensors = {}
    for source, wanted in parts.items():
        (weight, _), *patches = patched[source]
        full = weight.to(device=place, dtype=torch.float32, copy=True)
        full = comfy.lora.calculate_weight(patches, full, source) if patches else full
        for name, first, count in wanted:
            part = full if count < 0 else unfused_part(name, full, first, count)
            tensors[name] = part.to(dtypes[name], copy=True)
    return fill(module, tensors)
