"""Sockets, the menu category, and the number inputs that every node shares.

Ranges come from the engine's table of limits, which checks the values again when a node runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from comfy_api.latest import io

from ..omnivoice.intake.limits import LIMITS, MAX_TABLE_BYTES
from ..omnivoice.intake.strict_json import read_json
from ..omnivoice.text.languages import language_options

Model = io.Custom("OMNIVOICE_MODEL")  # host.models.LoadedModel
Voice = io.Custom("OMNIVOICE_VOICE")  # omnivoice VoicePrompt: a recorded voice
Design = io.Custom("OMNIVOICE_DESIGN")  # omnivoice VoiceDesign: a described voice
Settings = io.Custom("OMNIVOICE_SETTINGS")  # inputs.synthesize.SpeechSettings: expert values for Synthesize
TrainingData = io.Custom("OMNIVOICE_DATASET")  # omnivoice train.clips.Dataset: clips of codes with texts
TrainingSettings = io.Custom("OMNIVOICE_TRAINING_SETTINGS")  # inputs.training.TrainingOptions: for Train LoRA
CATEGORY = "audio/omnivoice"


def int_input(
    name: str, default: float, tooltip: str, *, limits: str = "", low: float | None = None, **extra: object
) -> io.Int.Input:
    """Return an INT input with the limits of `name`, or of `limits` if given; `low` replaces the lower one."""
    limit = LIMITS[limits or name]
    lowest = int(limit.low if low is None else low)
    return io.Int.Input(name, default=int(default), min=lowest, max=int(limit.high), tooltip=tooltip, **extra)


def float_input(
    name: str, default: float, step: float, tooltip: str, *, limits: str = "", low: float | None = None, **extra: object
) -> io.Float.Input:
    """Return a FLOAT input with the limits of `name`, or of `limits` if given; `low` replaces the lower one."""
    limit = LIMITS[limits or name]
    lowest, highest = float(limit.low if low is None else low), float(limit.high)
    return io.Float.Input(name, default=float(default), min=lowest, max=highest, step=step, tooltip=tooltip, **extra)


def table_inputs(
    table: str, defaults: Mapping[str, object], menus: Mapping[str, Sequence[str]], by_preset: Mapping[str, float]
) -> list[io.Input]:
    """Return an optional input for each entry of inputs/`table`.json, {name: {tooltip, step and limits if needed}}.

    An input's type is that of its default. by_preset: {name: the value that leaves it to the preset}, which is shown
    instead of the default and replaces the lower limit.
    """
    entries = read_json(Path(__file__).parent / "inputs" / f"{table}.json", limit=MAX_TABLE_BYTES)
    inputs = []
    for name, entry in cast("dict[str, dict[str, Any]]", entries).items():
        default, low, options = defaults[name], by_preset.get(name), {**entry, "optional": True}
        shown = default if low is None else low
        if name in menus:
            inputs.append(io.Combo.Input(name, options=[*menus[name]], default=default, **options))
        elif isinstance(default, (bool, str)):
            kind = io.Boolean if isinstance(default, bool) else io.String
            inputs.append(kind.Input(name, default=default, **options))
        else:
            number = int_input if isinstance(default, int) else float_input
            inputs.append(number(name, shown, low=low, **options))
    return inputs


def language_input(names: Iterable[str], tooltip: str) -> io.Input:
    """Return an optional menu of auto and `names`, which also takes linked texts and over HTTP any known spelling.

    ComfyUI compares values with a menu only if COMBO is the input's one type. Naming the input in `validate_inputs`
    would have the same effect, but then ComfyUI repeats the message about any other named input on this one.
    """
    tooltip += " A link or an API prompt may also give an id or a tag, such as en or en-US."
    menu = io.Combo.Input("language", options=["auto", *names], default="auto", tooltip=tooltip, optional=True)
    return io.MultiType.Input(menu, types=[io.String])


def all_languages() -> list[str]:
    """Return the names of the languages that the model speaks."""
    return [name for _, name in language_options()]
