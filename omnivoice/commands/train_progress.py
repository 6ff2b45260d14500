"""The progress output of `train`: a line of text, and curves for TensorBoard.

A closed terminal or pipe does not end the training.
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
    """Step, loss, learning rate, speed and time left: one updating line on a terminal, occasional lines elsewhere."""

    EVERY_SECONDS = 10.0

    def __init__(self, start: int, *, shown: bool, terminal: bool) -> None:
        self._start, self._shown, self._terminal = start, shown, terminal
        self._began, self._last, self._tokens = time.perf_counter(), -math.inf, 0

    def show(self, report: StepReport) -> None:
        """Show the report of a step."""
        self._tokens += report.tokens
        now = time.perf_counter()
        if not self._shown or (not self._terminal and now - self._last < self.EVERY_SECONDS and report.step > 1):
            return
        self._last = now
        self._print(progress_line(report, now - self._began, report.step - self._start, self._tokens), stay=True)

    def say(self, text: str) -> None:
        """Show a separate line."""
        if self._shown:
            self._print(text)

    def _print(self, text: str, *, stay: bool = False) -> None:
        shown, end = (f"\r{text:<79}", "" if stay else "\n") if self._terminal else (text, "\n")
        with contextlib.suppress(OSError):  # a closed terminal must not end the training
            print(shown, end=end, file=sys.stderr)


def progress_line(report: StepReport, seconds: float, steps: int, tokens: int) -> str:
    """Return the line for a report, after `steps` steps with `tokens` tokens in `seconds`."""
    left = int((report.steps - report.step) * seconds / max(1, steps))
    skipped = ", skipped" if report.skipped else ""
    return (
        f"step {report.step}/{report.steps}, loss {report.loss:.4f}{skipped}, lr {report.learning_rate:.2e}, "
        f"{tokens / max(seconds, 1e-9):,.0f} tokens/s, {clock(left)} left"
    )


@contextlib.contextmanager
def tensorboard(folder: Path | None) -> Iterator[Callable[[str, float, int], None]]:
    """Yield a function that takes (name, value, step) for TensorBoard; with folder None it does nothing.

    Raises InputError if TensorBoard is not installed.
    """
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
        writer.close()  # or the last values stay in its queue for up to two minutes
