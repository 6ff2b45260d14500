"""Cancel, heard wherever long work is done: a host says how it is asked for, and loops ask.

A caller wraps its work in `cancelled_by(check)`, and every loop over something that can be long calls `hear_cancel`,
which calls that check, or does nothing where there is none. The check raises to cancel. It holds for this thread only,
and for the inner of two callers. On the command line Ctrl-C needs no check, because Python raises KeyboardInterrupt
between any two steps of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Check = Callable[[], None]
_Item = TypeVar("_Item")
_CHECK: ContextVar[Check | None] = ContextVar("omnivoice_cancel", default=None)


@contextmanager
def cancelled_by(check: Check | None) -> Iterator[None]:
    """Let `hear_cancel` call `check` inside this block. The check may raise to cancel; with None, nothing does."""
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


def hear_cancel() -> None:
    """Call the check of the innermost `cancelled_by`; raises what it raises."""
    check = _CHECK.get()
    if check is not None:
        check()


def cancellable(items: Iterable[_Item], every: int = 1) -> Iterator[_Item]:
    """Yield the items; the check is called before the first one and then before every `every`-th."""
    for place, item in enumerate(items):
        if place % every == 0:
            hear_cancel()
        yield item
