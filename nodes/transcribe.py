"""Transcribe: writes down what a recording says, with a Whisper model that the user has installed.

It is optional: the text of any other speech recognition node works as well.
"""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.intake.limits import check_switch
from ..omnivoice.productions.timings import timings_json
from ..omnivoice.text.languages import whisper_languages
from . import host
from .widgets import language_input, with_texts


class Transcribe(io.ComfyNode):
    """Node `OmniVoiceTranscribe`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceTranscribe",
                inputs=[
                    io.Audio.Input("audio"),
                    io.Combo.Input("model_name", options=host.transcribe.model_names()),
                    language_input(whisper_languages()),
                    io.Boolean.Input("word_times", default=False, optional=True),
                ],
                outputs=[
                    io.String.Output(display_name="transcript", is_output_list=True),
                    io.String.Output(display_name="timings", is_output_list=True),
                ],
                search_aliases=["asr", "speech to text", "whisper", "speech recognition", "transcript"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, model_name: object = None) -> bool | str:
        return host.values.validate(host.transcribe.model_folder, model_name)

    @classmethod
    def fingerprint_inputs(
        cls, audio: object = None, model_name: object = None, language: object = None, word_times: object = None
    ) -> str:
        return host.folders.fingerprint(host.transcribe.model_folder, model_name)

    @classmethod
    @host.values.guarded
    def execute(
        cls, audio: object, model_name: object, language: object = None, word_times: object = False
    ) -> io.NodeOutput:
        timed = check_switch("word_times", False if word_times is None else word_times)
        heard, warnings = host.transcribe.transcribe(audio, model_name, language, word_times=timed)
        host.progress.warn(warnings, cls.hidden.unique_id)
        return io.NodeOutput([one.text for one in heard], [timings_json(one.lines, one.seconds) for one in heard])
