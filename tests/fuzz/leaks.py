"""Long use leaves nothing behind: memory, threads and open files stay level over generations, loads and trainings."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import shutil
from pathlib import Path

from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.fault_points import Points
from tests.fuzz.fault_scenarios import SCENARIOS, Tools, tools
from tests.fuzz.open_things import open_things, settled

TIMES = {"generate": 300, "load": 50, "train": 40}
WARM_UP = 20  # runs that fill caches
KIB_PER_RUN = 50.0
ROUNDS = 10  # in which memory is looked at


def resident_kib() -> float:
    """Return the memory of this process without what is free for its next use; 0 where the system does not say."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)  # of glibc, whose gaps between objects look like growth
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except FileNotFoundError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def slope(values: list[float]) -> float:
    """Return the median growth from one value to a later one, per step: single jumps do not count."""
    found = sorted((b - a) / (j - i) for i, a in enumerate(values) for j, b in enumerate(values) if i < j)
    return found[len(found) // 2]


def growth(name: str, times: int, used: Tools, place: Path, run: Run) -> float:
    """Run a scenario many times and return by how many KiB each run makes the process larger."""
    sizes = []
    for number in range(WARM_UP + times):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        SCENARIOS[name].prepare(used, place)
        with run.input(name, cpu_seconds=30.0):
            SCENARIOS[name].run(used, place)
        if number >= WARM_UP and (number - WARM_UP) % (times // ROUNDS) == 0:
            sizes.append(resident_kib())
    return slope(sizes) / (times // ROUNDS)


def attack(run: Run) -> None:
    """Use the pack as often as `TIMES` says, once for each worker's time."""
    with tools(Points()) as used:
        before = open_things()
        for name, times in TIMES.items():
            more = growth(name, times, used, run.folder / "place", run)
            run.tally(f"bytes per run of {name}", round(more * 1024))
            if more > KIB_PER_RUN:
                run.finding(name, f"{name} grows by more than {KIB_PER_RUN:g} KiB a run", f"{more:.1f} KiB")
            now = settled(before)
            for key in ("threads", "open files"):
                if now[key] > before[key]:
                    run.finding(name, f"{name} leaves {key}", f"{before[key]} before, {now[key]} after")
        run.more()


GOAL = sum(TIMES.values()) + WARM_UP * len(TIMES)
CAMPAIGN = Campaign(name="leaks", unit="runs watched", goal=GOAL, share=2, attack=attack, suite=0, workers=1)
