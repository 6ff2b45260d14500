"""Edit Speech: words of a recording are changed, inserted or deleted. `omnivoice.productions.edit` does the work."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.productions.edit_report import changed_lines
from . import host
from .inputs import edit as inputs_of
from .widgets import Model, Settings, all_languages, float_input, int_input, language_input, with_texts


class EditSpeech(io.ComfyNode):
    """Node `OmniVoiceEditSpeech`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceEditSpeech",
                inputs=[
                    Model.Input("model"),
                    io.Audio.Input("audio"),
                    io.String.Input("transcript", multiline=True, default="", dynamic_prompts=False, optional=True),
                    io.String.Input("new_transcript", multiline=True, default="", dynamic_prompts=False, optional=True),
                    int_input("seed", 0, control_after_generate=True, optional=True),
                    io.Combo.Input("quality", options=[*inputs_of.QUALITIES], default=inputs_of.QUALITY, optional=True),
                    io.Combo.Input("order", options=[*inputs_of.ORDERS], default=inputs_of.ORDER, optional=True),
                    io.String.Input("span", default="", optional=True),
                    float_input("seconds", 0.0, 0.04, limits="duration", optional=True, low=0),
                    language_input(all_languages()),
                    io.String.Input("timings", force_input=True, optional=True),
                    Settings.Input("settings", optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.String.Output(display_name="report"),
                    io.String.Output(display_name="text"),
                ],
                search_aliases=["speech inpainting", "fix a word", "correct speech", "replace words", "overdub"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, span: object = None) -> bool | str:
        """Check the span."""
        return inputs_of.validate_span(span)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, **inputs: object) -> io.NodeOutput:
        edited, warnings = inputs_of.edited_from(model, inputs, cls.hidden.unique_id)
        host.progress.warn(warnings, cls.hidden.unique_id, summary="\n".join(changed_lines(edited)))
        report = inputs_of.report(edited, warnings)
        return io.NodeOutput(host.values.audio_from(edited.waveform), report, edited.text)
