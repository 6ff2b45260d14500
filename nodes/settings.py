"""The Settings node: expert values for Synthesize. Ranges, defaults and checks are the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.plan import CHUNKING
from . import host
from .inputs import synthesize as speech
from .widgets import CATEGORY, Settings, table_inputs


class OmniVoiceSettings(io.ComfyNode):
    """Node `OmniVoiceSettings`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        defaults = {**vars(speech.DEFAULTS.sampling), **vars(speech.DEFAULTS)}
        return io.Schema(
            node_id="OmniVoiceSettings",
            display_name="OmniVoice Settings",
            category=CATEGORY,
            description="Expert values for Synthesize. Without this node, Synthesize uses its preset and the defaults "
            "that you see here.",
            search_aliases=["tts settings", "sampling", "steps", "chunking"],
            inputs=table_inputs("settings", defaults, {"chunking": CHUNKING}, dict.fromkeys(speech.FROM_PRESET, 0)),
            outputs=[Settings.Output(display_name="settings", tooltip="The settings, for Synthesize.")],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        return io.NodeOutput(speech.settings_from(inputs))
