"""The most bytes that tensors hold at once while something runs: exact, and the same on every run and machine.

Every tensor that an operation makes is counted once per storage, from when it is made until its storage is freed.
Not counted: what was there before, and what an operation takes and gives back within itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

T = TypeVar("T")


class TensorPeak(TorchDispatchMode):
    """While active, counts. live, peak: bytes. largest: (bytes, operation, shape) of what lived at the peak."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self.largest: list[tuple[int, str, tuple[int, ...]]] = []
        self._made: dict[int, tuple[object, int, str, tuple[int, ...]]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self._count(tensor, str(func), given)
        if self.live > self.peak:
            self.peak = self.live
            self.largest = sorted(((n, name, shape) for _, n, name, shape in self._made.values()), reverse=True)[:12]
        return result

    def _count(self, tensor: torch.Tensor, name: str, given: set[int]) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._made or key in given:  # a view
            return

        def freed(_: object) -> None:
            self.live -= size
            del self._made[key]

        self._made[key] = (weakref.ref(storage, freed), size, name, tuple(tensor.shape))
        self.live += size


def tensor_peak(call: Callable[[], T]) -> tuple[T, TensorPeak]:
    """`call()` and the count of it."""
    with TensorPeak() as count:
        result = call()
    return result, count
