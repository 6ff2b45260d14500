"""From a model in training to a LoRA, and from a LoRA to what training begins with.

Unusual: modules that were trained whole leave as differences from the model they were trained on (so adapters add up,
whatever was applied before), or, for PEFT's files, as whole weights.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import LoraError
from ..weights.lora import Change, Difference, LoRA, LowRank, Replacement
from .layers import LowRankEmbedding, LowRankLinear
from .model import TrainingModel
from .settings import TrainSettings


def trained_lora(
    model: TrainingModel, source: str, *, as_weights: bool = False, weights: Mapping[str, Tensor] | None = None
) -> LoRA:
    """What was learnt, on the CPU in float32, nothing of it shared with the model.

    source: its name in messages. as_weights: modules trained whole as they are, not as differences. weights: another
    state of the same model, by the names of `TrainingModel.trained`; None: the present one.
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
    """Every weight of a full fine-tuning by the checkpoint's names, on the CPU in float32."""
    return {name: _own(p.detach()) for name, p in model.trained().items()}


@torch.no_grad()
def start_from_lora(model: TrainingModel, lora: LoRA, settings: TrainSettings) -> None:
    """Let training go on from an adapter. Raises LoraError unless it fits the settings, module for module."""
    if settings.method == "full":
        raise LoraError(f"{lora.source} cannot be gone on with by method full: merge it into the model, and name that")
    pairs, whole = model.lora_layers(), model.full_modules()
    for name, change in lora.changes.items():
        wanted = LowRank if name in pairs else (Difference, Replacement) if name in whole else ()
        if not isinstance(change, wanted):
            raise LoraError(
                f"{lora.source} changes {name}, which this run does not train in that way: set targets and "
                "audio_modules to the values that it was trained with"
            )
    missing = [name for name in (*pairs, *whole) if name not in lora.changes]
    if missing:
        raise LoraError(
            f"{lora.source} does not change {missing[0]}, which this run trains: set targets and audio_modules to the "
            "values that it was trained with"
        )
    for name, layer in pairs.items():
        _begin_pair(layer, lora.changes[name], lora.source, settings.rank)
    for name, (weight, base) in whole.items():
        weight.copy_(base.to(weight.device, torch.float32) + lora.changes[name].change(base).to(weight.device))


def _begin_pair(layer: LowRankLinear | LowRankEmbedding, change: Change, source: str, rank: int) -> None:
    assert isinstance(change, LowRank)
    if change.rank != rank:
        raise LoraError(f"{source} has rank {change.rank}, this run {rank}: set rank to {change.rank}")
    layer.down.copy_(change.down)
    layer.up.copy_(change.up * (change.scale / layer.scale))


def _own(weight: Tensor) -> Tensor:
    return weight.to(device="cpu", dtype=torch.float32, copy=True)
