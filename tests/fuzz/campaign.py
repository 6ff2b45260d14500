"""What a fuzz campaign is, and the loop that every campaign uses.

A campaign is one module of this folder with a `CAMPAIGN`. Its `attack` runs in worker processes; everything random in
it comes from `Run.rng`, so the seed and the number of the worker repeat it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import pkgutil
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from omnivoice.errors import OmniVoiceError

MAX_CPU_SECONDS = 2.0  # for one input
MAX_GROWTH_MIB = 400  # of a worker's memory
MAX_KEPT = 50  # inputs of findings that are kept for each worker


@dataclass(frozen=True)
class Campaign:
    """goal: inputs of a release run. share: minutes of two cores in a run of about 90. suite: inputs in the suite; 0 if
    it only runs as a campaign. workers: 1 for an attack that cannot run twice at once. unit: what is counted.
    """

    name: str
    unit: str
    goal: int
    share: float
    attack: Callable[[Run], None]
    suite: int = 1_000
    workers: int = 2


@dataclass
class Run:
    """One worker's part of a campaign, and what came of it.

    goal: inputs of this worker. seconds: the time it has, at most. timed: whether slow inputs are findings. kept: the
    folder for the inputs of findings, made when it is needed. on_count: gets the number of inputs so far now and then.
    """

    rng: random.Random
    folder: Path
    kept: Path
    goal: int
    seconds: float
    worker: int = 0
    timed: bool = True
    on_count: Callable[[int], None] | None = None
    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    findings: Counter[str] = field(default_factory=Counter)
    tallies: Counter[str] = field(default_factory=Counter)
    _end: float = 0.0
    _peak: float = 0.0

    def more(self) -> bool:
        """Return whether another input is due. The clock starts, and memory is first measured, at the first call."""
        if not self._end:
            self._end, self._peak = time.monotonic() + self.seconds, peak_mib()
        if self.on_count and not self.inputs % 64:
            self.on_count(self.inputs)
        return self.inputs < self.goal and (self.inputs % 16 != 0 or time.monotonic() < self._end)

    @contextlib.contextmanager
    def input(self, data: object, *, cpu_seconds: float = MAX_CPU_SECONDS) -> Iterator[None]:
        """Count one input. One of our own errors means refused; any other error is a finding, and is not raised."""
        self.inputs += 1
        started = time.process_time()
        try:
            yield
        except OmniVoiceError:
            self.refused += 1
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of a Rust library is no Exception
            self.finding(data, _place(error), traceback.format_exc())
        else:
            self.accepted += 1
        taken = time.process_time() - started
        self.slowest = max(self.slowest, taken)
        if self.timed and taken > cpu_seconds:
            self.finding(data, f"took more than {cpu_seconds} s of processor time", f"{taken:.2f} s")

    def finding(self, data: object, reason: str, details: str = "") -> None:
        """Record a broken promise, and keep the input of the first of its kind."""
        self.findings[reason] += 1
        if self.findings[reason] > 1 or len(self.findings) > MAX_KEPT:
            return
        content = data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogatepass")
        name = hashlib.sha256(reason.encode("utf-8", "backslashreplace") + content).hexdigest()[:12]
        self.kept.mkdir(parents=True, exist_ok=True)
        (self.kept / f"{name}.input").write_bytes(content)
        told = f"{reason}\nworker {self.worker}, input {self.inputs}\n{details}\n"
        (self.kept / f"{name}.txt").write_text(told, encoding="utf-8", errors="backslashreplace")

    def tally(self, name: str, number: int = 1) -> None:
        """Add to a further figure of the table."""
        self.tallies[name] += number

    def growth_mib(self) -> float:
        """Return the MiB by which the highest memory of this process has grown since the first `more()`."""
        return peak_mib() - self._peak if self._end else 0.0


def peak_mib() -> float:
    """Return the highest memory of this process so far, in MiB; 0 on Windows, which does not say."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _place(error: BaseException) -> str:
    """Return the error's type and the lines that raised it, which tell findings apart."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__][-2:]
    return " < ".join([type(error).__name__, *(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))])


def campaigns() -> dict[str, Campaign]:
    """Return every campaign of this folder, by name."""
    found = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith(("test_", "__")):
            campaign = getattr(importlib.import_module(f"tests.fuzz.{module.name}"), "CAMPAIGN", None)
            if campaign is not None:
                found[campaign.name] = campaign
    return found
