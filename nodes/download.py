"""The Download node: a published model into models/omnivoice, once its licences are accepted."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .widgets import CATEGORY


class Download(io.ComfyNode):
    """Node `OmniVoiceDownload`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        names = host.download.model_names()
        return io.Schema(
            node_id="OmniVoiceDownload",
            display_name="OmniVoice Download",
            category=CATEGORY,
            description="Downloads a published OmniVoice model into models/omnivoice. You need it once. Files that are "
            "there already are checked and kept. The weights are CC-BY-NC: no commercial use.",
            search_aliases=["get model", "install model", "omnivoice model"],
            inputs=[
                io.Combo.Input("model", options=names, default=names[0], tooltip=host.download.menu_tooltip()),
                io.Boolean.Input(
                    "accept_licence",
                    default=False,
                    tooltip="Switch this on to accept the licences. The weights are CC-BY-NC: no commercial use. "
                    "Their codec is under the Boson Higgs Audio 2 Community License.",
                ),
            ],
            outputs=[
                # A STRING cannot be connected to the menu of Load OmniVoice.
                io.Combo.Output(
                    display_name="model_name",
                    tooltip="The model's name. Connect it to model_name of Load OmniVoice, and you need not press R.",
                ),
                io.String.Output(
                    display_name="report", tooltip="What was downloaded, from where, and under which licences."
                ),
            ],
            is_output_node=True,
        )

    @classmethod
    def validate_inputs(cls, accept_licence: bool | None = None) -> bool | str:
        return host.values.validate(host.download.check_accepted, accept_licence)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, accept_licence: object = False) -> io.NodeOutput:
        return io.NodeOutput(*host.download.download(model, accept_licence))
