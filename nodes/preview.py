"""Preview Text: what Synthesize will speak, without speaking and, unless one is connected, without a model."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .inputs import preview as inputs_of
from .widgets import Dictionary, Model, Settings, Voice, all_languages, float_input, language_input, with_texts


class PreviewText(io.ComfyNode):
    """Node `OmniVoicePreviewText`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoicePreviewText",
                inputs=[
                    io.String.Input("text", multiline=True, default=inputs_of.TEXT, dynamic_prompts=False),
                    language_input(all_languages()),
                    float_input("speed", 1.0, 0.05, optional=True),
                    float_input("duration", 0.0, 0.1, optional=True, low=0),
                    Voice.Input("voice", optional=True),
                    Settings.Input("settings", optional=True),
                    Dictionary.Input("dictionary", optional=True),
                    Model.Input("model", optional=True),
                ],
                outputs=[
                    io.String.Output(display_name="text"),
                    io.Float.Output(display_name="seconds"),
                    io.String.Output(display_name="report"),
                ],
                search_aliases=["normalise text", "chunks", "how long", "estimate", "dry run", "tts preview"],
                is_output_node=True,
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, text: object = None) -> bool | str:
        """Check the text."""
        return inputs_of.validate_text([text])

    @classmethod
    @host.values.guarded
    def execute(cls, **inputs: object) -> io.NodeOutput:
        plan, report = inputs_of.preview_from(inputs)
        summary = report.partition("\n")[0]
        host.progress.warn(plan.warnings, cls.hidden.unique_id, summary=summary)
        return io.NodeOutput(inputs_of.spoken_text(plan), inputs_of.estimated_seconds(plan), report)
