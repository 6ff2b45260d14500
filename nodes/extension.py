"""The list of nodes that ComfyUI registers, and the one thing done at start: registering models/omnivoice."""

from __future__ import annotations

from comfy_api.latest import ComfyExtension, io

from . import host
from .design import VoiceDesignAttributes
from .load import LoadOmniVoice
from .reference import ReferenceAudio
from .synthesize import Synthesize


class OmniVoiceExtension(ComfyExtension):
    """The pack, as ComfyUI sees it."""

    async def on_load(self) -> None:
        host.register_model_folder()

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        return [LoadOmniVoice, ReferenceAudio, VoiceDesignAttributes, Synthesize]
