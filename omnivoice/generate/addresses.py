"""Where the weights of a model are: a CUDA graph reads them at the addresses it was captured with.

A host that moves weights may keep layers in place by means of its own, and then says where (`held`). A weight
that it copies to the device for every run may be anywhere: a graph keeps the copy that it was captured with, and the
new values are written into it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor, nn

from .. import ops
from ..ops import PAGED, PATCHED

ELSEWHERE = "some weights are not on the GPU"
CHANGING = "some weights are computed each time they are used"
MOVING = "some weights may be moved while the model runs"
SPECIAL = "some weights are stored in a special form"


@dataclass(frozen=True, eq=False)
class Addresses:
    """identity: differs whenever a weight has another address; None if a graph cannot use the weights, and `problem`
    says why. copies: weights whose address does not matter, in the order of the model."""

    identity: Hashable | None
    problem: str = ""
    copies: tuple[Tensor, ...] = ()


FindAddresses = Callable[[nn.Module, torch.device], Addresses]


def weight_addresses(
    model: nn.Module,
    device: torch.device,
    held: Mapping[nn.Module, Hashable] = MappingProxyType({}),
    copies: Collection[int] = (),
) -> Addresses:
    """Return where the weights of `model` are on `device`, which has the index that tensors report.

    Addresses suffice: a replay reads the current values, so weights changed in place need no new graph. held: layers
    whose weights a host keeps in place for now, with something that changes when their place does. copies: the id() of
    each weight that the host copied to the device for this run and that nothing else refers to.
    """
    places: list[Hashable] = []
    copied: list[Tensor] = []
    for module in model.modules():
        if any(getattr(module, name, None) for name in PATCHED):
            return Addresses(None, CHANGING)
        if module in held:
            places.append(held[module])
            continue
        if getattr(module, PAGED, None):
            return Addresses(None, MOVING)
        for weight in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
            if type(weight) not in ops.PLAIN_TENSORS:
                return Addresses(None, SPECIAL)
            if weight.device != device:
                return Addresses(None, ELSEWHERE)
            if id(weight) in copies:
                copied.append(weight)
            places.append((weight.shape if id(weight) in copies else weight.data_ptr(), weight.dtype))
    return Addresses(tuple(places), copies=tuple(copied))
