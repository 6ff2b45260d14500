"""CUDA graphs on the simulated device: the capturer that `generate/graphs.py` uses, without CUDA.

A graph keeps every operation with the tensors that it read and wrote. A replay repeats them on whatever is in that
memory by then, as CUDA does, and asks no Python of the model. So a graph that reads weights which were moved or taken
away speaks nonsense here too.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.simulated_cuda import SimulatedCuda

STEPS = 5  # of the runs for which tests capture a graph


class SimulatedCapturer:
    """Implements `generate.capture.Capturer`. captured, replayed: how often. fails: raised by the next captures."""

    def __init__(self, cuda: SimulatedCuda):
        self.cuda, self.captured, self.replayed = cuda, 0, 0
        self.fails: RuntimeError | None = None

    def suits(self, device: torch.device) -> bool:
        return device.type == "cuda"

    def warm_up(self, work: Callable[[], None], device: torch.device) -> None:
        work()

    def capture(self, work: Callable[[], None], device: torch.device, shared: object) -> SimulatedReplay:
        if self.fails is not None:
            raise self.fails
        calls = self.cuda.recording = []
        try:
            work()
        finally:
            self.cuda.recording = None
        self.captured += 1
        return SimulatedReplay(self, calls)


class SimulatedReplay:
    """Implements `generate.capture.Replay`."""

    def __init__(self, capturer: SimulatedCapturer, calls: list[Callable[[], None]]):
        self._capturer, self._calls = capturer, calls

    def replay(self) -> None:
        assert self._calls, "a graph that was freed is replayed"
        self._capturer.replayed += 1
        self._capturer.cuda.kernel("graph")
        for call in self._calls:
            call()

    def free(self) -> None:
        self._calls = []
