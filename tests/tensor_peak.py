"""The most bytes that tensors hold at once while something runs: exact, and the same on every run and machine.

Every tensor that an operation makes is counted once per storage, from when it is made until its storage is freed.
Not counted: what was there before, and what an operation takes and gives back within itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

T = TypeVar("T")
_Made = tuple[object, int, object, torch.Size]  # what tells when it is freed, bytes, operation, shape


def _tensors(values: Iterable[object]) -> Iterator[torch.Tensor]:
    """Yield the tensors in the arguments or the result of an operation, and in lists of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


class TensorPeak(TorchDispatchMode):
    """While active, counts. live, peak: bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._made: dict[int, _Made] = {}
        self._at_peak: list[_Made] = []

    @property
    def largest(self) -> list[tuple[int, str, tuple[int, ...]]]:
        """(bytes, operation, shape) of the twelve largest that lived at the peak."""
        return sorted(((n, str(func), tuple(shape)) for _, n, func, shape in self._at_peak), reverse=True)[:12]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        given = {tensor.untyped_storage()._cdata for tensor in _tensors((*args, *kwargs.values()))}
        result = func(*args, **kwargs)
        for tensor in _tensors((result,)):
            self._count(tensor, func, given)
        if self.live > self.peak:
            self.peak, self._at_peak = self.live, [*self._made.values()]
        return result

    def _count(self, tensor: torch.Tensor, func: object, given: set[int]) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._made or key in given:  # a view
            return

        def freed(_: object) -> None:
            self.live -= size
            del self._made[key]

        self._made[key] = (weakref.ref(storage, freed), size, func, tensor.shape)
        self.live += size


def tensor_peak(call: Callable[[], T]) -> tuple[T, TensorPeak]:
    """`call()` and the count of it."""
    with TensorPeak() as count:
        result = call()
    return result, count
