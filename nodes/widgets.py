"""Sockets, the menu category, and the number inputs that every node shares.

Ranges come from the engine's table of limits, which checks the values again when a node runs.
"""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.errors import InputError
from ..omnivoice.intake.limits import LIMITS
from ..omnivoice.text.languages import language_id, language_options

Model = io.Custom("OMNIVOICE_MODEL")  # host.models.LoadedModel
Voice = io.Custom("OMNIVOICE_VOICE")  # omnivoice VoicePrompt: a recorded voice
Design = io.Custom("OMNIVOICE_DESIGN")  # omnivoice VoiceDesign: a described voice
Settings = io.Custom("OMNIVOICE_SETTINGS")  # inputs.synthesize.SpeechSettings: expert values for Synthesize
TrainingData = io.Custom("OMNIVOICE_DATASET")  # omnivoice train.clips.Dataset: clips of codes with texts
TrainingSettings = io.Custom("OMNIVOICE_TRAINING_SETTINGS")  # inputs.training.TrainingOptions: for Train LoRA
CATEGORY = "audio/omnivoice"


def int_input(
    name: str, default: int, tooltip: str, *, limits: str = "", low: int | None = None, **extra: object
) -> io.Int.Input:
    """Return an INT input with the limits of `name`, or of `limits` if given; `low` replaces the lower one."""
    limit = LIMITS[limits or name]
    lowest = int(limit.low) if low is None else low
    return io.Int.Input(name, default=default, min=lowest, max=int(limit.high), tooltip=tooltip, **extra)


def float_input(
    name: str, default: float, step: float, tooltip: str, *, limits: str = "", low: float | None = None, **extra: object
) -> io.Float.Input:
    """Return a FLOAT input with the limits of `name`, or of `limits` if given; `low` replaces the lower one."""
    limit = LIMITS[limits or name]
    lowest = float(limit.low) if low is None else low
    return io.Float.Input(name, default=default, min=lowest, max=float(limit.high), step=step, tooltip=tooltip, **extra)


class LanguageMenu(list[str]):
    """auto and the names of all languages. ComfyUI, which refuses what is not in a menu, also finds ids and tags in it.

    Naming the input in `validate_inputs` would have the same effect, but then ComfyUI repeats the message about any
    other input there as well.
    """

    def __init__(self) -> None:
        super().__init__(["auto", *(name for _, name in language_options())])

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        try:
            return super().__contains__(value) or language_id(value) is not None
        except InputError:
            return False
