"""What all nodes share: sockets, inputs for numbers and languages, and where a node's texts come from.

Ranges come from the engine's table of limits, which checks the values again when a node runs. Names, descriptions and
tooltips are in locales/, where ComfyUI finds the translations too.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
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
Dictionary = io.Custom("OMNIVOICE_DICTIONARY")  # omnivoice Dictionary: pronunciations of words
TrainingData = io.Custom("OMNIVOICE_DATASET")  # omnivoice train.clips.Dataset: clips of codes with texts
TrainingSettings = io.Custom("OMNIVOICE_TRAINING_SETTINGS")  # inputs.training.TrainingOptions: for Train LoRA


def with_texts(schema: io.Schema) -> io.Schema:
    """Return `schema` with the pack's category and the texts that locales/en/nodeDefs.json has for the node.

    Each node calls io.Schema with a literal `node_id`: ComfyUI-Manager finds a pack's nodes by reading its source.
    """
    texts = _english()[schema.node_id]
    schema.display_name, schema.description = texts["display_name"], texts["description"]
    schema.category = "audio/omnivoice"
    for item in schema.inputs:
        item.tooltip = texts["inputs"][item.id]["tooltip"]
    for number, output in enumerate(schema.outputs):
        output.tooltip = texts["outputs"][str(number)]["tooltip"]
    return schema


@cache
def _english() -> dict[str, Any]:
    path = Path(__file__).parents[1] / "locales" / "en" / "nodeDefs.json"
    return cast("dict[str, Any]", read_json(path, limit=MAX_TABLE_BYTES))


def int_input(
    name: str, default: float, *, limits: str = "", low: float | None = None, **options: object
) -> io.Int.Input:
    """Return an INT input with the limits of `name`, or of `limits` if given; `low` replaces the lower one."""
    limit = LIMITS[limits or name]
    lowest = int(limit.low if low is None else low)
    return io.Int.Input(name, default=int(default), min=lowest, max=int(limit.high), **options)


def float_input(
    name: str, default: float, step: float, *, limits: str = "", low: float | None = None, **options: object
) -> io.Float.Input:
    """Return a FLOAT input with the limits of `name`, or of `limits` if given; `low` replaces the lower one."""
    limit = LIMITS[limits or name]
    lowest = float(limit.low if low is None else low)
    return io.Float.Input(name, default=float(default), min=lowest, max=float(limit.high), step=step, **options)


def language_input(names: Iterable[str]) -> io.Input:
    """Return an optional menu of auto and `names`, which also takes linked texts and over HTTP any known spelling.

    ComfyUI compares values with a menu only if COMBO is the input's one type. Naming the input in `validate_inputs`
    would have the same effect, but then ComfyUI repeats the message about any other named input on this one.
    """
    menu = io.Combo.Input("language", options=["auto", *names], default="auto", optional=True)
    return io.MultiType.Input(menu, types=[io.String])


def all_languages() -> list[str]:
    """Return the names of the languages that the model speaks."""
    return [name for _, name in language_options()]
