"""The case `dtypes`: a step in each precision, by turns, and how long a model takes to start in it.

Every round runs the clone once in each precision, so a change of the machine's speed falls on all of them. The share is
that of the roofline: the step's operations in a second, as a part of those of its matrix products alone, measured in
the same rounds. Loading is measured in new processes, because only they read and allocate everything; it needs an
installed model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from benchmarks.cases import CLONE, Bench
from benchmarks.flops import product_rates, step_flops
from benchmarks.loading import Loading, measure_loading
from benchmarks.measure import Spread
from benchmarks.report import size, spread, table
from omnivoice.devices import DTYPES
from omnivoice.types import Speedups

ON_CPU = ("fp32", "bf16")  # fp16 is several times as slow there


@dataclass(frozen=True)
class Precision:
    """What a precision takes: seconds per step, how many times as fast as float32, its share of the roofline, and the
    start of an installed model (None without one)."""

    dtype: str
    seconds: Spread
    speedup: Spread
    share: float
    loading: Loading | None


def measure_dtypes(bench: Bench) -> list[Precision]:
    """Measure a clone's step in float32 and the lower precisions of the device."""
    names = ON_CPU if bench.device.type == "cpu" else tuple(sorted(DTYPES, key=lambda name: name != "fp32"))
    benches = {name: replace(bench, engine=bench.engine_in(DTYPES[name])) for name in names}
    calls = {name: own.speak(own.runner(Speedups()), CLONE) for name, own in benches.items()}
    for call in calls.values():
        call()
    seconds = {name: [s / bench.steps for s in own] for name, own in bench.alternate(calls).items()}
    lengths, targets = bench.layout(CLONE)
    flops = step_flops(bench.engine.lm.config, lengths, targets)
    found = []
    for name, own in benches.items():
        rates = product_rates(
            own.engine.lm, sum(lengths), sum(targets), rounds=bench.rounds, wait=bench.wait, clock=bench.clock
        )
        ratios = [a / b for a, b in zip(seconds["fp32"], seconds[name])]
        share = flops / median(seconds[name]) / 1e9 / max(rates.values())
        loading = None
        if bench.folder:
            loading = measure_loading(bench.folder, name, rounds=bench.rounds, clock=bench.clock)
        found.append(Precision(name, Spread.of(seconds[name]), Spread.of(ratios), share, loading))
    return found


def dtypes_table(rows: list[Precision]) -> str:
    """Return a table with one line per precision."""
    header = ("dtype", "s/step (min-max)", "times as fast", "share", "load, s", "first step, s", "resident")
    return table(header, [(*_step(row), *_start(row.loading)) for row in rows])


def _step(row: Precision) -> tuple[str, ...]:
    return row.dtype, spread(row.seconds, 2), spread(row.speedup, 2), f"{row.share:.0%}"


def _start(loading: Loading | None) -> tuple[str, ...]:
    if loading is None:
        return ("n/a",) * 3
    return f"{loading.load:.2f}", f"{loading.first_step:.2f}", size(loading.resident)
