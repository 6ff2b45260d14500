"""From the widgets of Train LoRA to the engine's settings.

What is unusual: a preset is a whole recipe, so the widgets that it covers count only where preset is custom; one that
was changed in vain is named. Every value is checked by the engine's table: linked ones skip ComfyUI's own checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import check_text_length, check_whole, shown
from ...omnivoice.intake.paths import check_file_name
from ...omnivoice.train.settings import PRESETS, TrainSettings, settings_from
from ...omnivoice.weights.lora_write import checked_metadata

CUSTOM = "custom"
STOP, KEEP = "stop the workflow", "keep what was trained"
LORA_DTYPES = ("fp32", "bf16")
OPTIMIZERS = ("AdamW", "Adam", "SGD", "RMSprop")  # as core's Train LoRA offers them; the engine may know more
RUN_NAME = "my voice"
MAX_RUNS = 1000  # of one name
SAMPLE_TEXT = "This sentence tells how far the training has come."
# Widget -> setting. The recipe is the preset's, unless that is custom; the rest always counts.
RECIPE = MappingProxyType(
    {
        name: name
        for name in (
            "steps",
            "learning_rate",
            "rank",
            "batch_size",
            "optimizer",
            "alpha",
            "dropout",
            "rslora",
            "audio_modules",
            "schedule",
            "warmup",
            "weight_decay",
            "max_grad_norm",
            "batch_tokens",
        )
    }
    | {"grad_accumulation_steps": "accumulation"}
)
ALWAYS = (
    "seed",
    "training_dtype",
    "gradient_checkpointing",
    "offloading",
    "validation",
    "validate_every",
    "save_every",
    "sample_every",
    "sample_text",
    "patience",
)
DEFAULTS = PRESETS["voice"](0)  # of the widgets: the least that the preset voice does


@dataclass(frozen=True)
class Options:
    """What the widgets say beside the settings. run_name: empty, or safe as the name of a folder."""

    preset: str
    run_name: str
    resume: bool
    keep: bool
    lora_dtype: str
    existing_lora: object


def settings_of(inputs: Mapping[str, object], seconds: float) -> tuple[TrainSettings, list[str]]:
    """(settings, warnings) for a dataset of so many seconds; a widget that is not there is at its default.

    Raises InputError.
    """
    preset = _preset(inputs)
    settings = _checked(inputs, _base(preset, seconds))
    if preset == CUSTOM:
        return settings, []
    lost = [
        f"{widget} ({getattr(settings, name)})"
        for widget, name in RECIPE.items()
        if inputs.get(widget, getattr(DEFAULTS, name)) not in (getattr(DEFAULTS, name), getattr(settings, name))
    ]
    if not lost:
        return settings, []
    return settings, [f"the preset {preset} decides {', '.join(lost)}; these widgets count only where it is {CUSTOM}"]


def options_of(inputs: Mapping[str, object]) -> Options:
    """Raises InputError."""
    dtype, cancel = inputs.get("lora_dtype", LORA_DTYPES[0]), inputs.get("on_cancel", STOP)
    for name, value, allowed in (("lora_dtype", dtype, LORA_DTYPES), ("on_cancel", cancel, (STOP, KEEP))):
        if not isinstance(value, str) or value not in allowed:
            raise InputError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")
    resume = inputs.get("resume", True)
    if not isinstance(resume, bool):
        raise InputError(f"resume must be true or false, got {shown(resume)}")
    name = check_run_name(inputs.get("run_name", RUN_NAME))
    return Options(_preset(inputs), name, resume, cancel == KEEP, str(dtype), inputs.get("existing_lora"))


def check_run_name(name: object) -> str:
    """A name for a folder and a file, or empty; raises InputError."""
    text = check_text_length(name, name="run_name", limit=100).strip()
    if text:
        text = check_file_name(text)
        check_file_name(f"{text}-{MAX_RUNS}-best.safetensors")  # the longest that is made of it
        checked_metadata({"name": text})
    return text


def refusal(inputs: Mapping[str, object]) -> bool | str:
    """For validation: True, or what is wrong with the values that are no links (those are None, or not there)."""
    known = {name: value for name, value in inputs.items() if value is not None}
    try:
        if "run_name" in known:
            known["run_name"] = check_run_name(known["run_name"])
        _checked(known, _base(_preset(known), 0))
    except InputError as error:
        return str(error)
    return True


def _preset(inputs: Mapping[str, object]) -> str:
    preset = inputs.get("preset", "voice")
    if not isinstance(preset, str) or preset not in (CUSTOM, *PRESETS):
        raise InputError(f"preset must be one of {', '.join((CUSTOM, *PRESETS))}, got {shown(preset)}")
    return preset


def _base(preset: str, seconds: float) -> TrainSettings | None:
    return PRESETS[preset](seconds) if preset in PRESETS else None


def _checked(inputs: Mapping[str, object], base: TrainSettings | None) -> TrainSettings:
    """The settings; what a preset covers is checked, though it does not count. base: the preset's, None for custom."""
    if "grad_accumulation_steps" in inputs:
        check_whole("grad_accumulation_steps", inputs["grad_accumulation_steps"])  # by the name of the widget
    always: dict[str, object] = {"sample_text": SAMPLE_TEXT}
    always |= {name: inputs[name] for name in ALWAYS if name in inputs}
    recipe = {setting: inputs[widget] for widget, setting in RECIPE.items() if widget in inputs}
    custom = settings_from({**always, **recipe}, DEFAULTS)
    if custom.sample_every and not inputs.get("run_name", RUN_NAME):
        raise InputError("sample_every writes into the run's folder: give a run_name, or set it to 0")
    return custom if base is None else settings_from(always, base)
