"""How much anonymous memory loading a checkpoint takes at its peak, against the size of the loaded weights (Linux).

usage: python tests/parity/measure_load.py FOLDER [--dtype bfloat16]
File-backed pages (the memory map) can be dropped by the system at any time and are not counted.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from omnivoice import Engine
from omnivoice.commands.bench_cases import watch_memory
from omnivoice.intake.machine import anonymous_bytes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    before, start = anonymous_bytes(), time.perf_counter()
    engine, peak = watch_memory(lambda: Engine.load(options.folder, dtype=getattr(torch, options.dtype)))
    seconds, peak = time.perf_counter() - start, peak - before
    lm = sum(p.numel() * p.element_size() for p in engine.lm.parameters())
    codec = sum(p.numel() * p.element_size() for p in engine.decoder.parameters())
    print(f"parameters: {sum(p.numel() for p in engine.lm.parameters()):,} + {codec // 4:,} (codec's decoder, float32)")
    print(f"weights {(lm + codec) / 1e9:.3f} GB (language model {lm / 1e9:.3f}), peak anonymous {peak / 1e9:.3f} GB")
    print(f"peak / weights {peak / (lm + codec):.3f}, peak / language model {peak / lm:.3f}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
