"""How many threads and files a process has open, for the campaigns that watch for what is left open."""

from __future__ import annotations

import gc
import os
import threading
import time

_WAIT_SECONDS = 20.0  # for a thread that was told to end


def open_things() -> dict[str, int]:
    """Return how many threads and files are open."""
    gc.collect(1)
    handles = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return {"threads": threading.active_count(), "open files": handles}


def settled(before: dict[str, int]) -> dict[str, int]:
    """Return `open_things` once they are as before, or after some seconds: a thread ends a moment later."""
    end = time.monotonic() + _WAIT_SECONDS
    while (now := open_things()) != before and time.monotonic() < end:
        gc.collect()
        time.sleep(0.01)
    return now
