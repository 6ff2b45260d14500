"""Seconds to Frames and Frames to Seconds: how many video frames an audio takes, and how long video frames last.

The arithmetic uses fractions: as floats, 2.2 s at 25 fps make 55.00000000000001 frames, which would round up to 56.
"""

from __future__ import annotations

import math
from fractions import Fraction

from comfy_api.latest import io

from ..omnivoice.intake.limits import check_choice, check_integer, check_number
from . import host
from .widgets import float_input, int_input, with_texts

ROUNDING = {"up": math.ceil, "nearest": lambda frames: math.floor(frames + Fraction(1, 2)), "down": math.floor}
# A remainder below this is the rounding error of a float: one sample lasts longer at every sample rate.
_SHORTEST_SECONDS = Fraction(1, 1_000_000)


class SecondsToFrames(io.ComfyNode):
    """Node `OmniVoiceSecondsToFrames`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceSecondsToFrames",
                inputs=[
                    float_input("seconds", 1.0, 0.01),
                    float_input("fps", 24.0, 0.001),
                    io.Combo.Input("rounding", options=[*ROUNDING], default="up"),
                ],
                outputs=[io.Int.Output(display_name="frames"), io.Float.Output(display_name="seconds")],
                search_aliases=["video length", "frame count", "fps", "duration to frames", "audio length"],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, seconds: object, fps: object, rounding: object = "up") -> io.NodeOutput:
        frames = frames_from_seconds(seconds, fps, rounding)
        return io.NodeOutput(frames, seconds_from_frames(frames, fps))


class FramesToSeconds(io.ComfyNode):
    """Node `OmniVoiceFramesToSeconds`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return with_texts(
            io.Schema(
                node_id="OmniVoiceFramesToSeconds",
                inputs=[int_input("frames", 24, limits="video_frames"), float_input("fps", 24.0, 0.001)],
                outputs=[io.Float.Output(display_name="seconds")],
                search_aliases=["video length", "frame count", "fps", "frames to duration", "video duration"],
            )
        )

    @classmethod
    @host.values.guarded
    def execute(cls, frames: object, fps: object) -> io.NodeOutput:
        return io.NodeOutput(seconds_from_frames(frames, fps))


def frames_from_seconds(seconds: object, fps: object, rounding: object = "up") -> int:
    """Return the number of video frames that `seconds` takes; raises InputError for a value out of range."""
    length, rate = Fraction(check_number("seconds", seconds)), Fraction(check_number("fps", fps))
    rounded = ROUNDING[check_choice("rounding", rounding, ROUNDING)]
    closest = round(length * rate)
    return closest if abs(closest / rate - length) < _SHORTEST_SECONDS else rounded(length * rate)


def seconds_from_frames(frames: object, fps: object) -> float:
    """Return how many seconds `frames` video frames last; raises InputError for a value out of range."""
    return float(check_integer("video_frames", frames, shown_as="frames") / Fraction(check_number("fps", fps)))
