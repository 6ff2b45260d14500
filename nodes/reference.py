"""Reference Audio: makes voices from recordings and their transcripts. The engine resamples and trims."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.errors import AudioError, InputError
from ..omnivoice.intake.limits import MAX_REFERENCES, MAX_VOICE_TEXT_CHARS, check_text_length
from . import host
from .widgets import Model, Voice, with_texts


class ReferenceAudio(io.ComfyNode):
    """Node `OmniVoiceReferenceAudio`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceReferenceAudio",
                inputs=[
                    Model.Input("model"),
                    io.Audio.Input("audio"),
                    io.String.Input("transcript", multiline=True, default="", dynamic_prompts=False, optional=True),
                ],
                outputs=[Voice.Output(display_name="voice", is_output_list=True)],
                search_aliases=["voice clone", "clone voice", "reference audio"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, audio: object, transcript: object = None) -> io.NodeOutput:
        loaded = host.models.loaded(model)
        recordings = host.values.waveforms_from(audio)
        if len(recordings) > MAX_REFERENCES:
            raise AudioError(
                f"at most {MAX_REFERENCES} recordings become voices at once, got {len(recordings)}: give fewer, or "
                "one batch after another"
            )
        voices = host.speech.encode_voices(loaded, recordings, transcripts(transcript, len(recordings)))
        labels = host.values.labels("recording", len(voices))
        warnings = [
            f"{label}: {one}" if label else one for label, voice in zip(labels, voices) for one in voice.warnings
        ]
        host.progress.warn(tuple(warnings), cls.hidden.unique_id)
        return io.NodeOutput(voices)


def transcripts(text: object, count: int) -> list[str]:
    """Return the transcript of each of `count` recordings: the text itself for one, its lines for more.

    None is an empty text. Raises InputError for another number of lines.
    """
    text = check_text_length("" if text is None else text, name="transcript", limit=MAX_VOICE_TEXT_CHARS * count)
    lines = [text] if count == 1 else [line for line in text.splitlines() if line.strip()] or [""] * count
    if len(lines) != count:
        raise InputError(
            f"transcript must have one line for each of the {count} recordings, or be empty, got {len(lines)} lines"
        )
    return lines
