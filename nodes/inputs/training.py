"""From the widgets of Train LoRA and Training Settings to the engine's settings.

A preset fills in what is left open: the widgets in `OPEN` start at a value that means "by preset". Any other value is
used as it is, or refused by the engine's table, since linked values skip ComfyUI's own checks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import MAX_CONSENT_CHARS, check_choice, check_switch, check_text_length, shown
from ...omnivoice.train.results import check_result_name
from ...omnivoice.train.settings import BY_PRESET, TrainSettings, settings_for, settings_from

OPEN: Mapping[str, float] = MappingProxyType({**dict.fromkeys(BY_PRESET, 0), "warmup": -1})
STOP, KEEP = "stop the workflow", "keep what was trained"
LORA_DTYPES = ("fp32", "bf16")
NO_RECOGNISER = "[None]"  # as core's Train LoRA calls it
OPTIMIZERS = ("AdamW", "Adam", "SGD", "RMSprop")  # as core's Train LoRA offers them; the engine may know more
RUN_NAME = "my voice"
MAX_RUNS = 1000  # of one name
SAMPLE_TEXT = "This sentence shows how far the training has come."
WIDGETS = ("steps", "learning_rate", "rank", "seed")  # of Train LoRA, by the engine's names


@dataclass(frozen=True)
class TrainingOptions:
    """What an OMNIVOICE_TRAINING_SETTINGS socket carries.

    settings: checked settings by the engine's names, without those left to the preset. lora_dtype: of the result. keep:
    whether a cancelled training lets the workflow continue with its LoRA. recogniser: the name of a Whisper model for
    stop_words_points, checked when it is read.
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    lora_dtype: str = LORA_DTYPES[0]
    keep: bool = False
    recogniser: str = NO_RECOGNISER


@dataclass(frozen=True)
class TrainingRequest:
    """What the two nodes ask for. run_name: empty, or safe as the name of a folder. given: the settings that were not
    left to the preset. consent: a note for the LoRA's files on who allowed the use of the voice."""

    preset: str
    run_name: str
    resume: bool
    existing_lora: object
    settings: TrainSettings
    given: Collection[str]
    consent: str = ""

    def report(self) -> list[str]:
        """Return two lines: the values that came from the preset, and all others."""
        table = self.settings.as_table()
        hidden = ("method", "targets", "masking", "sample_text")
        preset = {name: table[name] for name in BY_PRESET if name not in self.given}
        others = {name: value for name, value in table.items() if name not in (*preset, *hidden)}
        return [
            f"{source}: {', '.join(f'{name} {_shown(value)}' for name, value in values.items())}"
            for source, values in ((f"from preset {self.preset}", preset), ("other settings", others))
            if values
        ]


def options_from(inputs: Mapping[str, object]) -> TrainingOptions:
    """Return the options of Training Settings; a widget without a value keeps its default. Raises InputError."""
    table = {name: value for name, value in inputs.items() if value is not None}
    dtype = check_choice("lora_dtype", table.pop("lora_dtype", LORA_DTYPES[0]), LORA_DTYPES)
    cancel = check_choice("on_cancel", table.pop("on_cancel", STOP), (STOP, KEEP))
    recogniser = table.pop("recogniser", NO_RECOGNISER)
    if not isinstance(recogniser, str):
        raise InputError(f"recogniser must be the name of a Whisper model, got {shown(recogniser)}")
    settings = {"sample_text": SAMPLE_TEXT, **_without_open(table)}
    settings_from(settings)
    return TrainingOptions(MappingProxyType(settings), dtype, cancel == KEEP, recogniser)


def request_from(inputs: Mapping[str, object], options: TrainingOptions, seconds: float) -> TrainingRequest:
    """Return what Train LoRA and `options` ask for, on a dataset of so many seconds; raises InputError."""
    table = {**options.settings, **_without_open({name: inputs[name] for name in WIDGETS if name in inputs})}
    preset = inputs.get("preset", "voice")
    settings = settings_for(preset, seconds, table)  # type: ignore[arg-type]  # checked there
    name = check_run_name(inputs.get("run_name", RUN_NAME))
    if settings.sample_every and not name:
        raise InputError("sample_every writes into the run's folder: give a run_name, or set sample_every to 0")
    if settings.stop_words_points and not name:
        raise InputError(
            "stop_words_points keeps the best weights in the run's folder: give a run_name, or set it to 0"
        )
    note = inputs.get("consent")
    consent = "" if note is None else check_text_length(note, name="consent", limit=MAX_CONSENT_CHARS)
    if consent.strip() and not name:
        raise InputError("consent is kept in the files of the run: give a run_name, or leave consent empty")
    resume = inputs.get("resume")
    resume = resume is None or check_switch("resume", resume)
    existing = inputs.get("existing_lora")
    return TrainingRequest(str(preset), name, resume, existing, settings, frozenset(table), consent)


def check_run_name(name: object) -> str:
    """Return the name of a run, safe for a folder and its files, or an empty string; raises InputError."""
    text = check_text_length(name, name="run_name", limit=100).strip()
    return check_result_name(text, suffix=f"-{MAX_RUNS}") if text else ""


def _without_open(inputs: Mapping[str, object]) -> dict[str, object]:
    """Return the inputs without those that are left to the preset."""

    def is_open(name: str, value: object) -> bool:
        return name in OPEN and isinstance(value, (int, float)) and not isinstance(value, bool) and value == OPEN[name]

    return {name: value for name, value in inputs.items() if not is_open(name, value)}


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
