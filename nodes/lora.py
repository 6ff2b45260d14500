"""Apply LoRA: a model with a LoRA added. The engine recognises the file's format."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .widgets import CATEGORY, Model, float_input


class ApplyLoRA(io.ComfyNode):
    """Node `OmniVoiceApplyLoRA`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceApplyLoRA",
            display_name="OmniVoice Apply LoRA",
            category=CATEGORY,
            description="Adds a LoRA to the model: a file or PEFT folder in models/loras, or one that was just "
            "trained. Several of these nodes in a row add several LoRAs.",
            search_aliases=["lora", "adapter", "peft", "fine-tune"],
            inputs=[
                Model.Input("model", tooltip="From Load OmniVoice or another Apply LoRA. It is not changed."),
                io.Combo.Input(
                    "lora_name",
                    options=host.lora.lora_names(),
                    default=host.lora.NO_FILE,
                    tooltip="A .safetensors file in models/loras, or a folder there that PEFT saved "
                    "(adapter_model.safetensors and adapter_config.json). Press R after you add one.",
                ),
                float_input(
                    "strength",
                    1.0,
                    0.01,
                    "How strongly the LoRA is applied. 1 is as trained, 0 is not at all, and below 0 it is subtracted.",
                ),
                io.LoraModel.Input("lora", optional=True, tooltip="A LoRA from a training node, instead of a file."),
            ],
            outputs=[
                Model.Output(display_name="model", tooltip="The model with the LoRA."),
                io.String.Output(display_name="report", tooltip="What the LoRA changes, and by how much."),
            ],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, lora_name: object = None) -> bool | str:
        return host.values.validate(host.lora.find_lora, lora_name)

    @classmethod
    def fingerprint_inputs(cls, lora_name: object = None, strength: object = None, **linked: object) -> str:
        return host.folders.fingerprint(host.lora.find_lora, lora_name)

    @classmethod
    @host.values.guarded
    def execute(
        cls, model: object, lora_name: object = host.lora.NO_FILE, strength: object = 1.0, lora: object = None
    ) -> io.NodeOutput:
        loaded = host.models.loaded(model)
        applied = host.lora.apply_lora(loaded, lora_name, lora, strength)
        host.progress.warn(applied.warnings, cls.hidden.unique_id)
        return io.NodeOutput(applied.model, applied.report)
