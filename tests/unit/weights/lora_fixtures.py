"""What the tests of LoRAs share."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from omnivoice.weights.lora import LoRA, merged


def with_lora(tensors: Mapping[str, Tensor], lora: LoRA, strength: float) -> dict[str, Tensor]:
    """Return the checkpoint's tensors with the LoRA merged in, each in its own dtype."""
    changes = {f"{module}.weight": change for module, change in lora.changes.items()}
    return {
        name: merged(tensor, [(changes[name], strength)], name, tensor.dtype) if name in changes else tensor
        for name, tensor in tensors.items()
    }
