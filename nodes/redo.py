"""Redo: words or lines of a recording are spoken again in several takes. `inputs.redo` chooses and reports."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .inputs import edit as edits
from .inputs import redo as inputs_of
from .widgets import Design, Model, Settings, Voice, all_languages, int_input, language_input, with_texts


class Redo(io.ComfyNode):
    """Node `OmniVoiceRedo`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceRedo",
                inputs=[
                    Model.Input("model"),
                    io.Audio.Input("audio"),
                    io.String.Input("transcript", multiline=True, default="", dynamic_prompts=False, optional=True),
                    io.String.Input("words", default="", optional=True),
                    io.String.Input("span", default="", optional=True),
                    io.String.Input("line", default="", optional=True),
                    int_input("seed", 0, control_after_generate=True, optional=True),
                    int_input("takes", inputs_of.COUNT, optional=True),
                    int_input("take", 0, optional=True),
                    io.Combo.Input("quality", options=[*edits.QUALITIES], default=edits.QUALITY, optional=True),
                    io.Combo.Input("order", options=[*edits.ORDERS], default=edits.ORDER, optional=True),
                    language_input(all_languages()),
                    io.String.Input("timings", force_input=True, optional=True),
                    Voice.Input("voice", optional=True),
                    Design.Input("design", optional=True),
                    Settings.Input("settings", optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.Audio.Output(display_name="takes", is_output_list=True),
                    io.String.Output(display_name="report"),
                    io.String.Output(display_name="timings"),
                ],
                search_aliases=["speak again", "retake", "regenerate words", "another take", "speech inpainting"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, span: object = None) -> bool | str:
        """Check the span."""
        return edits.validate_span(span)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, **inputs: object) -> io.NodeOutput:
        redone = inputs_of.redone_from(model, inputs, cls.hidden.unique_id)
        host.progress.warn(redone.warnings, cls.hidden.unique_id, summary=redone.summary)
        return io.NodeOutput(
            host.values.audio_from(redone.chosen),
            [host.values.audio_from(take) for take in redone.takes],
            redone.report,
            redone.timings,
        )
