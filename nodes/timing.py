"""Seconds to Frames and Frames to Seconds: how many video frames an audio takes, and how long video frames last.

The arithmetic uses fractions: as floats, 2.2 s at 25 fps make 55.00000000000001 frames, which would round up to 56.
"""

from __future__ import annotations

import math
from fractions import Fraction

from comfy_api.latest import io

from ..omnivoice.intake.limits import LIMITS, check_choice, check_integer, check_number
from . import host
from .widgets import CATEGORY, float_input

ROUNDING = {"up": math.ceil, "nearest": lambda frames: math.floor(frames + Fraction(1, 2)), "down": math.floor}
# A remainder below this is the rounding error of a float: one sample lasts longer at every sample rate.
_SHORTEST_SECONDS = Fraction(1, 1_000_000)
_FPS_TOOLTIP = "Frame rate of the video, in frames per second. Fractions such as 23.976 are fine."


class SecondsToFrames(io.ComfyNode):
    """Node `OmniVoiceSecondsToFrames`."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="OmniVoiceSecondsToFrames",
            display_name="OmniVoice Seconds to Frames",
            category=CATEGORY,
            description="Computes how many video frames a number of seconds takes, for example to make a video as long "
            "as its speech.",
            search_aliases=["video length", "frame count", "fps", "duration to frames", "audio length"],
            inputs=[
                float_input(
                    "seconds", 1.0, 0.01, "The length in seconds. Connect the output seconds of Synthesize here."
                ),
                float_input("fps", 24.0, 0.001, _FPS_TOOLTIP),
                io.Combo.Input(
                    "rounding",
                    options=list(ROUNDING),
                    default="up",
                    tooltip="What to do with a part of a frame. up: the video is never shorter than the audio. "
                    "nearest: the closest number of frames. down: the video is never longer than the audio.",
                ),
            ],
            outputs=[
                io.Int.Output(display_name="frames", tooltip="The number of video frames."),
                io.Float.Output(display_name="seconds", tooltip="The exact length of that many frames, in seconds."),
            ],
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
        limit = LIMITS["video_frames"]
        return io.Schema(
            node_id="OmniVoiceFramesToSeconds",
            display_name="OmniVoice Frames to Seconds",
            category=CATEGORY,
            description="Computes how many seconds a number of video frames lasts, for example to make speech exactly "
            "as long as a video.",
            search_aliases=["video length", "frame count", "fps", "frames to duration", "video duration"],
            inputs=[
                io.Int.Input(
                    "frames", default=24, min=int(limit.low), max=int(limit.high), tooltip="The number of video frames."
                ),
                float_input("fps", 24.0, 0.001, _FPS_TOOLTIP),
            ],
            outputs=[
                io.Float.Output(
                    display_name="seconds",
                    tooltip="The length in seconds. Connect it to duration of Synthesize, with exact_length on.",
                )
            ],
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
