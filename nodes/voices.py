"""Save Voice and Load Voice: the voice library, models/omnivoice_voices."""

from __future__ import annotations

from collections.abc import Sequence

from comfy_api.latest import io

from . import host
from .widgets import Model, Voice, all_languages, language_input, with_texts


class SaveVoice(io.ComfyNode):
    """Node `OmniVoiceSaveVoice`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceSaveVoice",
                inputs=[
                    Voice.Input("voice"),
                    io.String.Input("name", default="my voice"),
                    language_input(all_languages()),
                    io.String.Input("consent", default="", optional=True),
                    io.Boolean.Input("overwrite", default=False, optional=True),
                ],
                outputs=[
                    Voice.Output(display_name="voice", is_output_list=True),
                    io.String.Output(display_name="info", is_output_list=True),
                ],
                search_aliases=["save speaker", "voice library", "store voice"],
                is_input_list=True,
                is_output_node=True,
            )
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
        return with_texts(
            io.Schema(
                node_id="OmniVoiceLoadVoice",
                inputs=[
                    io.Combo.Input("voice_name", options=host.voices.voice_names()),
                    Model.Input("model", optional=True),
                ],
                outputs=[
                    Voice.Output(display_name="voice"),
                    io.String.Output(display_name="transcript"),
                    io.String.Output(display_name="language"),
                    io.String.Output(display_name="info"),
                    io.Audio.Output(display_name="preview"),
                ],
                search_aliases=["load speaker", "voice library", "saved voice"],
                hidden=[io.Hidden.unique_id],
            )
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
