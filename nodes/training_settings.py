"""Node `OmniVoiceTrainingSettings`: the expert values of Train LoRA."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from ..omnivoice.train.settings import AUDIO_MODULES, SCHEDULES, TRAINING_DTYPES, TrainSettings
from . import host, widgets
from .inputs.training import KEEP, LORA_DTYPES, OPEN, OPTIMIZERS, SAMPLE_TEXT, STOP, options_from

DEFAULTS = TrainSettings()


class TrainingSettings(io.ComfyNode):
    """OmniVoice Training Settings."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceTrainingSettings",
            display_name="OmniVoice Training Settings",
            category=widgets.CATEGORY,
            description="Expert values for Train LoRA: batches, optimizer, LoRA, memory, validation and samples.",
            search_aliases=["training options", "hyperparameters", "lora settings"],
            inputs=[*_optimizer_inputs(), *_lora_inputs(), *_memory_inputs(), *_monitoring_inputs()],
            outputs=[widgets.TrainingSettings.Output(display_name="settings", tooltip="The settings, for Train LoRA.")],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        return io.NodeOutput(options_from(inputs))


def _optimizer_inputs() -> list[io.Input]:
    return [
        _int("batch_size", "Largest number of clips in one batch. 0 leaves it to the preset."),
        _int(
            "batch_tokens",
            "Size of one batch. A second of audio is 25 tokens. Lower it to save memory. 0 leaves it to the preset.",
        ),
        _int("grad_accumulation_steps", "Batches in one step, for the effect of a larger batch without its memory."),
        _menu("optimizer", OPTIMIZERS, DEFAULTS.optimizer, "How gradients update the weights."),
        _menu("schedule", SCHEDULES, DEFAULTS.schedule, "cosine lowers the learning rate to 0. constant keeps it."),
        _float(
            "warmup", 0.01, "Share of the steps in which the learning rate rises. -1 leaves it to the preset.", "share"
        ),
        _float("weight_decay", 0.01, "Pulls trained weights towards 0 in every step.", "share"),
        _float("max_grad_norm", 0.1, "Gradient clipping: the largest norm of the gradients. 0 switches it off."),
    ]


def _lora_inputs() -> list[io.Input]:
    return [
        _float(
            "alpha", 1.0, "The LoRA is scaled by alpha / rank. 0 leaves it to the preset: twice the rank.", "lora_alpha"
        ),
        _float("dropout", 0.01, "Share of the LoRA's inputs dropped at random, against overfitting."),
        _switch("rslora", DEFAULTS.rslora, "Scales the LoRA by alpha / sqrt(rank) instead, for high ranks."),
        _menu(
            "audio_modules",
            AUDIO_MODULES,
            DEFAULTS.audio_modules,
            "How audio embeddings and heads are trained. full is like PEFT's modules_to_save: best results, large "
            "files. lora and frozen make small files.",
        ),
        _menu("lora_dtype", LORA_DTYPES, LORA_DTYPES[0], "Precision of the result. bf16 halves the size of its file."),
    ]


def _memory_inputs() -> list[io.Input]:
    return [
        _menu(
            "training_dtype",
            TRAINING_DTYPES,
            DEFAULTS.training_dtype,
            "Precision of the base model; the LoRA is always trained in fp32. auto is bf16 on GPUs that support it.",
        ),
        _switch("gradient_checkpointing", DEFAULTS.gradient_checkpointing, "Saves much memory but takes more time."),
        _switch(
            "offloading",
            DEFAULTS.offloading,
            "Keeps the base model in system memory, for small GPUs. It is slower and needs gradient_checkpointing.",
        ),
    ]


def _monitoring_inputs() -> list[io.Input]:
    return [
        _float("validation", 0.01, "Share of the clips set aside to measure overfitting."),
        _int("validate_every", "Steps between validations. 0 means never.", "every"),
        _int("patience", "Stops after this many validations in a row without improvement. 0 means never."),
        _int(
            "save_every",
            "Steps between saved training states, from which a run can resume. 0 means only at the end.",
            "every",
        ),
        _int("sample_every", "Steps between spoken samples in the run's folder. 0 means never.", "every"),
        io.String.Input("sample_text", default=SAMPLE_TEXT, tooltip="The text of the samples.", optional=True),
        _menu(
            "on_cancel",
            (STOP, KEEP),
            STOP,
            f"What Cancel does. {STOP}: as elsewhere in ComfyUI. {KEEP}: the workflow continues with the LoRA trained "
            "so far. The training state is saved in either case.",
        ),
    ]


def _int(name: str, tooltip: str, limits: str = "") -> io.Input:
    default = OPEN.get(name, getattr(DEFAULTS, name))
    low = int(OPEN[name]) if name in OPEN else None
    return widgets.int_input(name, int(default), tooltip, limits=limits, low=low, optional=True)


def _float(name: str, step: float, tooltip: str, limits: str = "") -> io.Input:
    default = OPEN.get(name, getattr(DEFAULTS, name))
    low = float(OPEN[name]) if name in OPEN else None
    return widgets.float_input(name, float(default), step, tooltip, limits=limits, low=low, optional=True)


def _switch(name: str, default: bool, tooltip: str) -> io.Input:
    return io.Boolean.Input(name, default=default, tooltip=tooltip, optional=True)


def _menu(name: str, options: Sequence[str], default: str, tooltip: str) -> io.Input:
    return io.Combo.Input(name, options=[*options], default=default, tooltip=tooltip, optional=True)
