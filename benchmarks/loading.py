"""`python -m benchmarks.loading FOLDER`: the peak of anonymous memory while a checkpoint loads (Linux).

The peak is compared with the size of the loaded weights. File-backed pages (the memory map) do not count, because the
system can drop them at any time.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

from benchmarks.cases import watch_memory
from benchmarks.machine import anonymous_bytes
from omnivoice import Engine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    before, start = anonymous_bytes(), time.perf_counter()
    if before is None:
        parser.error("this system does not tell how much memory a process holds")
    engine, peak = watch_memory(lambda: Engine.load(options.folder, dtype=getattr(torch, options.dtype)))
    assert isinstance(engine, Engine)
    seconds, peak = time.perf_counter() - start, peak - before
    lm = sum(p.numel() * p.element_size() for p in engine.lm.parameters())
    codec = sum(p.numel() * p.element_size() for p in engine.codec.decoder.parameters())
    print(f"parameters: {sum(p.numel() for p in engine.lm.parameters()):,} + {codec // 4:,} (codec's decoder, float32)")
    print(f"weights {(lm + codec) / 1e9:.3f} GB (language model {lm / 1e9:.3f}), peak anonymous {peak / 1e9:.3f} GB")
    print(f"peak / weights {peak / (lm + codec):.3f}, peak / language model {peak / lm:.3f}, {seconds:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
