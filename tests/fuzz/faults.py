"""Injected faults: each scenario with a fault at every point that it passes, once and for ever (SQLite's method).

After each fault the process is as it was (weights, modes, generators, hooks, threads, open files), no file is torn,
what was there before is there or replaced by the whole new file, no temporary file is left, and the error says what to
do. Then the same run without a fault gives the very result of a run that never had one.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import itertools
import json
import logging
import os
import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.cuda import OutOfMemoryError

from omnivoice.errors import OmniVoiceError
from omnivoice.intake.audio_files import read_audio
from omnivoice.intake.tensors import check_header
from omnivoice.weights.lora_read import ADAPTER_CONFIG
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.fault_points import FAULTS, Cancelled, Points
from tests.fuzz.fault_scenarios import SCENARIOS, Scenario, Tools, tools
from tests.fuzz.open_things import open_things, settled

_ADVICE = re.compile(
    "make room|choose|change|try|run|wait|restart|close|remove|check|set |name |copy|update|use |resume|has the reason",
    re.I,
)
_TEMPORARY = re.compile(r"\.ovtmp(/|$)|(?<!/run)\.lock$")
_REMOVAL = frozenset({"unlink", "open"})  # of a file, and of the folder that it is in
_LASTING = re.compile(r"/run\.lock$")  # of a training run: it stays in the folder of the run and locks nothing
Content = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """A fault at the n-th point, from 1, where it can happen. forever: at all later ones too."""

    scenario: str
    fault: str
    n: int
    forever: bool

    def __str__(self) -> str:
        return f"{self.scenario}: {self.fault} at point {self.n}{' and all later ones' if self.forever else ''}"


def content(place: Path) -> Content:
    """Return {path in the folder: bytes} of all files."""
    return {
        path.relative_to(place).as_posix(): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()
    }


def digest(value: object) -> str:
    """Return a hash of tensors, numbers and texts in any nesting."""
    found = hashlib.blake2b()

    def add(one: object) -> None:
        if isinstance(one, torch.Tensor):
            flat = one.detach().contiguous().reshape(-1)
            found.update(f"{flat.dtype} {tuple(one.shape)}".encode())
            found.update(flat.view(torch.uint8).numpy().data)
        elif isinstance(one, (list, tuple)):
            for each in one:
                add(each)
        else:
            found.update(repr(one).encode())

    add(value)
    return found.hexdigest()


class ProcessState:
    """What a fault must leave as it was. engine: whose weights, flags and hooks are looked at."""

    def __init__(self, used: Tools) -> None:
        modules = [used.engine.lm, used.engine.codec.decoder, used.engine.codec.encoder]
        self._parts = [part for module in modules for part in module.modules()]
        self._weights = [weight for module in modules for weight in module.parameters()]

    def now(self) -> dict[str, object]:
        """Return the state."""
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
        return {
            "weights": digest(self._weights),
            "training flags": any(part.training for part in self._parts),
            "requires_grad": sum(weight.requires_grad for weight in self._weights),
            "hooks": sum(len(getattr(part, name)) for part in self._parts for name in hooks),
            "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            "default dtype": torch.get_default_dtype(),
            "generators": digest([torch.get_rng_state(), repr(random.getstate()), repr(np.random.get_state())]),
            "folder": os.getcwd(),
            "torch's threads": torch.get_num_threads(),
        }


def message_fault(error: BaseException) -> str:
    """Return what is wrong with the kind or the words of an error; "" for nothing."""
    if isinstance(error, (KeyboardInterrupt, Cancelled, MemoryError)):
        return ""
    if not isinstance(error, (OmniVoiceError, OutOfMemoryError)):
        return f"{type(error).__name__} came out: {error}"
    text = str(error)
    return "" if _ADVICE.search(text) and len(text) > 20 else f"the message does not say what to do: {text}"


def torn(name: str, path: Path) -> str:
    """Return why a file is not whole; "" if it is."""
    try:
        if name.endswith(".safetensors"):
            check_header(path)
        elif name.endswith(".wav"):
            read_audio(path, require_complete=True)
        elif name.endswith(".json"):
            json.loads(path.read_bytes())
        elif name.endswith(".jsonl"):
            [json.loads(line) for line in path.read_bytes().splitlines()]
    except (OmniVoiceError, ValueError) as error:
        return str(error)
    return ""


class Rig:
    """Runs the cases of all scenarios in one folder. finding(case, text) reports what does not hold."""

    def __init__(self, folder: Path, used: Tools) -> None:
        self.folder, self.tools, self.points = folder / "place", used, used.points
        self.state = ProcessState(used)
        self.before: dict[str, Content] = {}
        self.whole: dict[str, Content] = {}
        self.results: dict[str, str] = {}
        self.outcomes: dict[str, int] = {}

    def cases(self, names: list[str]) -> list[Case]:
        """Run every scenario twice without a fault, and return every case of it."""
        found = []
        for name in names:
            for _ in range(2):  # what is imported or made once is there afterwards
                passed = self._undisturbed(name)
            for fault, kind in FAULTS.items():
                count = sum(point in kind.points for point in passed)
                ways = (False, True) if kind.can_last else (False,)
                found += [Case(name, fault, n, forever) for n in range(1, count + 1) for forever in ways]
        return found

    def _prepare(self, name: str) -> Scenario:
        scenario = SCENARIOS[name]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        scenario.prepare(self.tools, self.folder)
        return scenario

    def _undisturbed(self, name: str) -> list[str]:
        scenario = self._prepare(name)
        self.before[name] = content(self.folder)
        self.points.arm(self.folder)
        self.results[name] = digest(scenario.run(self.tools, self.folder))
        self.points.disarm()
        self.whole[name] = self._tight(scenario, content(self.folder))
        return self.points.passed

    @staticmethod
    def _tight(scenario: Scenario, found: Content) -> Content:
        found = {name: data for name, data in found.items() if not _LASTING.search(name)}
        return {name: data for name, data in found.items() if not name.endswith(scenario.loose)}

    def faults_of(self, case: Case) -> list[str]:
        """Inject the fault of a case and return what does not hold afterwards."""
        scenario = self._prepare(case.scenario)
        state, things = self.state.now(), open_things()
        error, result = self._faulted(case, scenario)
        refused = not _REMOVAL.isdisjoint(self.points.raised)  # then a temporary file may stay, and goes a day later
        wrong = message_fault(error) if error is not None else ""
        if error is None and result != self.results[case.scenario]:
            wrong = "it succeeded with another result"
        self._count(error)
        del error
        found = [wrong] if wrong else []
        found += self._files(case.scenario, scenario, allow_temporary=refused)
        if case.forever and self.points.raised[:1] not in ([], ["create"], ["write"]):
            # An adapter has two files: a disk that takes the removal of its settings and no rename after it loses them.
            found = [text for text in found if not text.endswith(f"/{ADAPTER_CONFIG} is gone")]
        after, now = self.state.now(), settled(things)
        found += [f"{key} changed: {value} to {after[key]}" for key, value in state.items() if after[key] != value]
        found += [f"{key}: {value} before, {now[key]} after" for key, value in things.items() if now[key] != value]
        if not scenario.repeats and not self._differences(case.scenario, scenario, allow_temporary=refused):
            return found
        return found + self._again(case.scenario, scenario, allow_temporary=refused)

    def _faulted(self, case: Case, scenario: Scenario) -> tuple[BaseException | None, str]:
        self.points.arm(self.folder, FAULTS[case.fault], case.n, forever=case.forever)
        try:
            return None, digest(scenario.run(self.tools, self.folder))
        except BaseException as error:  # noqa: BLE001 - interrupts are what is injected
            return error.with_traceback(None), ""
        finally:
            self.points.disarm()

    def _count(self, error: BaseException | None) -> None:
        name = "went on" if error is None else type(error).__name__
        self.outcomes[name] = self.outcomes.get(name, 0) + 1

    def _files(self, name: str, scenario: Scenario, *, allow_temporary: bool) -> list[str]:
        """Return which files are torn, foreign or left over. allow_temporary: the disk refused to remove one."""
        before, whole, found = self.before[name], self.whole[name], []
        now = content(self.folder)
        for path, data in now.items():
            if _TEMPORARY.search(path):
                found += [] if allow_temporary else [f"{path} is left over"]
            elif path in before or (path in whole and not path.endswith(scenario.interim)):
                if data not in (before.get(path), whole.get(path)):
                    found.append(f"{path} is neither the old file nor the new one")
            elif reason := torn(path, self.folder / path):
                found.append(f"{path} is torn: {reason}")
        return found + [f"{path} is gone" for path in before if path not in now and path in whole]

    def _again(self, name: str, scenario: Scenario, *, allow_temporary: bool) -> list[str]:
        """Run the scenario again without a fault, and return how it differs from a run that never had one."""
        self.points.arm(self.folder)
        try:
            result = digest(scenario.run(self.tools, self.folder))
        except Exception as error:  # noqa: BLE001 - a finding, whatever it is
            return [f"the next run failed: {type(error).__name__}: {error}"]
        finally:
            self.points.disarm()
        found = [] if result == self.results[name] else ["the next run had another result"]
        return found + self._differences(name, scenario, allow_temporary=allow_temporary)

    def _differences(self, name: str, scenario: Scenario, *, allow_temporary: bool) -> list[str]:
        """Return how the folder differs from that of a run that never had a fault."""
        now, whole = self._tight(scenario, content(self.folder)), self.whole[name]
        now = {path: data for path, data in now.items() if not (allow_temporary and _TEMPORARY.search(path))}
        missing, more = sorted(whole.keys() - now.keys()), sorted(now.keys() - whole.keys())
        found = [f"{path} is left at the end" for path in more] + [f"{path} is missing at the end" for path in missing]
        return found + [f"{path} differs at the end" for path, data in whole.items() if now.get(path, data) != data]


@contextlib.contextmanager
def quiet():  # type: ignore[no-untyped-def]
    """Keep the log of thousands of faults to itself, and the collector of garbage to what is new."""
    log = logging.getLogger("omnivoice_nodes")
    level = log.level
    log.setLevel(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        log.setLevel(level)


def attack(run: Run) -> None:
    """Inject faults in an order of the worker's own, until its share is used up."""
    points = Points()
    with points.installed(), tools(points) as used, quiet():
        rig = Rig(Path(run.folder), used)
        cases = rig.cases([*(QUICK if run.goal <= IN_SUITE else SCENARIOS)])
        random.Random("faults").shuffle(cases)  # the same for all workers, so that each has cases of its own
        own = itertools.cycle(cases[run.worker :: CAMPAIGN.workers])
        while run.more():
            case = next(own)
            with run.input(str(case), cpu_seconds=30.0):
                wrong = rig.faults_of(case)
            for text in wrong:
                run.finding(str(case), f"{case.scenario}, {case.fault}: {text}")
        run.tally("different cases", len(cases))
        for name, count in rig.outcomes.items():
            run.tally(name, count)


IN_SUITE = 30
QUICK = ("voice", "save a LoRA", "merge")  # what the suite's few faults interrupt

CAMPAIGN = Campaign(name="faults", unit="injected faults", goal=5_000, share=13, attack=attack, suite=IN_SUITE)
