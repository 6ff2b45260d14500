"""This engine against upstream's package on one machine: the same checkpoint, text, seed and sizes, alternating.

usage: python -m benchmarks.compare.upstream FOLDER --upstream-python PATH [--rounds 5] [--steps 4] [--cases clone,…]
                                             [--dtype bfloat16] [--json FILE]
FOLDER is a checkpoint of the real size; random weights are enough. Upstream needs its own environment, as for
tests/parity/record.py. A timed case prints both medians with their spread, the median ratio of the rounds with its
spread, and whether the tokens (or codes) are equal. A step's cost does not depend on the number of steps, so a few
steps are enough. Further cases: operators (calls per step, from the profiler), start (load and first step in a new
process, and its memory), long (60 s of speech against 15 s), agreement (--dtype against float32, teacher-forced).
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.machine import processor_name

WORKER = Path(__file__).with_name("upstream_worker.py")
# 60 tokens with the published tokenizer: 5 for the style, 2 around the text, and the two texts.
REFERENCE_TEXT = "Good morning everyone, thank you all for coming to the meeting today."
TEXT = (
    "The train to the coast leaves from platform nine at a quarter past seven, so please be there early, bring "
    "something warm to wear, and do not forget your ticket again."
)
LONG = {"15 s": 3, "60 s": 12}  # repetitions of the reference text, which lasts 5 s
SIDES = ("upstream", "ours")


def cases(steps):
    base = {
        "kind": "tokens",
        "text": TEXT,
        "reference_text": REFERENCE_TEXT,
        "frames": 125,
        "reference": 125,
        "guidance": 2.0,
        "steps": steps,
    }
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
    """One side, in its own process."""

    def __init__(self, options, side, dtype):
        python = options.upstream_python if side == "upstream" else sys.executable
        command = [python, str(WORKER), side, options.folder, dtype, str(options.threads)]
        command += ["process_time" if options.processor_time else "perf_counter"]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.ready = self.read()

    def run(self, case):
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            sys.exit(f"the worker failed:\n{self.errors.read().decode(errors='replace')[-3000:]}")
        return json.loads(line)

    def close(self):
        self.process.communicate()


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "largest": max(values)}


def shown(found, digits=2):
    return f"{found['median']:.{digits}f} ({found['least']:.{digits}f}-{found['largest']:.{digits}f})"


def gigabytes(found):
    return "n/a" if found is None else f"{found / 1e9:.2f} GB"


def timed(options, workers, case):
    for worker in workers.values():
        worker.run({**case, "steps": 1})  # warm up
    rounds = [{side: workers[side].run(case) for side in SIDES} for _ in range(options.rounds)]
    found = {side: spread([r[side]["seconds"] for r in rounds]) for side in SIDES}
    found["ratio"] = spread([r["upstream"]["seconds"] / r["ours"]["seconds"] for r in rounds])
    found["equal"] = all(r["upstream"]["digest"] == r["ours"]["digest"] for r in rounds)
    return found


def operators(options, workers, case):
    """Count the operator calls of a short case; their number does not depend on lengths."""
    short = {**case, "frames": 25, "reference": 25, "count": True}
    return {side: workers[side].run(short) for side in SIDES}


def start(options, case):
    """Start new processes, alternating: seconds from the command, and from the imports, to the end of a first step."""
    rounds = [{side: first_step(options, side, case) for side in SIDES} for _ in range(options.rounds)]
    found = {side: {key: spread([r[side][key] for r in rounds]) for key in rounds[0][side]} for side in SIDES}
    for key in rounds[0]["ours"]:
        found[f"ratio of {key}"] = spread([r["upstream"][key] / r["ours"][key] for r in rounds])
    return found


def first_step(options, side, case):
    worker = Worker(options, side, options.start_dtype)
    step = worker.run({**case, "steps": 1})
    whole = time.perf_counter() - worker.started
    worker.close()
    found = {"seconds": whole, "load_and_step": worker.ready["loaded"] + step["seconds"]}
    return found if step["peak"] is None else {**found, "peak": max(worker.ready["peak"], step["peak"])}


def long(options, case):
    """Speak texts of two lengths, each in a new process: seconds per second of audio, decoding included, and memory."""
    found = {side: {} for side in options.long_sides.split(",")}
    for side in found:
        for name, times in LONG.items():
            worker = Worker(options, side, options.dtype if side == "ours" else "float32")
            spoken = worker.run({**case, "kind": "speak", "text": " ".join([REFERENCE_TEXT] * times)})
            worker.close()
            found[side][name] = {
                "audio": spoken["result"],
                "per_second": spoken["seconds"] / spoken["result"],
                "peak_above_weights": None if spoken["peak"] is None else spoken["peak"] - spoken["held"],
            }
    return found


def print_timed(name, found, *, exact):
    equal = "equal" if found["equal"] else "DIFFERENT" if exact else "differ, as they may in this dtype"
    print(
        f"{name:13} upstream {shown(found['upstream'])} s  ours {shown(found['ours'])} s  "
        f"ratio {shown(found['ratio'])}  {equal}",
        flush=True,
    )


def print_operators(found):
    for side in SIDES:
        calls = ", ".join(f"{name} {count:g}" for name, count in found[side].items())
        print(f"operators     {side}, calls per step: {calls}", flush=True)
    every = [found[side]["aten"] + found[side]["mkldnn"] for side in SIDES]
    outer = [found[side]["outer"] for side in SIDES]
    print(
        f"operators     ours / upstream: {every[1] / every[0]:.2f} of all, {outer[1] / outer[0]:.2f} of the outer ones"
    )


def print_start(options, found):
    for key in found["ours"]:
        unit, scale = (" GB", 1e9) if key == "peak" else (" s", 1)
        sides = "  ".join(
            f"{side} {shown({k: v / scale for k, v in found[side][key].items()})}{unit}" for side in SIDES
        )
        ratio = shown(found[f"ratio of {key}"])
        print(f"start         {options.start_dtype}, {key}: {sides}  ratio {ratio}", flush=True)


def print_long(found):
    for side, lengths in found.items():
        for name, got in lengths.items():
            print(
                f"long          {side}, {name} ({got['audio']:.1f} s): {got['per_second']:.2f} s per s of audio, "
                f"peak above the weights {gigabytes(got['peak_above_weights'])}",
                flush=True,
            )


def arguments():
    table = cases(1)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare.upstream")
    parser.add_argument("folder")
    parser.add_argument("--upstream-python", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", help="this engine's dtype; upstream always runs in float32")
    parser.add_argument("--start-dtype", default="bfloat16", help="dtype of both sides in the case start")
    parser.add_argument("--long-sides", default="upstream,ours", help="who speaks the long text; upstream is slow")
    parser.add_argument(
        "--cases",
        default="clone,clone_10s,no_reference,guidance_0,encode_5s,decode_5s,operators",
        help=f"any of {','.join(table)},operators,agreement,start,long",
    )
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count the processor's time, for a machine that also does other work; use it with --threads 1",
    )
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    unknown = set(options.cases.split(",")) - {*table, "operators", "agreement", "start", "long"}
    if unknown:
        parser.error(f"unknown cases: {', '.join(sorted(unknown))}")
    return options


def measure(options):
    """Return the results by case. Two processes serve all cases but start and long, which start their own."""
    table, wanted = cases(options.steps), options.cases.split(",")
    results = {}
    if set(wanted) - {"start", "long"}:
        workers = {side: Worker(options, side, d) for side, d in zip(SIDES, ("float32", options.dtype))}
        results["loaded"] = {side: workers[side].ready["loaded"] for side in SIDES}
        print("load          " + ", ".join(f"{side} {seconds:.1f} s" for side, seconds in results["loaded"].items()))
        for name in (name for name in wanted if name in table):
            results[name] = timed(options, workers, table[name])
            print_timed(name, results[name], exact=options.dtype == "float32")
        if "operators" in wanted:
            results["operators"] = operators(options, workers, table["clone"])
            print_operators(results["operators"])
        if "agreement" in wanted:
            same, cells = workers["ours"].run({**table["clone"], "kind": "agreement"})["result"]
            results["agreement"] = {"same": same, "cells": cells}
            share = f"{same / cells:.2%} of {cells} cells"
            print(f"agreement     {options.dtype} and float32 have the same best token in {share}")
        for worker in workers.values():
            worker.close()
    if "start" in wanted:
        results["start"] = start(options, table["clone"])
        print_start(options, results["start"])
    if "long" in wanted:
        results["long"] = long(options, table["clone"])
        print_long(results["long"])
    return results


def main():
    options = arguments()
    machine = {"processor": processor_name(), "threads": options.threads, "torch": torch.__version__}
    settings = {name: getattr(options, name) for name in ("dtype", "start_dtype", "rounds", "steps")}
    print(
        f"{machine['processor']}, {options.threads} threads, torch {torch.__version__}, ours in {options.dtype}; "
        f"medians of {options.rounds} rounds of {options.steps} steps (least-largest)",
        flush=True,
    )
    results = {"machine": machine, **settings, **measure(options)}
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
