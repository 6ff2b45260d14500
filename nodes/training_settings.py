"""Node `OmniVoiceTrainingSettings`: the expert values of Train LoRA."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.train.settings import AUDIO_MODULES, SCHEDULES, TRAINING_DTYPES, TrainSettings
from . import host, widgets
from .inputs.training import KEEP, LORA_DTYPES, OPEN, OPTIMIZERS, SAMPLE_TEXT, STOP, options_from

MENUS = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "audio_modules": AUDIO_MODULES,
    "lora_dtype": LORA_DTYPES,
    "training_dtype": TRAINING_DTYPES,
    "on_cancel": (STOP, KEEP),
}


class TrainingSettings(io.ComfyNode):
    """OmniVoice Training Settings."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        defaults = {
            **vars(TrainSettings()),
            "lora_dtype": LORA_DTYPES[0],
            "on_cancel": STOP,
            "sample_text": SAMPLE_TEXT,
        }
        return io.Schema(
            node_id="OmniVoiceTrainingSettings",
            display_name="OmniVoice Training Settings",
            category=widgets.CATEGORY,
            description="Expert values for Train LoRA: batches, optimizer, LoRA, memory, validation and samples.",
            search_aliases=["training options", "hyperparameters", "lora settings"],
            inputs=widgets.table_inputs("training_settings", defaults, MENUS, OPEN),
            outputs=[widgets.TrainingSettings.Output(display_name="settings", tooltip="The settings, for Train LoRA.")],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        return io.NodeOutput(options_from(inputs))
