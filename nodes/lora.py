"""Apply LoRA: adds a LoRA to a model. The engine recognises the file's format."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .widgets import Model, float_input, with_texts


class ApplyLoRA(io.ComfyNode):
    """Node `OmniVoiceApplyLoRA`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceApplyLoRA",
                inputs=[
                    Model.Input("model"),
                    io.Combo.Input("lora_name", options=host.lora.lora_names(), default=host.lora.NO_FILE),
                    float_input("strength", 1.0, 0.01),
                    io.LoraModel.Input("lora", optional=True),
                ],
                outputs=[Model.Output(display_name="model"), io.String.Output(display_name="report")],
                search_aliases=["lora", "adapter", "peft", "fine-tune"],
                hidden=[io.Hidden.unique_id],
            )
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
