"""Settings: expert values for Synthesize. Ranges, defaults and checks are the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.plan import CHUNKING
from . import host
from .inputs import synthesize as speech
from .widgets import Settings, float_input, int_input, with_texts

DEFAULTS, SAMPLING = speech.DEFAULTS, speech.DEFAULTS.sampling


class OmniVoiceSettings(io.ComfyNode):
    """Node `OmniVoiceSettings`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceSettings",
                inputs=[
                    int_input("steps", 0, low=0, optional=True),
                    float_input("guidance", SAMPLING.guidance, 0.1, optional=True),
                    float_input("t_shift", SAMPLING.t_shift, 0.01, optional=True),
                    float_input("layer_penalty", SAMPLING.layer_penalty, 0.5, optional=True),
                    float_input("position_temperature", SAMPLING.position_temperature, 0.5, optional=True),
                    float_input("class_temperature", SAMPLING.class_temperature, 0.1, optional=True),
                    io.Boolean.Input("denoise", default=DEFAULTS.denoise, optional=True),
                    io.Boolean.Input("post_process", default=DEFAULTS.post_process, optional=True),
                    float_input("pad_seconds", DEFAULTS.pad_seconds, 0.05, optional=True),
                    float_input("fade_seconds", DEFAULTS.fade_seconds, 0.05, optional=True),
                    io.Combo.Input("chunking", options=[*CHUNKING], default=DEFAULTS.chunking, optional=True),
                    float_input("chunk_seconds", DEFAULTS.chunk_seconds, 0.5, optional=True),
                    float_input("chunk_threshold_seconds", DEFAULTS.chunk_threshold_seconds, 0.5, optional=True),
                    int_input("unconditional_every", 0, low=0, optional=True),
                    int_input("prefix_every", 0, low=0, optional=True),
                    io.Boolean.Input("text_as_written", default=False, optional=True),
                    io.Boolean.Input("normalise", default=DEFAULTS.normalise, optional=True),
                ],
                outputs=[Settings.Output(display_name="settings")],
                search_aliases=["tts settings", "sampling", "steps", "chunking"],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        return io.NodeOutput(speech.settings_from(inputs))
