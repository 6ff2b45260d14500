"""`python -m benchmarks.loading FOLDER`: how long a checkpoint takes to load, and the memory it takes (Linux).

The peak of anonymous memory is compared with the size of the loaded weights. File-backed pages (the memory map) do not
count there, because the system can drop them at any time; the resident memory counts them. --json prints the times and
the resident memory after a first step, which `measure_loading` reads from new processes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from benchmarks.cases import watch_memory
from benchmarks.machine import anonymous_bytes, resident_bytes
from omnivoice import Engine, GenerationRequest, Sampling
from omnivoice.devices import DTYPES

ROOT = Path(__file__).resolve().parents[1]
TEXT = "Hello."


@dataclass(frozen=True)
class Loading:
    """Seconds from the start of loading to its end, and to the end of a first short step; resident bytes after it."""

    load: float
    first_step: float
    resident: int | None


def measure_loading(folder: str, dtype: str, *, rounds: int, clock: Callable[[], float]) -> Loading:
    """Return the medians over new processes that load a model on the CPU, with as many threads as this one.

    clock: `time.perf_counter`, or `time.process_time` for the processor's time.
    """
    command = [sys.executable, "-m", "benchmarks.loading", folder, "--dtype", dtype, "--json"]
    command += ["--threads", str(torch.get_num_threads())]
    command += ["--processor-time"] if clock is time.process_time else []
    found = [
        Loading(**json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout))
        for _ in range(rounds)
    ]
    resident = [one.resident for one in found if one.resident is not None]
    return Loading(
        median(one.load for one in found),
        median(one.first_step for one in found),
        int(median(resident)) if resident else None,
    )


def load_and_step(folder: str, dtype: torch.dtype, clock: Callable[[], float]) -> Loading:
    """Load a model on the CPU and speak a short text in one step."""
    start = clock()
    engine = Engine.load(folder, dtype=dtype)
    load = clock() - start
    engine.generate([GenerationRequest(TEXT, duration=1.0, sampling=Sampling(steps=1))])
    return Loading(load, clock() - start, resident_bytes())


def print_peak(folder: str, dtype: torch.dtype, before: int) -> None:
    """Load a model and print its size, and the peak of anonymous memory above `before` meanwhile."""
    start = time.perf_counter()
    engine, peak = watch_memory(lambda: Engine.load(folder, dtype=dtype))
    assert isinstance(engine, Engine)
    seconds, peak = time.perf_counter() - start, peak - before
    lm = sum(p.numel() * p.element_size() for p in engine.lm.parameters())
    codec = sum(p.numel() * p.element_size() for p in engine.codec.decoder.parameters())
    print(f"parameters: {sum(p.numel() for p in engine.lm.parameters()):,} + {codec // 4:,} (codec's decoder, float32)")
    print(f"weights {(lm + codec) / 1e9:.3f} GB (language model {lm / 1e9:.3f}), peak anonymous {peak / 1e9:.3f} GB")
    print(f"peak / weights {peak / (lm + codec):.3f}, peak / language model {peak / lm:.3f}, {seconds:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--threads", type=int, help="CPU threads; default: torch's choice")
    parser.add_argument("--processor-time", action="store_true", help="with --json: count the processor's time")
    parser.add_argument("--json", action="store_true", help="print the times and the resident memory only")
    options = parser.parse_args()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    if options.json:
        clock = time.process_time if options.processor_time else time.perf_counter
        print(json.dumps(asdict(load_and_step(options.folder, DTYPES[options.dtype], clock))))
        return 0
    before = anonymous_bytes()
    if before is None:
        parser.error("this system does not tell how much memory a process holds")
    print_peak(options.folder, DTYPES[options.dtype], before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
