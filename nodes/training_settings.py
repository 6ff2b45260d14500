"""Training Settings: expert values for Train LoRA. Ranges, defaults and checks are the engine's."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from ..omnivoice.train.settings import AUDIO_MODULES, SCHEDULES, TRAINING_DTYPES, TrainSettings
from . import host, widgets
from .inputs.training import KEEP, LORA_DTYPES, OPEN, OPTIMIZERS, SAMPLE_TEXT, STOP, options_from

DEFAULTS = TrainSettings()


class TrainingSettings(io.ComfyNode):
    """Node `OmniVoiceTrainingSettings`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return widgets.with_texts(
            io.Schema(
                node_id="OmniVoiceTrainingSettings",
                inputs=[
                    _number("batch_size"),
                    _number("batch_tokens"),
                    _number("grad_accumulation_steps"),
                    _menu("optimizer", OPTIMIZERS),
                    _menu("schedule", SCHEDULES),
                    _number("warmup", 0.01, "share"),
                    _number("weight_decay", 0.01, "share"),
                    _number("max_grad_norm", 0.1),
                    _number("alpha", 1.0, "lora_alpha"),
                    _number("dropout", 0.01),
                    _switch("rslora"),
                    _menu("audio_modules", AUDIO_MODULES),
                    _menu("lora_dtype", LORA_DTYPES),
                    _menu("training_dtype", TRAINING_DTYPES),
                    _switch("gradient_checkpointing"),
                    _switch("offloading"),
                    _number("validation", 0.01),
                    _number("validate_every", limits="every"),
                    _number("patience"),
                    _number("save_every", limits="every"),
                    _number("sample_every", limits="every"),
                    io.String.Input("sample_text", default=SAMPLE_TEXT, optional=True),
                    _menu("on_cancel", (STOP, KEEP)),
                    _number("stop_words_points", 0.5, "points"),
                    _menu("recogniser", host.training_words.recogniser_names()),
                ],
                outputs=[widgets.TrainingSettings.Output(display_name="settings")],
                search_aliases=["training options", "hyperparameters", "lora settings"],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        return io.NodeOutput(options_from(inputs))


def _number(name: str, step: float = 1, limits: str = "") -> io.Input:
    """Return the input of a number, which starts at "by preset" if it is in `OPEN`."""
    default, low = getattr(DEFAULTS, name), OPEN.get(name)
    shown = default if low is None else low
    if isinstance(default, int):
        return widgets.int_input(name, shown, limits=limits, low=low, optional=True)
    return widgets.float_input(name, shown, step, limits=limits, low=low, optional=True)


def _switch(name: str) -> io.Input:
    return io.Boolean.Input(name, default=getattr(DEFAULTS, name), optional=True)


def _menu(name: str, options: Sequence[str]) -> io.Input:
    return io.Combo.Input(name, options=[*options], default=getattr(DEFAULTS, name, options[0]), optional=True)
