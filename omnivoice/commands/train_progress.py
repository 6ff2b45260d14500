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
from ..train.trainer import Pace, StepReport


class Progress:
    """Step, loss, learning rate, speed and time left: one updating line on a terminal, occasional lines elsewhere."""

    EVERY_SECONDS = 10.0

    def __init__(self, *, shown: bool, terminal: bool) -> None:
        self._shown, self._terminal, self._pace, self._last = shown, terminal, Pace(), -math.inf

    def show(self, report: StepReport) -> None:
        """Show the report of a step."""
        line, now = self._pace.line(report), time.perf_counter()
        if self._terminal or now - self._last >= self.EVERY_SECONDS or report.step == 1:
            self._last = now
            self.say(line, end="" if self._terminal else "\n")

    def say(self, text: str, *, end: str = "\n") -> None:
        """Show a separate line."""
        if self._shown:
            with contextlib.suppress(OSError):  # a closed terminal must not end the training
                print(f"\r{text:<79}" if self._terminal else text, end=end, file=sys.stderr)


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
