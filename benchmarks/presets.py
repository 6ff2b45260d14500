"""`python -m benchmarks.presets`: how much time each preset takes, and what each of the two approximations saves.

One item (60 prompt tokens, a reference, some seconds to generate) is generated with every setting in turn, in one
process; every other round runs in reverse order, so that drifts of a busy machine fall on all settings alike. Times
are medians of decoding, without the codec. With random weights this measures time only, not quality.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

import torch
from torch import Tensor

from benchmarks.cases import Bench, Case
from benchmarks.model import SIZES, random_engine
from omnivoice.commands.models import load_engine, usable_device
from omnivoice.constants import FRAME_RATE
from omnivoice.devices import DTYPES, best_dtype
from omnivoice.generate.presets import PRESETS
from omnivoice.types import Sampling, Speedups


def settings() -> Mapping[str, Sampling]:
    """Return the presets, and `balanced` with each approximation of `fast` on its own."""
    made = {name: preset.apply(Sampling()) for name, preset in PRESETS.items()}
    fast = PRESETS["fast"]
    made["balanced, prefix only"] = replace(made["balanced"], prefix_every=fast.prefix_every)
    made["balanced, unconditional only"] = replace(made["balanced"], unconditional_every=fast.unconditional_every)
    return made


def speaker(bench: Bench, case: Case, sampling: Sampling) -> Callable[[], list[Tensor]]:
    """Return a function that generates the item of `case` with these settings."""
    plan = bench.plan(case, sampling.steps)
    plan = replace(plan, request=replace(plan.request, sampling=sampling))
    runner = bench.runner(Speedups())
    return lambda: runner.run([plan], None, None)[0]


def table(seconds: Mapping[str, list[float]], audio_seconds: float) -> str:
    """Return the medians as a Markdown table, with the speed-up over `quality`."""
    slowest = median(seconds["quality"])
    rows = ["| setting | seconds | least to most | RTF | times as fast as quality |", "|---|---|---|---|---|"]
    for name, times in sorted(seconds.items(), key=lambda item: -median(item[1])):
        middle = median(times)
        spread = f"{min(times):.2f} to {max(times):.2f}"
        rows.append(f"| {name} | {middle:.2f} | {spread} | {middle / audio_seconds:.3f} | {slowest / middle:.2f} |")
    return "\n".join(rows)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.presets", description="Time every preset.")
    parser.add_argument("--model", metavar="FOLDER", help="an installed model; default: random weights, no files")
    parser.add_argument("--codec", metavar="FOLDER", help="the codec's folder, if the model has no audio_tokenizer/")
    parser.add_argument("--size", choices=SIZES, default="full", help="size of the random weights; tiny is for tests")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps, xpu")
    parser.add_argument("--dtype", choices=DTYPES, help="precision; default: the device's best")
    parser.add_argument("--rounds", type=int, default=3, help="how often each setting is timed; default 3")
    parser.add_argument("--seconds", type=int, default=5, help="of audio to generate; default 5")
    parser.add_argument("--reference", type=int, default=5, help="seconds of the reference; default 5")
    options = parser.parse_args()
    device = usable_device(options.device)
    dtype = DTYPES[options.dtype] if options.dtype else best_dtype(device)
    engine = load_engine(options) if options.model else random_engine(options.size, device, dtype)
    case = Case("presets", frames=options.seconds * FRAME_RATE, reference=options.reference * FRAME_RATE)
    bench = Bench(engine, device, PRESETS["quality"].steps, options.rounds, None)
    with torch.no_grad():
        calls = {name: speaker(bench, case, sampling) for name, sampling in settings().items()}
        speaker(bench, case, Sampling(steps=1))()  # warm up
        print(table(bench.alternate(calls), options.seconds))


if __name__ == "__main__":
    main()
