"""Load OmniVoice: loads a model from local files. ComfyUI manages its memory."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.devices import AUTO, DTYPES, FASTEST
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
                    tooltip="A model in models/omnivoice: a folder with config.json, model.safetensors, "
                    "tokenizer.json and audio_tokenizer/, or a single-file model. OmniVoice Download puts it there. "
                    "Press R after you add one.",
                ),
                io.Combo.Input(
                    "dtype",
                    options=[AUTO, *DTYPES, FASTEST],
                    default=AUTO,
                    tooltip="Precision of the language model. auto uses bf16 or fp16 on a GPU and fp32 on a CPU. "
                    "fastest also uses bf16 on a CPU where that is faster. The codec always runs in fp32.",
                    optional=True,
                    advanced=True,
                ),
                io.Combo.Input(
                    "graphs",
                    options=[*host.models.GRAPH_MODES],
                    default=AUTO,
                    tooltip="CUDA graphs speed up NVIDIA GPUs and do not change the speech. They are checked on first "
                    "use. Choose off if generation fails on your GPU.",
                    optional=True,
                    advanced=True,
                ),
            ],
            outputs=[Model.Output(display_name="model", tooltip="The model, for Reference Audio and Synthesize.")],
        )

    @classmethod
    def validate_inputs(cls, model_name: str | None = None) -> bool | str:
        return host.values.validate(host.models.model_folder, model_name)

    @classmethod
    def fingerprint_inputs(cls, model_name: object = None, dtype: object = None, graphs: object = None) -> str:
        return host.folders.fingerprint(host.models.model_folder, model_name)

    @classmethod
    @host.values.guarded
    def execute(cls, model_name: object, dtype: object = None, graphs: object = None) -> io.NodeOutput:
        dtype, graphs = (AUTO if value is None else value for value in (dtype, graphs))
        return io.NodeOutput(host.models.load_model(model_name, dtype, graphs))
