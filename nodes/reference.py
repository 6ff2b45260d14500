"""Reference Audio: a recording and what it says -> a voice to clone. Resampling and trimming are the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.intake.limits import MAX_VOICE_TEXT_CHARS, check_text_length
from . import host
from .sockets import CATEGORY, Model, Voice


class ReferenceAudio(io.ComfyNode):
    """Node `OmniVoiceReferenceAudio`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceReferenceAudio",
            display_name="OmniVoice Reference Audio",
            category=CATEGORY,
            description="Turns a recording of 3-10 seconds and its transcript into a voice that Synthesize can clone.",
            search_aliases=["voice clone", "clone voice", "reference audio"],
            inputs=[
                Model.Input("model", tooltip="From Load OmniVoice."),
                io.Audio.Input("audio", tooltip="One speaker, little noise, 3-10 seconds; any rate and channel count."),
                io.String.Input(
                    "transcript",
                    multiline=True,
                    default="",
                    dynamic_prompts=False,
                    tooltip="Exactly what the recording says. Without it pace and likeness suffer.",
                ),
            ],
            outputs=[Voice.Output(display_name="voice", tooltip="The voice, for Synthesize.")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    @host.guarded
    def execute(cls, model: object, audio: object, transcript: str = "") -> io.NodeOutput:
        loaded = host.checked(host.LoadedModel, model, "model", "Load OmniVoice")
        text = check_text_length(transcript, name="transcript", limit=MAX_VOICE_TEXT_CHARS)
        voice = host.encode_voice(loaded, host.waveform_from(audio), text)
        host.tell(voice.warnings, cls.hidden.unique_id)
        return io.NodeOutput(voice)
