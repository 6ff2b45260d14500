"""The tensors of the simulated CUDA device, and who is to blame for what happens to them (see `simulated_cuda.py`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

CUDA = torch.device("cuda:0")
CPU = torch.device("cpu")
WATCHED = ("omnivoice", "nodes", "comfy")  # the packages whose lines are blamed for a kernel, the innermost first

Operator = Callable[..., Any]


class Device(Protocol):
    """What a tensor asks its device to do."""

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute one operator of torch."""


class DeviceMixError(RuntimeError):
    """Tensors on the CPU and on the GPU met in one operation."""


class SimulatedTensor(Tensor):
    """A tensor that reports cuda:0. held: its values, on the CPU; views share the storage of `held`."""

    held: Tensor
    cuda: Device
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor, cuda: Device) -> SimulatedTensor:
        place = {"strides": held.stride(), "storage_offset": held.storage_offset(), "dtype": held.dtype}
        self = Tensor._make_wrapper_subclass(cls, held.shape, **place, device=CUDA, requires_grad=False)
        self.held, self.cuda = held, cuda
        return self

    @classmethod
    def __torch_dispatch__(cls, func: Operator, types: object, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_flatten((args, kwargs or {}))[0]
        cuda = next(x.cuda for x in given if isinstance(x, SimulatedTensor))
        return cuda.run(func, args, kwargs or {})

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"SimulatedTensor({tuple(self.shape)}, {self.dtype})"

    def data_ptr(self) -> int:
        """Return the address of the values."""
        return self.held.data_ptr()


def held(tree: Any) -> Any:
    """Return the same tree with the values of simulated tensors in their places."""
    return tree_map(lambda x: x.held if isinstance(x, SimulatedTensor) else x, tree)


def pinned(x: Any, whether: bool) -> Any:
    """Return a tensor on the CPU, marked as pinned if so: only from there does a copy to CUDA not wait."""
    if whether:
        x.simulated_pinned = True
    return x


def is_pinned(x: Tensor) -> bool:
    """Whether a tensor on the CPU is marked as pinned."""
    return getattr(x, "simulated_pinned", False)


def refuse_mixed(name: str, given: Sequence[Any]) -> None:
    """Raise DeviceMixError if tensors of both devices are among the arguments. A number on the CPU goes with both."""
    tensors = [x for x in given if isinstance(x, Tensor)]
    others = [x for x in tensors if not isinstance(x, SimulatedTensor) and x.dim()]
    if others and len(others) < len(tensors):
        listed = ", ".join(f"{tuple(x.shape)} on {x.device.type}" for x in tensors)
        raise DeviceMixError(f"{name}: {listed}, at {caller()}")


def caller() -> str:
    """Return "folder/file.py:line" of the innermost frame in a watched package; "elsewhere" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if watched := _watched_name(frame.f_code.co_filename):
            return f"{watched}:{frame.f_lineno}"
        frame = frame.f_back
    return "elsewhere"


@cache
def _watched_name(file: str) -> str:
    """Return "folder/file.py" of a file in a watched package, otherwise nothing."""
    path = Path(file)
    return f"{path.parent.name}/{path.name}" if any(part in WATCHED for part in path.parts[:-1]) else ""
