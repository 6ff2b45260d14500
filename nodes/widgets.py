"""Sockets, the menu category, and input factories that every node shares.

Number widgets take their ranges from the engine's table of limits, which checks the values again when a node runs.
"""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.intake.limits import LIMITS

Model = io.Custom("OMNIVOICE_MODEL")  # host.models.LoadedModel
Voice = io.Custom("OMNIVOICE_VOICE")  # omnivoice VoicePrompt: a recorded voice
Design = io.Custom("OMNIVOICE_DESIGN")  # omnivoice VoiceDesign: a described voice
TrainingData = io.Custom("OMNIVOICE_DATASET")  # omnivoice train.clips.Dataset: clips of codes with texts
CATEGORY = "audio/omnivoice"


def int_input(
    name: str, default: int, tooltip: str, *, prefix: str = "", limits: str = "", **extra: object
) -> io.Int.Input:
    """An INT input with the limits of `name`, or of `limits` if given; its id is `prefix` and `name`."""
    limit = LIMITS[limits or name]
    return io.Int.Input(
        prefix + name, default=default, min=int(limit.low), max=int(limit.high), tooltip=tooltip, **extra
    )


def float_input(
    name: str, default: float, step: float, tooltip: str, *, prefix: str = "", limits: str = "", **extra: object
) -> io.Float.Input:
    """A FLOAT input with the limits of `name`, or of `limits` if given; its id is `prefix` and `name`."""
    limit = LIMITS[limits or name]
    return io.Float.Input(
        prefix + name, default=default, min=float(limit.low), max=float(limit.high), step=step, tooltip=tooltip, **extra
    )
