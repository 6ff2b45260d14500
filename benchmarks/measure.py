"""The measurements: each takes a `Bench` and returns plain numbers for a table or for JSON.

Times are medians over the rounds, with the least and the largest. A speed-up is measured by switching only this one
off, alternating with a run in which all are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from statistics import median

import torch
from torch import Tensor

from benchmarks.cases import CLONE, FULL_STEPS, GROWTH, PRESET_CASES, SHOWN_IN, STEP_CASES, Bench, Case
from benchmarks.flops import product_rates, step_flops
from omnivoice.constants import FRAME_RATE
from omnivoice.types import Speedups

GROWTH_STEPS, GROWTH_ROUNDS = 2, 3
CODEC_SECONDS, LONG_SECONDS = 5, 20
EVERYTHING = "all of them"


@dataclass(frozen=True)
class Spread:
    """The median, least and largest value of the rounds."""

    median: float
    least: float
    largest: float

    @classmethod
    def of(cls, values: Sequence[float], scale: float = 1.0) -> Spread:
        """Return the spread of `values`, each multiplied by `scale`."""
        return cls(median(values) * scale, min(values) * scale, max(values) * scale)


@dataclass(frozen=True)
class StepTime:
    """The time of a step in one case.

    real_time_factor: seconds of computing per second of audio, at 32 steps and with decoding. tokens_per_second: audio
    tokens, without decoding. peak_bytes: in addition to the weights; None if unknown.
    """

    case: str
    rows: int
    targets: int
    milliseconds: Spread
    real_time_factor: float
    tokens_per_second: float
    gflop: float
    gflop_per_second: float
    peak_bytes: int | None


@dataclass(frozen=True)
class Worth:
    """What a speed-up saves in a case: milliseconds per step with and without it, and whether the tokens are equal."""

    name: str
    case: str
    on: Spread
    off: Spread
    ratio: Spread
    equal: bool


@dataclass(frozen=True)
class PresetTime:
    """The seconds that a preset takes for a clone, without decoding, and how many times as fast as the first it is."""

    name: str
    seconds: Spread
    speedup: Spread


@dataclass(frozen=True)
class CodecTime:
    """The seconds that encoding or decoding takes, and its memory in addition to the weights (None if unknown)."""

    name: str
    seconds: Spread
    peak_bytes: int | None


@dataclass(frozen=True)
class Roofline:
    """GFLOP/s of the matrix products in a clone's step, by library; GFLOP/s of the whole step; and their ratio."""

    products: dict[str, float]
    step: float
    share: float


@dataclass(frozen=True)
class Point:
    """Seconds per step at size x: seconds of audio (with a real-time factor), items, or seconds of reference."""

    x: float
    seconds_per_step: float
    real_time_factor: float | None = None


def measure_steps(bench: Bench) -> list[StepTime]:
    """Measure every case of `STEP_CASES` with all speed-ups on."""
    decode = median(_timed_decode(bench, CLONE.frames))
    return [_step_time(bench, case, decode) for case in STEP_CASES]


def _timed_decode(bench: Bench, frames: int) -> list[float]:
    call = bench.decode(frames)
    call()
    return bench.alternate({"decode": call})["decode"]


def _step_time(bench: Bench, case: Case, decode: float) -> StepTime:
    call = bench.speak(bench.runner(Speedups()), case)
    _, peak = bench.watched(call)
    spread = Spread.of(bench.alternate({case.name: call})[case.name], 1 / bench.steps)
    lengths, targets = bench.layout(case)
    spoken, gflop = FULL_STEPS * spread.median, step_flops(bench.engine.lm.config, lengths, targets) / 1e9
    return StepTime(
        case=case.name,
        rows=sum(lengths),
        targets=sum(targets),
        milliseconds=_scaled(spread, 1000),
        real_time_factor=(spoken + decode) * FRAME_RATE / case.frames,
        tokens_per_second=bench.engine.lm.config.codebooks * case.frames / spoken,
        gflop=gflop,
        gflop_per_second=gflop / spread.median,
        peak_bytes=peak,
    )


def _scaled(spread: Spread, by: float) -> Spread:
    return Spread(spread.median * by, spread.least * by, spread.largest * by)


def measure_codec(bench: Bench) -> list[CodecTime]:
    """Measure encoding and decoding, and long decoding with and without windows.

    The one that takes the most memory runs last.
    """
    long, all_at_once = LONG_SECONDS * FRAME_RATE, replace(Speedups(), windows=False)
    calls = {
        f"encode {CODEC_SECONDS} s": bench.encode(CODEC_SECONDS),
        f"decode {CODEC_SECONDS} s": bench.decode(CODEC_SECONDS * FRAME_RATE),
        f"decode {LONG_SECONDS} s": bench.decode(long),
        f"decode {LONG_SECONDS} s, windows off": bench.decode(long, all_at_once),
    }
    peaks = {name: bench.watched(call)[1] for name, call in calls.items()}
    seconds = bench.alternate(calls)
    return [CodecTime(name, Spread.of(seconds[name]), peaks[name]) for name in calls]


def measure_speedups(bench: Bench) -> list[Worth]:
    """Measure the clone with each speed-up off, and with all of them off, against all on.

    Speed-ups that make no difference on this device are left out, and so are windows, which only concern the codec.
    """
    found: list[Worth] = []
    elsewhere = ("windows", "graphs" if bench.device.type == "cpu" else "fast_linear")
    names = [field.name for field in fields(Speedups) if field.default is True and field.name not in elsewhere]
    cases = [CLONE, *SHOWN_IN.values()]
    for case in cases:
        off = {name: replace(Speedups(), **{name: False}) for name in names if SHOWN_IN.get(name, CLONE) == case}
        if case == CLONE:
            off[EVERYTHING] = replace(Speedups(), **dict.fromkeys(names, False))
        found += _worth(bench, case, off)
    return found


def measure_presets(bench: Bench) -> list[PresetTime]:
    """Measure the clone with every preset and all of its steps."""
    runner = bench.runner(Speedups())
    seconds = bench.alternate({case.name: bench.speak(runner, case) for case in PRESET_CASES})
    first = seconds[PRESET_CASES[0].name]
    return [
        PresetTime(name, Spread.of(own), Spread.of([a / b for a, b in zip(first, own)]))
        for name, own in seconds.items()
    ]


def _worth(bench: Bench, case: Case, off: dict[str, Speedups]) -> list[Worth]:
    """Measure one case with the speed-ups in `off`, alternating with all speed-ups on."""
    calls = {name: bench.speak(bench.runner(s), case) for name, s in {"": Speedups(), **off}.items()}
    codes = {name: call() for name, call in calls.items()}
    seconds, scale = bench.alternate(calls), 1000 / (case.steps or bench.steps)
    return [
        Worth(
            name,
            case.name,
            Spread.of(seconds[""], scale),
            Spread.of(seconds[name], scale),
            Spread.of([b / a for a, b in zip(seconds[""], seconds[name])]),
            _same(codes[""], codes[name]),
        )
        for name in off
    ]


def _same(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second))


def measure_roofline(bench: Bench) -> Roofline:
    """Compare a clone's step with the matrix products in it."""
    lengths, targets = bench.layout(CLONE)
    lm = bench.engine.lm
    call = bench.speak(bench.runner(Speedups()), CLONE)
    call()
    step = median(bench.alternate({"step": call})["step"]) / bench.steps
    products = product_rates(lm, sum(lengths), sum(targets), rounds=bench.rounds, wait=bench.wait, clock=bench.clock)
    reached = step_flops(lm.config, lengths, targets) / step / 1e9
    return Roofline(products, reached, reached / max(products.values()))


def measure_growth(bench: Bench) -> dict[str, list[Point]]:
    """Measure how a step's cost grows with seconds of audio, with items, and with seconds of reference."""
    if bench.device.type == "cpu":  # where a step takes seconds
        bench = replace(bench, steps=min(bench.steps, GROWTH_STEPS), rounds=min(bench.rounds, GROWTH_ROUNDS))
    return {axis: [_point(bench, axis, case) for case in cases] for axis, cases in GROWTH.items()}


def _point(bench: Bench, axis: str, case: Case) -> Point:
    call = bench.speak(bench.runner(Speedups()), case)
    call()
    step = median(bench.alternate({"step": call})["step"]) / bench.steps
    if axis != "audio":
        return Point(float(case.name), step)
    decode = median(_timed_decode(bench, case.frames))
    return Point(float(case.name), step, (FULL_STEPS * step + decode) * FRAME_RATE / case.frames)
