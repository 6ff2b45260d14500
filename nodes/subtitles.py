"""Subtitles: SRT or WebVTT to speech on the times of its cues."""

from __future__ import annotations

from comfy_api.latest import io

from ..omnivoice.generate.presets import PRESETS
from ..omnivoice.productions.subtitle_report import subtitle_report
from ..omnivoice.productions.subtitle_schedule import MODES, SubtitleOptions
from ..omnivoice.productions.subtitle_writer import srt_text
from . import host
from .inputs import subtitles as production
from .inputs.cast import cast_inputs
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
EXAMPLE = (
    "1\n00:00:00,500 --> 00:00:02,500\nThe weather is beautiful today.\n\n"
    "2\n00:00:03,000 --> 00:00:05,000\nMy sister is a very clever doctor.\n"
)
DEFAULTS = SubtitleOptions()


class Subtitles(io.ComfyNode):
    """Node `OmniVoiceSubtitles`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceSubtitles",
                inputs=[
                    Model.Input("model"),
                    io.String.Input("subtitles", multiline=True, default=EXAMPLE, dynamic_prompts=False),
                    io.Combo.Input("mode", options=[*MODES], default=DEFAULTS.mode, optional=True),
                    int_input("seed", 0, control_after_generate=True, optional=True),
                    io.Combo.Input("preset", options=[*PRESETS], default=PRESET, optional=True),
                    language_input(all_languages()),
                    float_input("total_seconds", DEFAULTS.total_seconds, 0.01, optional=True),
                    float_input("slowest_rate", DEFAULTS.slowest_rate, 0.05, optional=True),
                    Voice.Input("voice", optional=True),
                    Design.Input("design", optional=True),
                    Settings.Input("settings", optional=True),
                    Dictionary.Input("dictionary", optional=True),
                    *cast_inputs(),
                    int_input("retries", 0, optional=True),
                ],
                outputs=[
                    io.Audio.Output(display_name="audio"),
                    io.String.Output(display_name="subtitles"),
                    io.String.Output(display_name="report"),
                ],
                search_aliases=["srt", "vtt", "captions", "dubbing", "subtitle", "tts"],
                hidden=[io.Hidden.unique_id],
            )
        )

    @classmethod
    def validate_inputs(cls, subtitles: object = None, voices: object = None) -> bool | str:
        """Check the subtitles. ComfyUI wants a growing list named here, too; a node's `execute` checks it."""
        return production.validate_subtitles(subtitles)

    @classmethod
    @host.values.guarded
    def execute(cls, model: object, **inputs: object) -> io.NodeOutput:
        loaded = host.models.loaded(model)
        retries = inputs.pop("retries", 0)
        cues, cast, options = production.production_from(inputs, loaded.engine.rules)
        spoken = host.speech.speak_cues(loaded, cues, cast, options, retries, cls.hidden.unique_id)
        host.progress.warn(production.warnings_of(spoken), cls.hidden.unique_id, summary=production.summary(spoken))
        adjusted = srt_text([one.adjusted for one in spoken.spoken])
        return io.NodeOutput(host.values.audio_from(spoken.waveform), adjusted, subtitle_report(spoken))
