"""Train LoRA: trains a LoRA on a dataset. Inputs are named as in ComfyUI's own Train LoRA."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.train.clips import Dataset
from ..omnivoice.train.settings import PRESETS
from . import host
from .inputs.training import RUN_NAME, TrainingOptions, check_run_name
from .widgets import Model, TrainingData, TrainingSettings, float_input, int_input, with_texts


class TrainLoRA(io.ComfyNode):
    """Node `OmniVoiceTrainLoRA`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        loras, fixed = host.training.lora_names(), io.ControlAfterGenerate.fixed
        return with_texts(
            io.Schema(
                node_id="OmniVoiceTrainLoRA",
                inputs=[
                    Model.Input("model"),
                    TrainingData.Input("dataset"),
                    io.Combo.Input("preset", options=[*PRESETS], default="voice"),
                    io.String.Input("run_name", default=RUN_NAME),
                    int_input("seed", 0, control_after_generate=fixed),
                    int_input("steps", 0, limits="training_steps", low=0),
                    float_input("learning_rate", 0.0, 1e-7, low=0.0),
                    int_input("rank", 0, limits="lora_rank", low=0),
                    io.Combo.Input("existing_lora", options=loras, default=host.training.NO_LORA, optional=True),
                    io.Boolean.Input("resume", default=True, optional=True),
                    TrainingSettings.Input("settings", optional=True),
                    io.String.Input("consent", default="", dynamic_prompts=False, optional=True),
                ],
                outputs=[
                    io.LoraModel.Output(display_name="lora"),
                    io.LossMap.Output(display_name="loss_map"),
                    io.Int.Output(display_name="steps"),
                    io.String.Output(display_name="report"),
                ],
                search_aliases=["fine-tune", "finetune", "training", "lora", "train voice"],
                hidden=[io.Hidden.unique_id],
                is_output_node=True,
                is_experimental=True,
            )
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
