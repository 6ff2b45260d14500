"""Download: gets a published model into models/omnivoice, once its licences are accepted."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .widgets import with_texts


class Download(io.ComfyNode):
    """Node `OmniVoiceDownload`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        names = host.download.model_names()
        return with_texts(
            io.Schema(
                node_id="OmniVoiceDownload",
                inputs=[
                    io.Combo.Input("model", options=names, default=names[0]),
                    io.Boolean.Input("accept_licence", default=False),
                ],
                outputs=[io.Combo.Output(display_name="model_name"), io.String.Output(display_name="report")],
                search_aliases=["get model", "install model", "omnivoice model"],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, accept_licence: bool | None = None) -> bool | str:
        return host.values.validate(host.download.check_accepted, accept_licence)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, accept_licence: object = False) -> io.NodeOutput:
        return io.NodeOutput(*host.download.download(model, accept_licence))
