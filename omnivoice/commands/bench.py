"""`bench`: how fast the engine is on this machine, and what each speed-up is worth.

Real sizes with random weights by default, so that nothing needs to be downloaded; or an installed model. Tables on
standard output, the same numbers as JSON on request, and a picture of how cost grows. The comparison with upstream is
not here: it needs upstream's own environment (tests/parity/bench_upstream.py).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from os.path import dirname, isdir
from types import MappingProxyType
from typing import cast

import torch

from ..engine import best_dtype
from ..errors import InputError
from ..intake.files import write_atomic
from ..intake.limits import check_whole, shown
from ..intake.machine import anonymous_bytes, processor_name
from . import bench_report as report
from .bench_cases import FULL_STEPS, Bench
from .bench_measure import Point, measure_codec, measure_growth, measure_roofline, measure_speedups, measure_steps
from .bench_model import SIZES, random_engine, weight_bytes
from .models import DTYPES, load_engine, usable_device

Results = dict[str, object]
Machine = dict[str, "str | int"]
Growth = Mapping[str, Sequence[Point]]
CPU_STEPS = 4
MOST = 1024  # rounds and threads


@dataclass(frozen=True)
class Model:
    """Where the weights are from, how long it took to have them, and their bytes."""

    source: str
    seconds: float
    weight_bytes: int


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `bench`."""
    parser = commands.add_parser("bench", help="measure speed and memory on this machine")
    parser.add_argument("--model", metavar="FOLDER", help="an installed model; default: random weights, no files")
    parser.add_argument("--codec", metavar="FOLDER", help="folder of the codec, if the model has no audio_tokenizer/")
    parser.add_argument("--size", choices=SIZES, default="full", help="of the random weights; tiny is for tests")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps, xpu")
    parser.add_argument("--dtype", choices=DTYPES, help="precision; default: the device's best")
    parser.add_argument("--threads", type=int, help="processor threads; default: torch's choice")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed; default 5")
    parser.add_argument("--steps", type=int, help="decoding steps that are timed; default 4 on a CPU, else 32")
    parser.add_argument(
        "--cases", metavar="NAMES", help=f"of {','.join(MEASURES)}; default: all but {GROWTH}, which takes minutes"
    )
    parser.add_argument("--json", metavar="FILE", help="write every number")
    parser.add_argument("--plot", metavar="FILE.png", help="draw growth; needs matplotlib")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Check the options, make the model, measure, print, write."""
    cases = checked_cases(options)
    device = usable_device(options.device)
    dtype = DTYPES[options.dtype] if options.dtype else best_dtype(device)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    machine = describe_machine(device, dtype)
    print(machine_line(machine))
    bench, model = prepare(options, device, dtype)
    print(f"{model.source}, ready in {model.seconds:.1f} s, weights {report.size(model.weight_bytes)}")
    print(f"medians of {options.rounds} rounds of {options.steps} steps; RTF: s of computing per s of audio, 32 steps")
    results: Results = {"machine": machine, "model": asdict(model), "rounds": options.rounds, "steps": options.steps}
    measured: dict[str, object] = {}
    with torch.no_grad():
        for case in cases:
            measured[case], text = MEASURES[case](bench)
            print(f"\n{text}", flush=True)
    results |= {case: plain(value) for case, value in measured.items()}
    if options.json:
        write_atomic(options.json, (json.dumps(results, indent=1) + "\n").encode())
    if options.plot:
        write_atomic(options.plot, report.draw(cast(Growth, measured[GROWTH]), machine_line(machine)))


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


def _growth(bench: Bench) -> tuple[object, str]:
    found = measure_growth(bench)
    return found, report.growth_table(found)


GROWTH = "growth"
MEASURES: Mapping[str, Callable[[Bench], tuple[object, str]]] = MappingProxyType(
    {"steps": _steps, "codec": _codec, "roofline": _roofline, "speedups": _speedups, GROWTH: _growth}
)


def checked_cases(options: argparse.Namespace) -> list[str]:
    """What to measure, in the order of `MEASURES`; raises InputError for it or another option that cannot be."""
    named = options.cases.split(",") if options.cases else [case for case in MEASURES if case != GROWTH]
    unknown = [name for name in named if name not in MEASURES]
    if unknown:
        raise InputError(f"--cases takes {', '.join(MEASURES)}, separated by commas, got {shown(unknown[0])}")
    if options.steps is None:  # few tell the time of one on a CPU; elsewhere graphs begin to pay after some
        options.steps = CPU_STEPS if options.device == "cpu" else FULL_STEPS
    check_whole("steps", options.steps)
    for name, value in (("rounds", options.rounds), ("threads", options.threads)):
        if value is not None and not 1 <= value <= MOST:
            raise InputError(f"{name} must be a whole number 1-{MOST}, got {value}")
    if options.plot:
        if not options.plot.lower().endswith(".png"):
            raise InputError(f"the picture is a PNG file and must end in .png, got {shown(options.plot)}")
        report.require_matplotlib()
    for target in filter(None, (options.json, options.plot)):  # now, not after minutes of work
        if not isdir(dirname(target) or "."):
            raise InputError(f"the folder of {shown(target)} does not exist: make it first")
    return [case for case in MEASURES if case in named or (case == GROWTH and options.plot)]


def prepare(options: argparse.Namespace, device: torch.device, dtype: torch.dtype) -> tuple[Bench, Model]:
    """The engine, loaded or made, with its encoder, and what is to be said of it."""
    start = time.perf_counter()
    engine = load_engine(options) if options.model else random_engine(options.size, device, dtype)
    seconds = time.perf_counter() - start
    source = "installed model" if options.model else f"random weights, {options.size} size"
    weights = weight_bytes(engine)  # reads the encoder, which an installed model does not load before it is needed
    bench = Bench(engine, device, options.steps, options.rounds, anonymous_bytes())
    return bench, Model(source, seconds, weights)


def describe_machine(device: torch.device, dtype: torch.dtype) -> Machine:
    """What the numbers were measured on; names no user, host or path."""
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
    """The machine in a line."""
    names = dict.fromkeys((machine["name"], machine["processor"]))  # once, if the processor is what computes
    place = f"{', '.join(map(str, names))}, {machine['threads']} of {machine['cores']} cores"
    return f"{place}, {machine['system']}, torch {machine['torch']}, {machine['device']} {machine['dtype']}"


def plain(value: object) -> object:
    """Dataclasses within lists and tables as JSON can write them."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value
