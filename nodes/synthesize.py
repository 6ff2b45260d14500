"""Synthesize: text to speech. Expert values come from Settings, and `inputs` turns the widgets into requests."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS
from . import host
from .inputs import synthesize as speech
from .widgets import (
    Design,
    Dictionary,
    Model,
    Settings,
    Voice,
    all_languages,
    float_input,
    int_input,
    language_input,
    with_texts,
)

TEXT = "The weather is beautiful today."  # a sentence that the demo voice can say


class Synthesize(io.ComfyNode):
    """Node `OmniVoiceSynthesize`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceSynthesize",
                inputs=[
                    Model.Input("model"),
                    io.String.Input("text", multiline=True, default=TEXT, dynamic_prompts=False),
                    int_input("seed", 0, control_after_generate=True, optional=True),
                    io.Combo.Input("preset", options=[*PRESETS], default=speech.PRESET, optional=True),
                    language_input(all_languages()),
                    float_input("speed", 1.0, 0.05, optional=True),
                    float_input("duration", 0.0, 0.1, optional=True),
                    io.Boolean.Input("exact_length", default=False, optional=True),
                    io.Boolean.Input("split_lines", default=False, optional=True),
                    Voice.Input("voice", optional=True),
                    Design.Input("design", optional=True),
                    Settings.Input("settings", optional=True),
                    Dictionary.Input("dictionary", optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio", is_output_list=True),
                    Voice.Output(display_name="voice", is_output_list=True),
                    io.Float.Output(display_name="seconds", is_output_list=True),
                    io.String.Output(display_name="report", is_output_list=True),
                ],
                search_aliases=["tts", "text to speech", "speak", "speech", "omnivoice"],
                is_input_list=True,
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, text: object = None) -> bool | str:
        """Check the text. No other input is named here, because ComfyUI repeats the message for every named one."""
        return speech.validate_text(text)

    @classmethod
    @host.values.guarded
    def execute(cls, model: list[object], **inputs: list[object]) -> io.NodeOutput:
        loaded = [host.models.loaded(one) for one in model]
        requests = speech.requests_from(inputs)
        spoken = host.speech.speak(host.values.only(loaded, "model"), requests, cls.hidden.unique_id)
        host.progress.warn(speech.warnings_of(spoken), cls.hidden.unique_id, summary=speech.summary(requests, spoken))
        return io.NodeOutput(
            [host.values.audio_from(one.waveform) for one in spoken.values()],
            [one.voice for one in spoken.values()],
            [one.seconds for one in spoken.values()],
            speech.reports(requests, spoken),
        )
