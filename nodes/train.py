"""Train LoRA: a model and a dataset -> an adapter. The widgets, named as core's Train LoRA names its own."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from ..omnivoice.train.clips import Dataset
from ..omnivoice.train.settings import AUDIO_MODULES, DTYPES, PRESETS, SCHEDULES
from . import host
from .inputs import training
from .inputs.training import CUSTOM, DEFAULTS, KEEP, LORA_DTYPES, OPTIMIZERS, RECIPE, RUN_NAME, SAMPLE_TEXT, STOP
from .widgets import CATEGORY, Model, TrainingData, float_input, int_input


class TrainLoRA(io.ComfyNode):
    """Node `OmniVoiceTrainLoRA`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceTrainLoRA",
            display_name="OmniVoice Train LoRA",
            category=CATEGORY,
            description="Teaches the model new voices or languages from recordings with transcripts. The model stays "
            "as it is; what was learnt is a LoRA. Train only with recordings that you may use.",
            search_aliases=["fine-tune", "finetune", "training", "lora", "train voice"],
            inputs=[
                Model.Input("model", tooltip="From Load OmniVoice, or Apply LoRA: then on top of that LoRA."),
                TrainingData.Input("dataset", tooltip="From Dataset, made with the same model."),
                *_widgets(),
                *_recipe_widgets(),
                *_later_widgets(),
            ],
            outputs=[
                io.LoraModel.Output(display_name="lora", tooltip="What was learnt, for Apply LoRA or Save LoRA."),
                io.LossMap.Output(display_name="loss_map", tooltip="The loss of every step, for a loss graph."),
                io.Int.Output(display_name="steps", tooltip="Steps in all, those of existing_lora included."),
                io.String.Output(display_name="report", tooltip="Clips, settings, losses, speed and files."),
            ],
            hidden=[io.Hidden.unique_id],
            is_output_node=True,
            is_experimental=True,
        )

    @classmethod
    def validate_inputs(
        cls,
        preset: object = None,
        run_name: object = None,
        gradient_checkpointing: object = None,
        offloading: object = None,
        validation: object = None,
        validate_every: object = None,
        patience: object = None,
        sample_every: object = None,
        sample_text: object = None,
    ) -> bool | str:
        return training.refusal({name: value for name, value in locals().items() if name != "cls"})

    @classmethod
    def fingerprint_inputs(cls, run_name: object = None, existing_lora: object = None, **others: object) -> str:
        return host.training.fingerprint(run_name, existing_lora)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, dataset: object, **inputs: object) -> io.NodeOutput:
        loaded = host.models.loaded(model)
        data = host.values.checked(Dataset, dataset, "dataset", "OmniVoice Dataset")
        trained = host.training.train_lora(loaded, data, inputs, cls.hidden.unique_id)
        host.progress.tell(trained.warnings, cls.hidden.unique_id)
        return io.NodeOutput(trained.lora, {"loss": trained.losses}, trained.steps, trained.report)


def _widgets() -> list[io.Input]:
    """The first ones. Saved values are positional, so new ones go to the end of `_later_widgets`."""
    return [
        io.Combo.Input(
            "preset",
            options=[*PRESETS, CUSTOM],
            default="voice",
            tooltip="voice: one person, from minutes of recordings. language: from hours, by several people. custom: "
            "the widgets that say so count.",
        ),
        io.String.Input(
            "run_name",
            default=RUN_NAME,
            tooltip="Folder for progress and results, in output/omnivoice_training. Empty: nothing is written.",
        ),
        int_input(
            "seed",
            0,
            "Same seed, data and settings: same training. Another seed is another run.",
            control_after_generate=io.ControlAfterGenerate.fixed,
        ),
        _recipe("steps", "How often the model is corrected.", limits="training_steps", advanced=False),
        _recipe("learning_rate", "How strongly each step corrects it.", 1e-7, advanced=False),
        _recipe(
            "rank", "Size of the LoRA: more can learn more, and takes more memory.", limits="lora_rank", advanced=False
        ),
        _recipe("batch_size", "Clips in one batch, at most.", advanced=False),
    ]


def _recipe_widgets() -> list[io.Input]:
    """Those that the presets decide, beside the first."""
    modules = "The weights for the sound itself. whole learns best, and makes large files; lora and frozen small ones."
    return [
        _recipe("grad_accumulation_steps", "Batches in one step."),
        _recipe("batch_tokens", "Size of a batch: a second of sound is 25. Less takes less memory."),
        _menu("optimizer", OPTIMIZERS, DEFAULTS.optimizer, _only_custom("How corrections are worked out.")),
        _menu("schedule", SCHEDULES, DEFAULTS.schedule, _only_custom("cosine lets the learning rate sink to 0.")),
        _recipe("warmup", "Share of the steps in which the learning rate rises.", 0.01, limits="share"),
        _recipe("weight_decay", "Pulls what is learnt back towards nothing.", 0.01, limits="share"),
        _recipe("max_grad_norm", "Bound of a single correction; 0: none.", 0.1),
        _recipe("alpha", "Strength of the LoRA, divided by its rank.", 1.0, limits="lora_alpha"),
        _recipe("dropout", "Share of the values left out at random.", 0.01),
        _switch("rslora", DEFAULTS.rslora, _only_custom("Divide alpha by the root of the rank instead.")),
        _menu("audio_modules", AUDIO_MODULES, DEFAULTS.audio_modules, _only_custom(modules)),
    ]


def _later_widgets() -> list[io.Input]:
    """Those that always count."""
    return [
        _menu(
            "training_dtype",
            DTYPES,
            DEFAULTS.training_dtype,
            "Precision of the model; what is learnt is always fp32. auto: bf16 on a GPU that has it.",
        ),
        _menu("lora_dtype", LORA_DTYPES, LORA_DTYPES[0], "Precision of the result; bf16 makes files half as large."),
        _switch("gradient_checkpointing", DEFAULTS.gradient_checkpointing, "Takes much less memory and more time."),
        _switch(
            "offloading",
            DEFAULTS.offloading,
            "Keep the model's own weights in the computer's memory: for small "
            "GPUs, slower. Needs gradient_checkpointing.",
        ),
        _menu(
            "existing_lora",
            host.training.lora_names(),
            host.training.NO_LORA,
            "A LoRA of models/loras to begin with, of the same rank. Press R after adding one.",
        ),
        _always("validation", "Share of the clips set aside, to see whether more was learnt than those clips.", 0.01),
        _always("validate_every", "Steps between validations; 0: never.", limits="every"),
        _always(
            "save_every",
            "Steps between saved states, from which a broken run goes on; 0: only at the end.",
            limits="every",
        ),
        _always("sample_every", "Steps between spoken samples, in the run's folder; 0: never.", limits="every"),
        io.String.Input(
            "sample_text", default=SAMPLE_TEXT, tooltip="What the samples say.", optional=True, advanced=True
        ),
        _always("patience", "End when so many validations in a row were no better; 0: never."),
        _switch("resume", True, "Go on with the run of that name, if its settings, clips and model are the same."),
        _menu("on_cancel", (STOP, KEEP), STOP, "What happens on Cancel. The state is saved in any case."),
    ]


def _recipe(name: str, tooltip: str, step: float = 0, *, limits: str = "", advanced: bool = True) -> io.Input:
    """A number that a preset decides; step: 0 for whole numbers."""
    return _number(name, RECIPE[name], _only_custom(tooltip), step, limits, advanced=advanced)


def _always(name: str, tooltip: str, step: float = 0, *, limits: str = "") -> io.Input:
    return _number(name, name, tooltip, step, limits, advanced=True)


def _number(name: str, setting: str, tooltip: str, step: float, limits: str, *, advanced: bool) -> io.Input:
    more = {"advanced": True, "optional": True} if advanced else {}
    value = getattr(DEFAULTS, setting)
    return (
        float_input(name, value, step, tooltip, limits=limits, **more)
        if step
        else int_input(name, value, tooltip, limits=limits, **more)
    )


def _only_custom(tooltip: str) -> str:
    return f"{tooltip} Counts only if preset is {CUSTOM}."


def _switch(name: str, default: bool, tooltip: str) -> io.Input:
    return io.Boolean.Input(name, default=default, tooltip=tooltip, optional=True, advanced=True)


def _menu(name: str, options: Sequence[str], default: str, tooltip: str) -> io.Input:
    return io.Combo.Input(name, options=[*options], default=default, tooltip=tooltip, optional=True, advanced=True)
