"""Long Text: a book or a chapter to one recording, kept part by part and heard while it is made."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS
from ..omnivoice.productions.timings import srt_of
from . import host
from .inputs import long_text as inputs_of
from .inputs.synthesize import PRESET
from .widgets import (
    Design,
    Dictionary,
    Model,
    Settings,
    Voice,
    all_languages,
    float_input,
    int_input,
    language_input,
    with_texts,
)

# Sentences that the demo voice can say.
TEXT = "# One\nThe weather is beautiful today.\n\n# Two\nMy sister is a very clever doctor."


class LongText(io.ComfyNode):
    """Node `OmniVoiceLongText`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceLongText",
                inputs=[
                    Model.Input("model"),
                    io.String.Input("text", multiline=True, default=TEXT, dynamic_prompts=False),
                    io.String.Input("name", default="long_text"),
                    int_input("seed", 0, control_after_generate=io.ControlAfterGenerate.fixed, optional=True),
                    io.Combo.Input("preset", options=[*PRESETS], default=PRESET, optional=True),
                    language_input(all_languages()),
                    float_input("speed", 1.0, 0.05, optional=True),
                    Voice.Input("voice", optional=True),
                    Design.Input("design", optional=True),
                    Settings.Input("settings", optional=True),
                    Dictionary.Input("dictionary", optional=True),
                    int_input("retries", 0, optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.String.Output(display_name="timings"),
                    io.String.Output(display_name="subtitles"),
                    io.String.Output(display_name="report"),
                ],
                search_aliases=["audiobook", "book", "article", "narrate", "long form", "chapters", "tts"],
                hidden=[io.Hidden.unique_id],
                is_output_node=True,
            )
        )

    @classmethod
    def validate_inputs(cls, name: object = None) -> bool | str:
        return host.values.validate(host.long_text.check_name, name)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, **inputs: object) -> io.NodeOutput:
        request, name, retries = inputs_of.request_from_inputs(inputs)
        loaded = host.models.loaded(model)
        spoken = host.long_text.speak(loaded, request, name, retries, cls.hidden.unique_id)
        host.progress.warn(spoken.warnings, cls.hidden.unique_id, summary=inputs_of.summary(spoken))
        return io.NodeOutput(
            host.values.audio_from(spoken.waveform),
            spoken.timings,
            srt_of(spoken.lines, loaded.engine.rules),
            inputs_of.report(spoken),
            ui=spoken.heard,
        )
