"""Node `OmniVoiceTrainLoRA`: trains a LoRA on a dataset. Inputs are named as in ComfyUI's own Train LoRA."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.train.clips import Dataset
from ..omnivoice.train.settings import PRESETS
from . import host
from .inputs.training import RUN_NAME, TrainingOptions, check_run_name
from .widgets import CATEGORY, Model, TrainingData, TrainingSettings, float_input, int_input


class TrainLoRA(io.ComfyNode):
    """OmniVoice Train LoRA."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceTrainLoRA",
            display_name="OmniVoice Train LoRA",
            category=CATEGORY,
            description="Trains a LoRA for a new voice or language from recordings with transcripts. The model itself "
            "stays unchanged. Use only recordings that you have the right to train on.",
            search_aliases=["fine-tune", "finetune", "training", "lora", "train voice"],
            inputs=[*_inputs(), *_optional_inputs()],
            outputs=[
                io.LoraModel.Output(
                    display_name="lora", tooltip="The trained LoRA, for Apply LoRA or Save LoRA Weights."
                ),
                io.LossMap.Output(display_name="loss_map", tooltip="The loss of every step, for a loss graph."),
                io.Int.Output(
                    display_name="steps",
                    tooltip="Number of training steps of the LoRA, including those of existing_lora.",
                ),
                io.String.Output(display_name="report", tooltip="Clips, settings, losses, speed and files."),
            ],
            hidden=[io.Hidden.unique_id],
            is_output_node=True,
            is_experimental=True,
        )

    @classmethod
    def validate_inputs(cls, run_name: object = None) -> bool | str:
        return host.values.validate(check_run_name, run_name)

    @classmethod
    def fingerprint_inputs(cls, run_name: object = None, existing_lora: object = None, **others: object) -> str:
        return host.training.fingerprint(run_name, existing_lora)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, dataset: object, settings: object = None, **inputs: object) -> io.NodeOutput:
        loaded = host.models.loaded(model)
        data = host.values.checked(Dataset, dataset, "dataset", "OmniVoice Dataset")
        options = TrainingOptions() if settings is None else settings
        options = host.values.checked(TrainingOptions, options, "settings", "OmniVoice Training Settings")
        trained = host.training.train_lora(loaded, data, inputs, options, cls.hidden.unique_id)
        host.progress.warn(trained.warnings, cls.hidden.unique_id)
        return io.NodeOutput(trained.lora, {"loss": trained.losses}, trained.steps, trained.report)


def _inputs() -> list[io.Input]:
    return [
        Model.Input("model", tooltip="From Load OmniVoice, or from Apply LoRA to train on top of that LoRA."),
        TrainingData.Input("dataset", tooltip="From OmniVoice Dataset, made with the same model."),
        io.Combo.Input(
            "preset",
            options=[*PRESETS],
            default="voice",
            tooltip="voice: one person, from minutes of recordings. language: a language, from hours of recordings by "
            "several people. The preset decides every value that is 0.",
        ),
        io.String.Input(
            "run_name",
            default=RUN_NAME,
            tooltip="Folder in output/omnivoice_training for progress and results. If it is empty, no files are "
            "written.",
        ),
        int_input(
            "seed",
            0,
            "The same seed, data and settings give the same training. A run with another seed is a new run.",
            control_after_generate=io.ControlAfterGenerate.fixed,
        ),
        int_input(
            "steps",
            0,
            "How many times the weights are updated. 0 leaves it to the preset.",
            limits="training_steps",
            low=0,
        ),
        float_input("learning_rate", 0.0, 1e-7, "How large each update is. 0 leaves it to the preset.", low=0.0),
        int_input(
            "rank",
            0,
            "Size of the LoRA. A higher rank can learn more and makes larger files. 0 leaves it to the preset.",
            limits="lora_rank",
            low=0,
        ),
    ]


def _optional_inputs() -> list[io.Input]:
    return [
        io.Combo.Input(
            "existing_lora",
            options=host.training.lora_names(),
            default=host.training.NO_LORA,
            optional=True,
            tooltip="A LoRA in models/loras to start from, of the same rank. Press R after you add one.",
        ),
        io.Boolean.Input(
            "resume",
            default=True,
            optional=True,
            tooltip="Resumes an unfinished run of that name if its settings, clips and model are the same. Switch it "
            "off to start a new run.",
        ),
        TrainingSettings.Input("settings", optional=True, tooltip="Expert values, from Training Settings."),
    ]
