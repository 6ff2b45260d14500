"""Load OmniVoice: loads a model from local files. ComfyUI manages its memory."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.devices import AUTO
from . import host
from .widgets import Model, with_texts


class LoadOmniVoice(io.ComfyNode):
    """Node `LoadOmniVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        models, dtypes = host.models.model_names(), host.models.dtype_choices()
        return with_texts(
            io.Schema(
                node_id="LoadOmniVoice",
                inputs=[
                    io.Combo.Input("model_name", options=models),
                    io.Combo.Input("dtype", options=dtypes, default=AUTO, optional=True, advanced=True),
                    io.Combo.Input(
                        "graphs", options=[*host.models.GRAPH_MODES], default=AUTO, optional=True, advanced=True
                    ),
                ],
                outputs=[Model.Output(display_name="model")],
                search_aliases=["tts", "text to speech", "omnivoice model"],
            )
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
