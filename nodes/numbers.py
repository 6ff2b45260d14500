"""Number widgets whose ranges come from the engine's one table of limits, which checks the values again later."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.intake.limits import LIMITS


def whole(
    name: str, default: int, tooltip: str, *, prefix: str = "", limits: str = "", **extra: object
) -> io.Int.Input:
    """An INT input with the limits of `name`, or of `limits` if given; its id is `prefix` and `name`."""
    limit = LIMITS[limits or name]
    return io.Int.Input(
        prefix + name, default=default, min=int(limit.low), max=int(limit.high), tooltip=tooltip, **extra
    )


def real(
    name: str, default: float, step: float, tooltip: str, *, prefix: str = "", limits: str = "", **extra: object
) -> io.Float.Input:
    """A FLOAT input with the limits of `name`, or of `limits` if given; its id is `prefix` and `name`."""
    limit = LIMITS[limits or name]
    return io.Float.Input(
        prefix + name, default=default, min=float(limit.low), max=float(limit.high), step=step, tooltip=tooltip, **extra
    )
