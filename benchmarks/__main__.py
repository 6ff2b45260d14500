"""`python -m benchmarks`: how fast the engine is on this machine, and what each optimization is worth.

By default it measures random weights of the published sizes, so nothing has to be downloaded; `--model` measures an
installed model instead. It prints tables and can write the same numbers as JSON and a picture of how the cost grows.
The comparison with upstream needs upstream's own environment and is in `benchmarks/compare/`.

Exit codes: 0 done, 1 refused or failed (the reason is on stderr), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import cast

import torch

from benchmarks import report
from benchmarks.cases import FULL_STEPS, Bench
from benchmarks.machine import anonymous_bytes, processor_name
from benchmarks.measure import (
    Point,
    measure_codec,
    measure_growth,
    measure_presets,
    measure_roofline,
    measure_speedups,
    measure_steps,
)
from benchmarks.model import SIZES, random_engine, weight_bytes
from benchmarks.precisions import dtypes_table, measure_dtypes
from omnivoice.commands.models import usable_device
from omnivoice.devices import DTYPES, best_dtype
from omnivoice.engine import Engine
from omnivoice.errors import InputError, OmniVoiceError

Results = dict[str, object]
Machine = dict[str, "str | int"]
Growth = Mapping[str, Sequence[Point]]
CPU_STEPS = 4
MAX_COUNT = 1024  # of steps, rounds and threads
FAILED, INTERRUPTED = 1, 130


@dataclass(frozen=True)
class Model:
    """Where the weights come from, the seconds it took to make or load them, and their size in bytes."""

    source: str
    seconds: float
    weight_bytes: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return its exit code."""
    options = make_parser().parse_args(arguments)
    try:
        run(options)
    except OmniVoiceError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure speed and memory.")
    parser.add_argument("--model", metavar="FOLDER", help="an installed model; default: random weights, no files")
    parser.add_argument("--codec", metavar="FOLDER", help="the codec's folder, if the model has no audio_tokenizer/")
    parser.add_argument("--size", choices=SIZES, default="full", help="size of the random weights; tiny is for tests")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps, xpu")
    parser.add_argument("--dtype", choices=DTYPES, help="precision; default: the device's best")
    parser.add_argument("--threads", type=int, help="CPU threads; default: torch's choice")
    parser.add_argument(
        "--processor-time",
        action="store_true",
        help="count the processor's time, for a machine that also does other work; use it with --threads 1",
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each case is timed; default 5")
    parser.add_argument("--steps", type=int, help="decoding steps to time; default 4 on a CPU, 32 elsewhere")
    parser.add_argument(
        "--cases", metavar="NAMES", help=f"any of {','.join(MEASURES)}; default: all but the last three, which are slow"
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers to this file")
    parser.add_argument("--plot", metavar="FILE.png", help="draw the case growth; needs matplotlib")
    return parser


def run(options: argparse.Namespace) -> None:
    """Check the options, prepare the model, measure, print the tables and write the files asked for."""
    cases = checked_cases(options)
    device = usable_device(options.device)
    dtype = DTYPES[options.dtype] if options.dtype else best_dtype(device)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    machine = describe_machine(device, dtype)
    print(machine_line(machine))
    bench, model = prepare(options, device, dtype)
    print(f"{model.source}, ready in {model.seconds:.1f} s, weights {report.size(model.weight_bytes)}")
    print(f"medians of {options.rounds} rounds of {options.steps} steps")
    print("RTF: seconds of computing per second of audio, at 32 steps")
    results: Results = {"machine": machine, "model": asdict(model), "rounds": options.rounds, "steps": options.steps}
    measured: dict[str, object] = {}
    with torch.no_grad():
        for case in cases:
            measured[case], text = MEASURES[case](bench)
            print(f"\n{text}", flush=True)
    results |= {case: to_json(value) for case, value in measured.items()}
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        Path(options.plot).write_bytes(report.draw(cast(Growth, measured[GROWTH]), machine_line(machine)))


def _steps(bench: Bench) -> tuple[object, str]:
    found = measure_steps(bench)
    return found, report.steps_table(found)


def _codec(bench: Bench) -> tuple[object, str]:
    found = measure_codec(bench)
    return found, report.codec_table(found)


def _roofline(bench: Bench) -> tuple[object, str]:
    found = measure_roofline(bench)
    return found, report.roofline_line(found)


def _speedups(bench: Bench) -> tuple[object, str]:
    found = measure_speedups(bench)
    return found, report.speedups_table(found)


def _presets(bench: Bench) -> tuple[object, str]:
    found = measure_presets(bench)
    return found, report.presets_table(found)


def _dtypes(bench: Bench) -> tuple[object, str]:
    found = measure_dtypes(bench)
    return found, dtypes_table(found)


def _growth(bench: Bench) -> tuple[object, str]:
    found = measure_growth(bench)
    return found, report.growth_table(found)


GROWTH = "growth"
SLOW: Mapping[str, Callable[[Bench], tuple[object, str]]] = MappingProxyType(
    {"dtypes": _dtypes, "presets": _presets, GROWTH: _growth}
)
MEASURES: Mapping[str, Callable[[Bench], tuple[object, str]]] = MappingProxyType(
    {"steps": _steps, "codec": _codec, "roofline": _roofline, "speedups": _speedups, **SLOW}
)


def checked_cases(options: argparse.Namespace) -> list[str]:
    """Return the cases to measure, in the order of `MEASURES`, and fill in the default of `--steps`.

    Raises InputError for a case or another option that is not possible, before any work is done.
    """
    named = options.cases.split(",") if options.cases else [case for case in MEASURES if case not in SLOW]
    unknown = [name for name in named if name not in MEASURES]
    if unknown:
        raise InputError(f"--cases takes {', '.join(MEASURES)}, separated by commas, got {unknown[0]!r}")
    if options.steps is None:  # a few steps are enough on a CPU; elsewhere CUDA graphs pay off only after several
        options.steps = CPU_STEPS if options.device == "cpu" else FULL_STEPS
    for name in ("steps", "rounds", "threads"):
        value = getattr(options, name)
        if value is not None and not 1 <= value <= MAX_COUNT:
            raise InputError(f"{name} must be a whole number 1-{MAX_COUNT}, got {value}")
    if options.plot:
        if not options.plot.lower().endswith(".png"):
            raise InputError(f"the picture is a PNG file and must end in .png, got {options.plot!r}")
        report.require_matplotlib()
    for target in filter(None, (options.json, options.plot)):
        if not Path(target).parent.is_dir():
            raise InputError(f"the folder of {target!r} does not exist: make it first")
    return [case for case in MEASURES if case in named or (case == GROWTH and options.plot)]


def prepare(options: argparse.Namespace, device: torch.device, dtype: torch.dtype) -> tuple[Bench, Model]:
    """Return the engine, ready to be measured with its encoder loaded, and a description of its model."""
    start = time.perf_counter()
    engine = engine_in(options, device, dtype)
    seconds = time.perf_counter() - start
    source = "installed model" if options.model else f"random weights, {options.size} size"
    weights = weight_bytes(engine)  # loads the encoder, which an installed model loads only when it is needed
    bench = Bench(
        engine,
        device,
        options.steps,
        options.rounds,
        anonymous_bytes(),
        clock=time.process_time if options.processor_time else time.perf_counter,
        engine_in=partial(engine_in, options, device),
        folder=options.model,
    )
    return bench, Model(source, seconds, weights)


def engine_in(options: argparse.Namespace, device: torch.device, dtype: torch.dtype) -> Engine:
    """Return the installed model, or one with random weights, in `dtype`."""
    if options.model:
        return Engine.load(options.model, device, dtype, codec_folder=options.codec)
    return random_engine(options.size, device, dtype)


def describe_machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """Return what the numbers are measured on, without any user name, host name or path."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor_name()
    return {
        "device": device.type,
        "name": name,
        "processor": processor_name(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "dtype": str(dtype).removeprefix("torch."),
    }


def machine_line(machine: Machine) -> str:
    """Return the description of the machine as one line."""
    names = dict.fromkeys((machine["name"], machine["processor"]))  # only once when the processor is the device
    place = f"{', '.join(map(str, names))}, {machine['threads']} of {machine['cores']} cores"
    return f"{place}, {machine['system']}, torch {machine['torch']}, {machine['device']} {machine['dtype']}"


def to_json(value: object) -> object:
    """Return a result in which every dataclass inside lists and tables is a dictionary."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
