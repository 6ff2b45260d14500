"""Load OmniVoice: a model folder -> the model, managed by ComfyUI. It reads local files only."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .widgets import CATEGORY, Model


class LoadOmniVoice(io.ComfyNode):
    """Node `LoadOmniVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="LoadOmniVoice",
            display_name="Load OmniVoice",
            category=CATEGORY,
            description="Loads an OmniVoice text-to-speech model from models/omnivoice. Nothing is downloaded.",
            search_aliases=["tts", "text to speech", "omnivoice model"],
            inputs=[
                io.Combo.Input(
                    "model_name",
                    options=host.models.model_names(),
                    tooltip="A model folder in models/omnivoice (config.json, model.safetensors, tokenizer.json, "
                    "audio_tokenizer/), or a single-file model there. Press R after adding one.",
                ),
                io.Combo.Input(
                    "dtype",
                    options=["auto", *host.models.DTYPES, host.models.FASTEST],
                    default="auto",
                    tooltip="Precision of the language model. auto takes bf16 or fp16 on a GPU and fp32 on a CPU; "
                    "fastest takes bf16 on a CPU too, if that is quicker there. The codec always runs in fp32.",
                    advanced=True,
                ),
                io.Combo.Input(
                    "graphs",
                    options=[*host.models.GRAPH_MODES],
                    default="auto",
                    tooltip="CUDA graphs: less waiting between steps on NVIDIA GPUs, same speech; checked when first "
                    "used. Choose off if speaking fails on your GPU.",
                    optional=True,  # so that prompts from before it still run
                    advanced=True,
                ),
            ],
            outputs=[Model.Output(display_name="model", tooltip="The model, for Reference Audio and Synthesize.")],
        )

    @classmethod
    def validate_inputs(cls, model_name: str | None = None) -> bool | str:
        return host.values.validate(host.models.model_folder, model_name)

    @classmethod
    def fingerprint_inputs(cls, model_name: str, dtype: str = "auto", graphs: str = "auto") -> str:
        return host.models.model_fingerprint(model_name)

    @classmethod
    @host.values.guarded
    def execute(cls, model_name: str, dtype: str = "auto", graphs: str = "auto") -> io.NodeOutput:
        return io.NodeOutput(host.models.load_model(model_name, dtype, graphs))
