"""Timings: from the times that Dialogue reports to subtitles of lines or words, or to video frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from comfy_api.latest import io

from ..omnivoice.intake.limits import check_choice
from ..omnivoice.productions.timings import TimedLine, frames_json, parse_timings, srt_of
from . import host
from .widgets import float_input, with_texts

FORMATS: dict[str, Callable[[Sequence[TimedLine], float], str]] = {
    "subtitles of lines": lambda lines, fps: srt_of(lines),
    "subtitles of words": lambda lines, fps: srt_of(lines, words=True),
    "video frames of lines": frames_json,
    "video frames of words": lambda lines, fps: frames_json(lines, fps, words=True),
}


class Timings(io.ComfyNode):
    """Node `OmniVoiceTimings`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceTimings",
                inputs=[
                    io.String.Input("timings", force_input=True),
                    io.Combo.Input("format", options=[*FORMATS], default="subtitles of words"),
                    float_input("fps", 24.0, 0.001, optional=True),
                ],
                outputs=[io.String.Output(display_name="text")],
                search_aliases=["word timestamps", "srt", "captions", "lip sync", "keyframes"],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, timings: object, format: object = "subtitles of words", fps: float = 24.0) -> io.NodeOutput:
        convert = FORMATS[check_choice("format", format, FORMATS)]
        return io.NodeOutput(convert(parse_timings(timings), fps))
