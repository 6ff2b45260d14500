"""Capturing work as a CUDA graph: the interface that `graphs.py` uses, and torch's graphs behind it.

The interface exists so that the logic in `graphs.py` is tested without a GPU. It supports one thread and one stream.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import torch


class Replay(Protocol):
    """A captured graph."""

    def replay(self) -> None:
        """Run it again on the current stream, with the tensors that it was captured with."""

    def free(self) -> None:
        """Release its memory; it is not replayed again."""


class Capturer(Protocol):
    """Captures work. A failure raises RuntimeError and leaves the current stream unchanged."""

    def suits(self, device: torch.device) -> bool:
        """Whether work on this device can be captured."""

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        """Run `work` once on the stream it will be captured on; raises if it cannot be captured."""

    def capture(self, work: Callable[[], None], device: torch.device, shared: Replay | None) -> Replay:
        """Capture `work`. shared: an existing capture whose working memory may be shared."""


class CudaCapturer:
    """`Capturer` on torch.cuda.CUDAGraph (NVIDIA, and AMD through HIP).

    Warm-up and capture share one side stream, so that cuBLAS has its workspace there before the capture starts.
    """

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def suits(self, device: torch.device) -> bool:
        return device.type == "cuda"

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        """Run `work` on the side stream. Work that waits for the device raises here and not during the capture."""
        side, current = self._stream(device), torch.cuda.current_stream(device)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side), _syncs_raise():
                work()
        finally:
            current.wait_stream(side)

    def capture(self, work: Callable[[], None], device: torch.device, shared: Replay | None) -> Replay:
        """Capture into the memory pool of `shared`: safe, because replays run one at a time and keep nothing in it."""
        graph, side = torch.cuda.CUDAGraph(), self._stream(device)
        pool = shared.graph.pool() if isinstance(shared, _CudaReplay) else None
        # The stream is set twice because torch.cuda.graph leaves its own one current if ending a failed capture raises.
        # thread_local: allocations by other threads of the host do not matter.
        recording = torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local")
        with torch.cuda.device(device), torch.cuda.stream(side), recording:
            try:
                work()
            except BaseException as error:  # also an interrupt; tensors in its frames must be freed inside the capture
                traceback.clear_frames(error.__traceback__)
                raise
        return _CudaReplay(graph, device)

    def _stream(self, device: torch.device) -> torch.cuda.Stream:
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]


class _CudaReplay:
    def __init__(self, graph: torch.cuda.CUDAGraph, device: torch.device):
        self.graph, self.device = graph, device

    def replay(self) -> None:
        self.graph.replay()

    def free(self) -> None:
        torch.cuda.synchronize(self.device)  # it may still be running
        self.graph.reset()


@contextmanager
def _syncs_raise() -> Iterator[None]:
    """Make operations that wait for the device raise RuntimeError, and restore the previous mode afterwards."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns once that the mode does not detect every such operation
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
