"""`python -m benchmarks.refusals [DOOR ...]`: what the largest hostile inputs cost, door by door.

Each input of `benchmarks.hostile` goes through its door in a process of its own (a fork, so not on Windows). The table
has the processor seconds that the door takes, the growth of the process's peak memory above what it held with the input
in memory, the longest time in which Cancel was not asked for, and what the door says. A door that needs more than 2 s
or 400 MB for an input that it refuses, or is deaf for more than 1 s, is marked.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.hostile import INPUTS
from omnivoice.errors import OmniVoiceError
from omnivoice.intake.cancel import cancelled_by

MOST_SECONDS, MOST_BYTES, MOST_DEAF = 2.0, 400_000_000, 1.0
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def main() -> int:
    """Print the table of all inputs, or of those whose names contain one of the given texts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.refusals", description=__doc__)
    parser.add_argument("names", nargs="*", help="inputs whose names contain one of these; default: all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| {'input':<58} | {'CPU s':>6} | {'MB':>6} | {'deaf s':>6} | result |")
    print(f"|{'-' * 60}|{'-' * 8}|{'-' * 8}|{'-' * 8}|---|")
    for name in INPUTS:
        if not options.names or any(part in name for part in options.names):
            process = multiprocessing.get_context("fork").Process(target=_measure, args=(name,))
            process.start()
            process.join()
            if process.exitcode:
                print(f"| {name:<58} | exit code {process.exitcode}", flush=True)
    return 0


def _measure(name: str) -> None:
    """Prepare one input, send it through its door and print its row."""
    with tempfile.TemporaryDirectory() as folder:
        door, gaps = INPUTS[name](Path(folder)), [0.0]
        CLEAR.write_text("5", encoding="ascii")  # the peak starts again from what is held now
        before, last = _peak(), time.process_time()
        start = last

        def listen() -> None:
            nonlocal last
            now = time.process_time()
            gaps.append(now - last)
            last = now

        try:
            with cancelled_by(listen):
                door(listen)
            result, refused = "accepted", False
        except OmniVoiceError as error:
            result, refused = f"{type(error).__name__}: {str(error)[:90]}", True
        listen()
        seconds, grown, deaf = time.process_time() - start, _peak() - before, max(gaps)
    over = (refused and (seconds > MOST_SECONDS or grown > MOST_BYTES)) or deaf > MOST_DEAF
    mark = "**over** " if over else ""
    print(f"| {name:<58} | {seconds:6.2f} | {grown / 1e6:6.0f} | {deaf:6.2f} | {mark}{result} |", flush=True)


def _peak() -> int:
    """Return the highest resident memory since the process began or `CLEAR` was written, in bytes."""
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    raise SystemExit(main())
