"""What is trained in ComfyUI: a private copy of the graph's language model.

What is unusual: the graph's weights are inference tensors, and ComfyUI patches them in place; so each is copied, with
the patches that a LoRA node put on it, in float32, and rounded once. Nothing of the graph's model is moved or changed.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator

import comfy.lora
import comfy.model_management as mm
import torch

from ...omnivoice.lm import OmniVoiceLM
from ...omnivoice.lm.fused import fused_rows
from ...omnivoice.ops import PLAIN_OPS
from ...omnivoice.weights.read import META, fill
from . import lora, models


@contextlib.contextmanager
def training_mode() -> Iterator[None]:
    """Gradients, inside ComfyUI's inference mode, and ComfyUI's own flag, which turns shortcuts off that have none."""
    with torch.inference_mode(False), torch.enable_grad():
        mm.in_training = True
        try:
            yield
        finally:
            mm.in_training = False


def training_dtype(choice: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 on GPUs that ComfyUI would use it on, else float32; never float16, whose gradients vanish."""
    if choice != "auto":
        return models.DTYPES[choice]
    slow = mm.is_device_cpu(device) or mm.is_device_mps(device)
    return torch.bfloat16 if not slow and mm.should_use_bf16(device) else torch.float32


@torch.no_grad()
def private_copy(model: models.LoadedModel, dtype: torch.dtype, place: torch.device) -> OmniVoiceLM:
    """The language model with its patches, unfused, on `place`; one weight at a time is there in float32."""
    config, patched = model.engine.lm.config, model.lm.get_key_patches()
    rows = fused_rows(config) if lora.is_fused(model) else {}
    module = OmniVoiceLM(config, ops=PLAIN_OPS, device=META, dtype=dtype, fused=False)
    parts = defaultdict[str, list[tuple[str, int, int]]](list)
    for name in module.state_dict():
        source, first, count = rows.get(name, (name, 0, -1))
        parts[source].append((name, first, count))
    tensors = {}
    for source, wanted in parts.items():
        (weight, _), *patches = patched[source]
        whole = weight.to(device=place, dtype=torch.float32, copy=True)
        whole = comfy.lora.calculate_weight(patches, whole, source) if patches else whole
        for name, first, count in wanted:
            part = whole if count < 0 else whole.narrow(0, first, count)
            tensors[name] = part.to(dtype, copy=True)
    return fill(module, tensors)
