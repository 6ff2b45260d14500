"""Extracts a LoRA from a model in training, and starts training from a LoRA.

A fully trained module is stored as the difference from its initial weights, so that several LoRAs can be added up. For
PEFT's modules_to_save it is stored as weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import LoraError
from ..weights.lora import Change, Difference, LoRA, LowRank, Replacement
from .model import TrainingModel
from .settings import TrainSettings


def trained_lora(
    model: TrainingModel, source: str, *, as_weights: bool = False, weights: Mapping[str, Tensor] | None = None
) -> LoRA:
    """Return the trained LoRA, on the CPU in float32, sharing no memory with the model.

    source: its name in messages. as_weights: fully trained modules as weights instead of differences. weights: another
    state of the same model, by the names of `TrainingModel.trained`; None for the current one.
    """
    now = {name: p.detach() for name, p in model.trained().items()} if weights is None else weights
    changes: dict[str, Change] = {}
    for name, layer in model.lora_layers().items():
        down, up = (_own(now[f"{name}.{half}"]) for half in ("down", "up"))
        changes[name] = LowRank(down, up, layer.scale)
    for name, (_, base) in model.full_modules().items():
        weight = _own(now[f"{name}.weight"])
        changes[name] = Replacement(weight) if as_weights else Difference(weight - _own(base))
    return LoRA(source, dict(sorted(changes.items())))


def full_weights(model: TrainingModel) -> dict[str, Tensor]:
    """Return every weight of a full fine-tune by the checkpoint's names, on the CPU in float32."""
    return {name: _own(p.detach()) for name, p in model.trained().items()}


@torch.no_grad()
def start_from_lora(model: TrainingModel, lora: LoRA, settings: TrainSettings) -> None:
    """Start training from a LoRA. Raises LoraError unless it fits the settings, module for module."""
    if settings.method == "full":
        raise LoraError(f"method full cannot start from {lora.source}: merge it into the model, and train that")
    layers, full = model.lora_layers(), model.full_modules()
    advice = "set targets and audio_modules to the values that it was trained with"
    for name, change in lora.changes.items():
        wanted = LowRank if name in layers else (Difference, Replacement) if name in full else ()
        if not isinstance(change, wanted):
            raise LoraError(f"{lora.source} changes {name}, which this run does not train in that way: {advice}")
    missing = [name for name in (*layers, *full) if name not in lora.changes]
    if missing:
        raise LoraError(f"{lora.source} does not change {missing[0]}, which this run trains: {advice}")
    for name, layer in layers.items():
        change = lora.changes[name]
        assert isinstance(change, LowRank)
        if change.rank != settings.rank:
            raise LoraError(
                f"{lora.source} has rank {change.rank}, this run {settings.rank}: set rank to {change.rank}"
            )
        layer.down.copy_(change.down)
        layer.up.copy_(change.up * (change.scale / layer.scale))
    for name, (weight, base) in full.items():
        weight.copy_(base.to(weight.device, torch.float32) + lora.changes[name].change(base).to(weight.device))


def _own(weight: Tensor) -> Tensor:
    return weight.to(device="cpu", dtype=torch.float32, copy=True)
