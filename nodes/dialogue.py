"""Dialogue: a script and a cast of named voices to one recording. `omnivoice.productions.dialogue` does the work."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS
from ..omnivoice.productions.timings import srt_of, timed_lines, timings_json
from . import host
from .inputs import dialogue as inputs_of
from .inputs.cast import cast_inputs
from .inputs.synthesize import PRESET
from .widgets import Dictionary, Model, Settings, all_languages, float_input, int_input, language_input, with_texts

SCRIPT = "Anna: Hello Peter, nice to meet you.\nPeter: Good morning Anna, how are you?"  # what the demo voice can say


class Dialogue(io.ComfyNode):
    """Node `OmniVoiceDialogue`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceDialogue",
                inputs=[
                    Model.Input("model"),
                    io.String.Input("script", multiline=True, default=SCRIPT, dynamic_prompts=False),
                    *cast_inputs("Anna\nPeter"),
                    int_input("seed", 0, control_after_generate=True, optional=True),
                    io.Combo.Input("preset", options=[*PRESETS], default=PRESET, optional=True),
                    language_input(all_languages()),
                    float_input("gap_seconds", inputs_of.DEFAULTS.gap_seconds, 0.05, optional=True),
                    float_input(
                        "change_seconds", inputs_of.DEFAULTS.change_seconds, 0.05, limits="gap_seconds", optional=True
                    ),
                    io.Boolean.Input("equal_loudness", default=inputs_of.DEFAULTS.equal_loudness, optional=True),
                    Settings.Input("settings", optional=True),
                    Dictionary.Input("dictionary", optional=True),
                    io.String.Input("redo", default="", optional=True),
                    int_input("retries", 0, optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.Audio.Output(display_name="lines", is_output_list=True),
                    io.String.Output(display_name="timings"),
                    io.String.Output(display_name="subtitles"),
                    io.String.Output(display_name="report"),
                ],
                search_aliases=["conversation", "podcast", "multi speaker", "script", "characters", "audio drama"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, voices: object = None) -> bool:
        """ComfyUI asks for this where a node has a growing list; `execute` checks the voices."""
        return True

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, **inputs: object) -> io.NodeOutput:
        dialogue = inputs_of.dialogue_from(model, inputs, cls.hidden.unique_id)
        host.progress.warn(dialogue.warnings, cls.hidden.unique_id, summary=inputs_of.summary(dialogue))
        rules = host.models.loaded(model).engine.rules
        timed = timed_lines(dialogue.lines, rules)
        return io.NodeOutput(
            host.values.audio_from(dialogue.waveform),
            inputs_of.audio_of(dialogue.lines),
            timings_json(timed, dialogue.waveform.seconds),
            srt_of(timed, rules),
            inputs_of.report(dialogue),
        )
