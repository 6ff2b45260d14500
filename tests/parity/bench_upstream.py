"""Ours against upstream on one machine: the same checkpoint, text, seed and sizes, run by turns.

Upstream needs an environment of its own (see record.py); a full-size checkpoint with random weights will do.
usage: python tests/parity/bench_upstream.py FOLDER --upstream-python PATH [--rounds 5] [--steps 4] [--cases clone,…]
Prints for each case both medians with their spread, the median of the rounds' ratios, and whether the tokens (or
codes) were equal. The cost of a step does not depend on how many there are, so few steps tell the ratio.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

WORKER = Path(__file__).with_name("bench_worker.py")
# 60 tokens with the published tokenizer: style 5, frame 2, the rest the two texts.
REFERENCE_TEXT = "Good morning everyone, thank you all for coming to the meeting today."
TEXT = (
    "The train to the coast leaves from platform nine at a quarter past seven, so please be there early, bring "
    "something warm to wear, and do not forget your ticket again."
)


def cases(steps):
    base = {"kind": "tokens", "text": TEXT, "reference_text": REFERENCE_TEXT, "frames": 125, "reference": 125,
            "guidance": 2.0, "steps": steps}  # fmt: skip
    return {
        "clone": base,
        "clone_10s": {**base, "reference": 250},
        "no_reference": {**base, "reference": 0},
        "guidance_0": {**base, "guidance": 0.0},
        "batch_4": {**base, "batch": 4},
        "encode_5s": {"kind": "encode", "frames": 125},
        "decode_5s": {"kind": "decode", "frames": 125},
    }


class Worker:
    def __init__(self, python, kind, folder, dtype, threads):
        command = [python, str(WORKER), kind, folder, dtype, str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.loaded = json.loads(self.process.stdout.readline())["loaded"]

    def run(self, case):
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def spread(values):
    return f"{statistics.median(values):7.2f} s ({min(values):.2f}-{max(values):.2f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--upstream-python", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", help="ours; upstream always runs in float32")
    parser.add_argument("--cases", default="clone,clone_10s,no_reference,guidance_0,encode_5s,decode_5s")
    options = parser.parse_args()
    theirs = Worker(options.upstream_python, "upstream", options.folder, "float32", options.threads)
    ours = Worker(sys.executable, "ours", options.folder, options.dtype, options.threads)
    print(f"load: upstream {theirs.loaded:.1f} s, ours {ours.loaded:.1f} s")
    table = cases(options.steps)
    for name in options.cases.split(","):
        for worker in (theirs, ours):
            worker.run({**table[name], "steps": 1})  # warm up
        rounds = [(theirs.run(table[name]), ours.run(table[name])) for _ in range(options.rounds)]
        them, us = ([r[i]["seconds"] for r in rounds] for i in (0, 1))
        ratios = [a / b for a, b in zip(them, us)]
        equal = all(a["digest"] == b["digest"] for a, b in rounds)
        print(
            f"{name:13} upstream {spread(them)}  ours {spread(us)}  ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}-{max(ratios):.2f})  {'equal' if equal else 'DIFFERENT'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
