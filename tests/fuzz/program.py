"""Throw damaged and forged inputs at the pack for a while, and print what came of it.

The exit status is 0 when no promise was broken. Otherwise it is 1, and the folder of findings holds the inputs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import torch

from tests.fuzz.campaign import MAX_GROWTH_MIB, Campaign, Run, campaigns

GRACE_SECONDS = 120  # in which a worker ends the input that it is at


@dataclass
class Result:
    """What the workers of one campaign report in total."""

    name: str
    unit: str
    goal: int
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    growth_mib: float = 0.0
    minutes: float = 0.0
    findings: Counter[str] = field(default_factory=Counter)
    tallies: Counter[str] = field(default_factory=Counter)


def work(attack: Callable[[Run], None], run: Run, count: Synchronized, report: Path) -> None:
    """Run one worker's share in this process, and write its figures to `report`."""
    torch.set_num_threads(1)
    run.on_count = lambda inputs: setattr(count, "value", inputs)
    attack(run)
    if run.growth_mib() > MAX_GROWTH_MIB:
        run.finding("", f"memory grew by more than {MAX_GROWTH_MIB} MiB", f"{run.growth_mib():.0f} MiB")
    keys = ("inputs", "accepted", "refused", "slowest", "findings", "tallies")
    figures = {key: getattr(run, key) for key in keys} | {"growth": run.growth_mib()}
    report.write_text(json.dumps(figures), encoding="utf-8")


def run_campaign(campaign: Campaign, seed: int, seconds: float, kept: Path) -> Result:
    """Return what all workers of a campaign found. A worker that dies is a finding."""
    result, started = Result(campaign.name, campaign.unit, campaign.goal), time.monotonic()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="omnivoice-fuzz-") as scratch:
        workers: list[tuple[BaseProcess, Synchronized, Path]] = []
        for number in range(campaign.workers):
            folder, count = Path(scratch, str(number)), context.Value("q", 0)
            folder.mkdir()
            rng, goal = random.Random(f"{seed} {campaign.name} {number}"), -(-campaign.goal // campaign.workers)
            run = Run(rng, folder, kept / campaign.name, goal, seconds, number)
            report = Path(scratch, f"{number}.json")
            process = context.Process(target=work, args=(campaign.attack, run, count, report))
            process.start()
            workers.append((process, count, report))
        for number, (process, count, report) in enumerate(workers):
            process.join(max(0, started + seconds + GRACE_SECONDS - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
                result.findings[f"worker {number} hung after about {count.value} inputs"] += 1
            elif not report.exists():
                result.findings[f"worker {number} died ({process.exitcode}) after about {count.value} inputs"] += 1
            add_report(result, report, count.value)
    result.minutes = (time.monotonic() - started) / 60
    return result


def add_report(result: Result, report: Path, inputs: int) -> None:
    """Add a worker's figures; of one without a report, only its `inputs` are known."""
    figures = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {"inputs": inputs}
    for key in ("inputs", "accepted", "refused"):
        setattr(result, key, getattr(result, key) + figures.get(key, 0))
    result.slowest_seconds = max(result.slowest_seconds, figures.get("slowest", 0))
    result.growth_mib = max(result.growth_mib, figures.get("growth", 0))
    result.findings.update(figures.get("findings", {}))
    result.tallies.update(figures.get("tallies", {}))


def line(result: Result) -> str:
    """Return a row of the table, and a line for each finding."""
    tallies = "".join(f", {number:,} {name}" for name, number in sorted(result.tallies.items()))
    short = "" if result.inputs >= result.goal else f" of {result.goal:,}"
    row = (
        f"| {result.unit} | {result.inputs:,}{short} | {result.accepted:,} | {result.refused:,} | "
        f"{sum(result.findings.values()):,} | {result.slowest_seconds:.2f} s | {result.growth_mib:+.0f} MiB | "
        f"{result.minutes:.1f} min{tallies} |"
    )
    return "\n".join([row, *(f"  FINDING {number:,} x {reason}" for reason, number in result.findings.most_common())])


def main() -> int:
    known = campaigns()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"campaigns: {', '.join(known)}; all of them if none is named")
    parser.add_argument("--minutes", type=float, default=90, help="time for all campaigns together; 90 if not given")
    parser.add_argument("--seed", type=int, default=1, help="another seed gives other inputs; 1 if not given")
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="folder for the inputs of findings")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(known)):
        parser.error(f"there is no campaign {', '.join(unknown)}; known: {', '.join(known)}")
    chosen = [known[name] for name in given.names or known]
    chosen.sort(key=lambda campaign: campaign.share)  # those that take longest have what time the others leave
    print(
        f"Python {platform.python_version()}, torch {torch.__version__}, seed {given.seed}, {given.minutes:g} minutes"
    )
    print("| inputs | number | accepted | refused | findings | slowest (CPU) | memory | time, further figures |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    end, results = time.monotonic() + 60 * given.minutes, list[Result]()
    for index, campaign in enumerate(chosen):
        part = campaign.share / sum(later.share for later in chosen[index:])
        results.append(run_campaign(campaign, given.seed, max(1.0, end - time.monotonic()) * part, given.findings))
        print(line(results[-1]), flush=True)
        if given.json:
            given.json.write_text(json.dumps([vars(result) for result in results], indent=1), encoding="utf-8")
    return 1 if any(result.findings for result in results) else 0
