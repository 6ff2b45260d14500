"""What `train` shows while it works: a line of progress, and curves for TensorBoard.

Unusual: nobody need be reading: a terminal or a pipe that is gone stops no training.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import InputError
from ..train.trainer import StepReport, clock


class Progress:
    """One line on a terminal, a line now and then elsewhere: step, loss, learning rate, speed, time left."""

    EVERY_SECONDS = 10.0

    def __init__(self, start: int, *, shown: bool, terminal: bool) -> None:
        self._start, self._shown, self._terminal = start, shown, terminal
        self._began, self._last, self._tokens = time.perf_counter(), -math.inf, 0

    def show(self, report: StepReport) -> None:
        """After a step."""
        self._tokens += report.tokens
        now = time.perf_counter()
        if not self._shown or (not self._terminal and now - self._last < self.EVERY_SECONDS and report.step > 1):
            return
        self._last = now
        self._print(progress_line(report, now - self._began, report.step - self._start, self._tokens), stay=True)

    def say(self, text: str) -> None:
        """A line of its own."""
        if self._shown:
            self._print(text)

    def _print(self, text: str, *, stay: bool = False) -> None:
        with contextlib.suppress(OSError):  # who was reading has left: what is being learnt must not be lost with them
            print(
                f"\r{text:<79}" if self._terminal else text,
                end="" if stay and self._terminal else "\n",
                file=sys.stderr,
            )


def progress_line(report: StepReport, seconds: float, steps: int, tokens: int) -> str:
    """`steps` steps with `tokens` rows took so many seconds up to this report."""
    left = int((report.steps - report.step) * seconds / max(1, steps))
    skipped = ", skipped" if report.skipped else ""
    return (
        f"step {report.step}/{report.steps}, loss {report.loss:.4f}{skipped}, lr {report.learning_rate:.2e}, "
        f"{tokens / max(seconds, 1e-9):,.0f} tokens/s, {clock(left)} left"
    )


@contextlib.contextmanager
def tensorboard(folder: Path | None) -> Iterator[Callable[[str, float, int], None]]:
    """Takes (name, value, step) for TensorBoard, and has all of it on the disk at the end; None: for nobody. Raises
    InputError if TensorBoard is not installed."""
    if folder is None:
        yield lambda name, value, step: None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("tensorboard = true needs the package: pip install tensorboard, or set it to false") from None
    writer = SummaryWriter(str(folder))
    try:
        yield lambda name, value, step: writer.add_scalar(name, value, step)
    finally:
        writer.close()  # what was written last is in its queue for up to two minutes
