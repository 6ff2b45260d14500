"""Voice Design Attributes: drop-downs -> a described voice. Words and conflicts are the engine's (text/design.json)."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.text.design import design_from_attributes, design_options
from . import host
from .sockets import CATEGORY, Design

AUTO = "auto"
TOOLTIPS = {
    "gender": "Gender of the voice.",
    "age": "Age of the speaker.",
    "pitch": "How high the voice is.",
    "style": "Whispered instead of spoken.",
    "accent": "Accent of English speech. Not together with a dialect.",
    "dialect": "Dialect of Chinese speech. Not together with an accent.",
}


class VoiceDesignAttributes(io.ComfyNode):
    """Node `OmniVoiceVoiceDesignAttributes`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceVoiceDesignAttributes",
            display_name="OmniVoice Voice Design Attributes",
            category=CATEGORY,
            description="Describes a voice, with no recording needed. Works for English and Chinese speech.",
            search_aliases=["voice design", "voice attributes", "speaker"],
            inputs=[
                io.Combo.Input(name, options=[AUTO, *words], default=AUTO, tooltip=f"{TOOLTIPS[name]} auto: any.")
                for name, words in design_options().items()
            ],
            outputs=[Design.Output(display_name="design", tooltip="The described voice, for Synthesize.")],
        )

    @classmethod
    @host.guarded
    def execute(cls, **attributes: str) -> io.NodeOutput:
        return io.NodeOutput(design_from_attributes(**attributes))
