"""Save Voice and Load Voice: the voice library, models/omnivoice_voices."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from . import host
from .widgets import CATEGORY, Model, Voice, all_languages, language_input


class SaveVoice(io.ComfyNode):
    """Node `OmniVoiceSaveVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSaveVoice",
            display_name="OmniVoice Save Voice",
            category=CATEGORY,
            description="Saves a voice into models/omnivoice_voices, for Load Voice. Save only voices that you have "
            "permission to use: the recording can be restored from the file.",
            search_aliases=["save speaker", "voice library", "store voice"],
            is_input_list=True,
            inputs=[
                Voice.Input(
                    "voice",
                    tooltip="From Reference Audio, or the output voice of Synthesize. A list is saved completely or "
                    "not at all.",
                ),
                io.String.Input(
                    "name",
                    default="my voice",
                    tooltip="The name of the voice and of its file. A slash makes a subfolder: series/anna. Several "
                    "voices with one name are numbered: anna 1, anna 2.",
                ),
                language_input(
                    all_languages(), "The language of the recording. auto keeps the language that the voice has."
                ),
                io.String.Input(
                    "consent",
                    default="",
                    optional=True,
                    tooltip="Who allowed the use of this voice, when and for what. The note is kept in the file.",
                ),
                io.Boolean.Input(
                    "overwrite",
                    default=False,
                    optional=True,
                    tooltip="Replaces a voice of the same name. Other files are never replaced.",
                ),
            ],
            outputs=[
                Voice.Output(display_name="voice", tooltip="The same voice, unchanged.", is_output_list=True),
                io.String.Output(display_name="info", tooltip="One line about the saved voice.", is_output_list=True),
            ],
            is_output_node=True,
        )

    @classmethod
    def validate_inputs(cls, name: object = None) -> bool | str:
        return host.values.validate_each(host.voices.check_voice_name, name)

    @classmethod
    @host.values.guarded
    def execute(
        cls,
        voice: list[object],
        name: list[object],
        language: Sequence[object] = (None,),
        consent: Sequence[object] = (None,),
        overwrite: Sequence[object] = (None,),
    ) -> io.NodeOutput:
        given = host.values.only(overwrite, "overwrite")
        replace = False if given is None else given
        return io.NodeOutput(voice, host.voices.save_voices(voice, name, language, consent, replace))


class LoadVoice(io.ComfyNode):
    """Node `OmniVoiceLoadVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceLoadVoice",
            display_name="OmniVoice Load Voice",
            category=CATEGORY,
            description="Loads a voice from models/omnivoice_voices. It sounds exactly as when it was saved, and no "
            "recording has to be encoded.",
            search_aliases=["load speaker", "voice library", "saved voice"],
            inputs=[
                io.Combo.Input(
                    "voice_name",
                    options=host.voices.voice_names(),
                    tooltip="A voice in models/omnivoice_voices or its subfolders. Press R after you save or copy one.",
                ),
                Model.Input("model", optional=True, tooltip="From Load OmniVoice. Only the preview needs it."),
            ],
            outputs=[
                Voice.Output(display_name="voice", tooltip="The voice, for Synthesize."),
                io.String.Output(display_name="transcript", tooltip="The words spoken in its recording."),
                io.String.Output(
                    display_name="language",
                    tooltip="The language that the voice was saved with, for Synthesize, or auto.",
                ),
                io.String.Output(
                    display_name="info", tooltip="Length, codebooks, language, codec and consent note, in one line."
                ),
                io.Audio.Output(
                    display_name="preview", tooltip="The recording, decoded from the voice. Needs the input model."
                ),
            ],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, voice_name: object = None) -> bool | str:
        return host.values.validate(host.voices.find_voice, voice_name)

    @classmethod
    def fingerprint_inputs(cls, voice_name: object = None, model: object = None) -> str:
        return host.folders.fingerprint(host.voices.find_voice, voice_name)

    @classmethod
    @host.values.guarded
    def execute(cls, voice_name: object, model: object = None) -> io.NodeOutput:
        voice, info = host.voices.load_voice(voice_name)
        host.progress.warn(voice.warnings, cls.hidden.unique_id)
        language = voice.language or host.voices.AUTO
        return io.NodeOutput(voice, voice.text, language, info, host.voices.preview(model, voice))
