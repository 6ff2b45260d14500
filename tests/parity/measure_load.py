"""How much anonymous memory loading a checkpoint takes at its peak, against the size of the loaded weights (Linux).

usage: python tests/parity/measure_load.py FOLDER [--dtype bfloat16]
File-backed pages (the memory map) can be dropped by the system at any time and are not counted.
"""

import argparse
import sys
import threading
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from omnivoice import Engine


def anonymous_bytes():
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    before, peak, done = anonymous_bytes(), [0], threading.Event()

    def watch():
        while not done.is_set():
            peak[0] = max(peak[0], anonymous_bytes() - before)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    engine = Engine.load(options.folder, dtype=getattr(torch, options.dtype))
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    lm = sum(p.numel() * p.element_size() for p in engine.lm.parameters())
    codec = sum(p.numel() * p.element_size() for p in engine.decoder.parameters())
    print(f"parameters: {sum(p.numel() for p in engine.lm.parameters()):,} + {codec // 4:,} (codec's decoder, float32)")
    print(f"weights {(lm + codec) / 1e9:.3f} GB (language model {lm / 1e9:.3f}), peak anonymous {peak[0] / 1e9:.3f} GB")
    print(f"peak / weights {peak[0] / (lm + codec):.3f}, peak / language model {peak[0] / lm:.3f}, {seconds:.1f} s")


if __name__ == "__main__":
    main()
