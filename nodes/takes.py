"""Takes: one text spoken several times with seeds in a row, and the one to use. `inputs.takes` chooses and reports."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS
from . import host
from .inputs import takes as inputs_of
from .inputs.synthesize import PRESET
from .synthesize import TEXT
from .widgets import Design, Dictionary, Model, Settings, Voice, all_languages, int_input, language_input, with_texts


class Takes(io.ComfyNode):
    """Node `OmniVoiceTakes`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceTakes",
                inputs=[
                    Model.Input("model"),
                    io.String.Input("text", multiline=True, default=TEXT, dynamic_prompts=False),
                    int_input("seed", 0, control_after_generate=True, optional=True),
                    int_input("takes", 4, optional=True),
                    int_input("take", 0, optional=True),
                    int_input("retries", 0, optional=True),
                    io.Combo.Input("preset", options=[*PRESETS], default=PRESET, optional=True),
                    language_input(all_languages()),
                    io.Combo.Input("whisper", options=inputs_of.whisper_names(), default=inputs_of.OFF, optional=True),
                    Voice.Input("voice", optional=True),
                    Design.Input("design", optional=True),
                    Settings.Input("settings", optional=True),
                    Dictionary.Input("dictionary", optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.Audio.Output(display_name="takes", is_output_list=True),
                    Voice.Output(display_name="voice"),
                    io.String.Output(display_name="report"),
                ],
                search_aliases=["variations", "retry", "best of", "several takes", "quality check", "seeds"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, whisper: object = None) -> bool | str:
        return host.values.validate(inputs_of.check_whisper, whisper)

    @classmethod
    def fingerprint_inputs(cls, whisper: object = None, **_: object) -> str:
        return (
            "" if whisper in (None, inputs_of.OFF) else host.folders.fingerprint(host.transcribe.model_folder, whisper)
        )

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, **inputs: object) -> io.NodeOutput:
        result = inputs_of.takes_from(model, inputs, cls.hidden.unique_id)
        host.progress.warn(result.warnings, cls.hidden.unique_id, summary=result.summary)
        return io.NodeOutput(
            host.values.audio_from(result.chosen.speech.waveform),
            [host.values.audio_from(take.speech.waveform) for take in result.shown],
            result.chosen.speech.voice,
            result.report,
        )
