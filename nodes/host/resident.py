"""Keeps the language model's weights in place on the GPU while a run uses CUDA graphs.

With DynamicVRAM ComfyUI leaves weights on the CPU and pages them into a range of GPU addresses whenever a layer runs;
between two layers it may give the memory to something else. A graph reads its weights without asking. So the pages of
every layer are pinned for the length of a run, as ComfyUI does for graphs of its own (comfy/model_prefetch.py): each
layer's weights are brought in, with their patches, by ComfyUI's own cast, and their pages are unpinned at the end.
Where that does not fit, nothing is pinned and the steps run without graphs. Small weights are not paged: ComfyUI copies
them to the GPU for every run. Other patchers move weights only between runs, so there is nothing to pin.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import comfy.model_patcher
import comfy.ops
import torch
from torch import nn

from ...omnivoice.generate.addresses import Addresses, FindAddresses, weight_addresses
from ...omnivoice.generate.approximate import is_approximate
from ...omnivoice.generate.graphs import pays
from ...omnivoice.ops import PAGED
from ...omnivoice.types import GenerationPlan
from .models import LoadedModel

NO_ROOM = "there is not enough free memory on the GPU to keep all weights there"


@contextmanager
def in_place(model: LoadedModel, plans: Sequence[GenerationPlan], memory: float) -> Iterator[FindAddresses]:
    """Keep the weights in place while the block runs, if graphs are wanted for these plans; yields where they are then.

    memory: bytes that the run needs besides the weights.
    """
    lm, patcher, device = model.engine.lm, model.lm, model.lm.load_device
    paged = [layer for layer in lm.modules() if getattr(layer, PAGED, None) is not None]
    useful = any(pays(0, plan.request.sampling.passes) and not is_approximate(plan.request.sampling) for plan in plans)
    if not paged or not useful or not model.engine.sampler.graphs.wanted(device):
        yield weight_addresses
        return
    find, layers = partial(weight_addresses, copies=_copies(patcher)), dict.fromkeys(paged)
    with ExitStack() as pins:
        if find(lm, device, held=layers).identity is not None:  # otherwise pins would not help
            held = _pinned(paged, device, pins)
            weights = patcher.loaded_size() + model.decoder.model_size()
            if held is None or patcher.get_free_memory(device) - weights < memory:
                pins.close()
                yield lambda module, device: Addresses(None, NO_ROOM)
                return
            find = partial(find, held=held)
        yield find


def _copies(patcher: comfy.model_patcher.ModelPatcher) -> set[int]:
    """Return the id() of each weight that ComfyUI made for this run; the patcher keeps the original."""
    originals = {key: original.weight for key, original in patcher.backup.items()}
    return {id(weight) for key, weight in patcher.model.named_parameters() if originals.get(key, weight) is not weight}


def _pinned(layers: Sequence[Any], device: torch.device, pins: ExitStack) -> dict[nn.Module, Hashable] | None:
    """Bring in and pin the weights of all layers; return their addresses and the pages behind these, None if they do
    not all fit. `pins` unpins them."""
    from comfy_aimdo import model_vbar  # installed with every ComfyUI that pages weights

    held: dict[nn.Module, Hashable] = {}
    for layer in layers:
        signature = model_vbar.vbar_fault(layer._v)
        if signature is None:
            return None
        pins.callback(model_vbar.vbar_unpin, layer._v)
        if not model_vbar.vbar_signature_compare(signature, layer._v_signature):
            dtype = layer.weight.dtype
            cast = comfy.ops.cast_bias_weight(layer, dtype=dtype, device=device, bias_dtype=dtype, offloadable=True)
            comfy.ops.uncast_bias_weight(layer, *cast)
        if not model_vbar.vbar_signature_compare(signature, layer._v_signature):
            return None
        held[layer] = (layer._v[1], bytes(signature))
    return held
