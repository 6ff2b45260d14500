"""Reference Audio: recordings and what they say -> voices to clone. Resampling and trimming are the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.errors import InputError
from ..omnivoice.intake.limits import MAX_VOICE_TEXT_CHARS, check_text_length
from . import host
from .widgets import CATEGORY, Model, Voice


class ReferenceAudio(io.ComfyNode):
    """Node `OmniVoiceReferenceAudio`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceReferenceAudio",
            display_name="OmniVoice Reference Audio",
            category=CATEGORY,
            description="Turns a recording of 3-10 seconds and its transcript into a voice that Synthesize can clone. "
            "A batch of recordings gives a list of voices.",
            search_aliases=["voice clone", "clone voice", "reference audio"],
            inputs=[
                Model.Input("model", tooltip="From Load OmniVoice."),
                io.Audio.Input("audio", tooltip="One speaker, little noise, 3-10 seconds; any rate and channel count."),
                io.String.Input(
                    "transcript",
                    multiline=True,
                    default="",
                    dynamic_prompts=False,
                    tooltip="Exactly what the recording says. Without it pace and likeness suffer. For a batch: one "
                    "line for each recording.",
                ),
            ],
            outputs=[Voice.Output(display_name="voice", tooltip="The voice, for Synthesize.", is_output_list=True)],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, audio: object, transcript: str = "") -> io.NodeOutput:
        loaded = host.models.loaded(model)
        recordings = host.values.waveforms_from(audio)
        voices = host.speech.encode_voices(loaded, recordings, transcripts(transcript, len(recordings)))
        host.progress.tell(tuple(warning for voice in voices for warning in voice.warnings), cls.hidden.unique_id)
        return io.NodeOutput(voices)


def transcripts(text: object, count: int) -> list[str]:
    """What each of `count` recordings says: the text itself for one, its lines for more; raises InputError."""
    check_text_length(text, name="transcript", limit=MAX_VOICE_TEXT_CHARS * count)
    assert isinstance(text, str)
    lines = [text] if count == 1 else [line for line in text.splitlines() if line.strip()] or [""] * count
    if len(lines) != count:
        raise InputError(
            f"transcript must have one line for each of the {count} recordings, or be empty, got {len(lines)} lines"
        )
    return lines
