"""Keeps the host close to the device.

Launching a step takes less time than computing it, or none at all with a CUDA graph. Left alone, the host would run
through the whole loop while the device computes the first steps: progress would stand at its end, and Cancel would come
too late. So the host waits for an event that was recorded two steps before. The device always has a step in store.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

AHEAD = 2  # steps that may be launched and not finished


class Pace:
    """Called once after each step is launched; waits where the device is asynchronous, and does nothing on a CPU."""

    def __init__(self, device: torch.device):
        self._device, self._events = device, deque[Any]()
        self._module: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None)}.get(device.type)

    def __call__(self) -> None:
        if self._module is None:
            return
        event = self._module.Event()
        event.record(self._module.current_stream(self._device))
        self._events.append(event)
        if len(self._events) > AHEAD:
            self._events.popleft().synchronize()
