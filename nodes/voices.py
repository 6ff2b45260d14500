"""Save Voice and Load Voice: the voice library. Names, files and formats are `host_voices`' and the engine's."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.text.languages import language_options
from ..omnivoice.types import VoicePrompt
from . import host
from .widgets import CATEGORY, Model, Voice


class SaveVoice(io.ComfyNode):
    """Node `OmniVoiceSaveVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSaveVoice",
            display_name="OmniVoice Save Voice",
            category=CATEGORY,
            description="Saves a voice into models/omnivoice_voices, for Load Voice. Save only voices you may use: the "
            "recording can be heard again from the file.",
            search_aliases=["save speaker", "voice library", "store voice"],
            inputs=[
                Voice.Input("voice", tooltip="From Reference Audio, or the voice that Synthesize spoke with."),
                io.String.Input(
                    "name",
                    default="my voice",
                    tooltip="The voice's name and file name: letters of any script, digits, spaces and - _ .",
                ),
                io.Combo.Input(
                    "language",
                    options=[host.voices.AUTO, *(name for _, name in language_options())],
                    default=host.voices.AUTO,
                    tooltip="The language of the recording, as a label. auto: as the voice has it, or none.",
                ),
                io.String.Input(
                    "consent",
                    default="",
                    tooltip="Who allowed the use of this voice, when and for what. Kept in the file.",
                ),
                io.Boolean.Input(
                    "overwrite",
                    default=False,
                    tooltip="Replace the voice of that name. Never replaces a file that is no voice.",
                ),
            ],
            outputs=[
                Voice.Output(display_name="voice", tooltip="The same voice, as it came in."),
                io.String.Output(display_name="info", tooltip="What was saved, in one line."),
            ],
            is_output_node=True,
        )

    @classmethod
    def validate_inputs(cls, name: str | None = None) -> bool | str:
        return host.values.validate(host.voices.check_voice_name, name)

    @classmethod
    @host.values.guarded
    def execute(
        cls,
        voice: object,
        name: object,
        language: object = host.voices.AUTO,
        consent: object = "",
        overwrite: object = False,
    ) -> io.NodeOutput:
        given = host.values.checked(VoicePrompt, voice, "voice", "Reference Audio")
        return io.NodeOutput(given, host.voices.save_voice(given, name, language, consent, overwrite))


class LoadVoice(io.ComfyNode):
    """Node `OmniVoiceLoadVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceLoadVoice",
            display_name="OmniVoice Load Voice",
            category=CATEGORY,
            description="Loads a voice from models/omnivoice_voices. It speaks just as its recording did, without "
            "waiting.",
            search_aliases=["load speaker", "voice library", "saved voice"],
            inputs=[
                io.Combo.Input(
                    "voice_name",
                    options=host.voices.voice_names(),
                    tooltip="A voice in models/omnivoice_voices. Press R after adding or saving one.",
                ),
                Model.Input(
                    "model", optional=True, tooltip="From Load OmniVoice; only needed to listen to the preview."
                ),
            ],
            outputs=[
                Voice.Output(display_name="voice", tooltip="The voice, for Synthesize."),
                io.String.Output(display_name="transcript", tooltip="What its recording says."),
                # A STRING could not be linked to the menu of Synthesize.
                io.Combo.Output(
                    display_name="language", tooltip="The language it was saved with, for Synthesize; auto: none."
                ),
                io.String.Output(display_name="info", tooltip="Length, language and consent note, in one line."),
                io.Audio.Output(
                    display_name="preview", tooltip="The recording, decoded from the voice. Needs the model connected."
                ),
            ],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, voice_name: str | None = None) -> bool | str:
        return host.values.validate(host.voices.voice_file, voice_name)

    @classmethod
    def fingerprint_inputs(cls, voice_name: str | None = None, model: object = None) -> str:
        return host.voices.voice_fingerprint(voice_name)

    @classmethod
    @host.values.guarded
    def execute(cls, voice_name: object, model: object = None) -> io.NodeOutput:
        voice, info = host.voices.load_voice(voice_name)
        host.progress.tell(voice.warnings, cls.hidden.unique_id)
        language = voice.language or host.voices.AUTO
        return io.NodeOutput(voice, voice.text, language, info, host.voices.listen(model, voice))
