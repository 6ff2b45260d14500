"""Transcribe: a recording -> what it says, by a Whisper model of the user's. Optional: any node's text will do."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .widgets import CATEGORY


class Transcribe(io.ComfyNode):
    """Node `OmniVoiceTranscribe`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceTranscribe",
            display_name="OmniVoice Transcribe",
            category=CATEGORY,
            description="Writes down what a recording says, with a Whisper model from models/whisper. Nothing is "
            "downloaded. The text of any other speech recognition node works as well.",
            search_aliases=["asr", "speech to text", "whisper", "speech recognition", "transcript"],
            inputs=[
                io.Audio.Input("audio", tooltip="Speech of any length, rate and channel count; a batch gives a list."),
                io.Combo.Input(
                    "model_name",
                    options=host.transcribe.model_names(),
                    tooltip="A Whisper folder in models/whisper (config.json, preprocessor_config.json, "
                    "tokenizer.json, model.safetensors). Press R after adding one.",
                ),
                io.Combo.Input(
                    "language",
                    options=[host.transcribe.AUTO, *host.transcribe.languages()],
                    default=host.transcribe.AUTO,
                    tooltip="The language that is spoken; auto: Whisper decides.",
                ),
            ],
            outputs=[
                io.String.Output(
                    display_name="transcript", tooltip="What is said, for Reference Audio.", is_output_list=True
                )
            ],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, audio: object, model_name: object, language: object = host.transcribe.AUTO) -> io.NodeOutput:
        return io.NodeOutput(host.transcribe.transcribe(audio, model_name, language))
