"""Spoken AI Notice: says before or after a recording that it was made with AI. `inputs.disclosure` does the work."""

from __future__ import annotations

from comfy_api.latest import io

from . import host
from .inputs import disclosure as inputs_of
from .widgets import Model, Voice, float_input, int_input, language_input, with_texts


class Disclose(io.ComfyNode):
    """Node `OmniVoiceDisclose`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        fixed = io.ControlAfterGenerate.fixed
        return with_texts(
            io.Schema(
                node_id="OmniVoiceDisclose",
                inputs=[
                    Model.Input("model"),
                    io.Audio.Input("audio"),
                    language_input(inputs_of.languages()),
                    io.String.Input("text", default="", dynamic_prompts=False, optional=True),
                    io.Combo.Input("place", options=[*inputs_of.PLACES], default=inputs_of.PLACE, optional=True),
                    float_input("gap_seconds", inputs_of.GAP, 0.05, optional=True),
                    int_input("seed", 0, control_after_generate=fixed, optional=True),
                    Voice.Input("voice", optional=True),
                ],
                outputs=[io.Audio.Output(display_name="audio"), io.Float.Output(display_name="start")],
                search_aliases=["disclosure", "disclaimer", "label ai", "ai act", "deepfake", "responsible use"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, audio: object, **inputs: object) -> io.NodeOutput:
        done = inputs_of.disclosed_from(model, audio, inputs, cls.hidden.unique_id)
        host.progress.warn(done.notice.warnings, cls.hidden.unique_id, summary=done.summary)
        return io.NodeOutput(host.values.audio_from(*done.recordings), done.start)
