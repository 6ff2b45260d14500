"""Seconds to Frames and Frames to Seconds: exact for every length that audio can have."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MODES = ("up", "nearest", "down")


@pytest.fixture
def to_frames(nodes):
    return lambda *values: nodes["OmniVoiceSecondsToFrames"].execute(*values).values


@pytest.fixture
def to_seconds(nodes):
    return lambda *values: nodes["OmniVoiceFramesToSeconds"].execute(*values).values[0]


@pytest.mark.parametrize(
    "seconds, fps, rounding, frames",
    [
        (2.0, 25, "up", 50),
        (2.2, 25, "up", 55),  # 55.00000000000001 as floats
        (0.28, 25.0, "up", 7),
        (2.01, 25, "up", 51),
        (2.01, 25, "nearest", 50),
        (2.02, 25, "nearest", 51),  # a half rounds up
        (2.039, 25, "down", 50),
        (0.1 + 0.2, 10.0, "up", 3),
        (5 / 3, 30.0, "up", 50),
        (1001 / 24000 * 7, 24000 / 1001, "up", 7),
        (10.0, 23.976, "up", 240),
        (10.0, 23.976, "down", 239),
        (0, 24.0, "up", 0),
        (1 / 48_000, 24.0, "up", 1),  # one sample needs a frame
        (0.001, 24.0, "down", 0),
        (86_400, 1000, "up", 86_400_000),
    ],
)
def test_frames(to_frames, seconds: float, fps: float, rounding: str, frames: int) -> None:
    found, exact = to_frames(seconds, fps, rounding)
    assert (found, type(found)) == (frames, int)
    assert exact == pytest.approx(frames / fps, rel=1e-15)


def test_rounding_up_is_the_default(nodes, to_frames) -> None:
    assert to_frames(2.01, 25)[0] == 51
    assert nodes["OmniVoiceSecondsToFrames"].define_schema().inputs[2].default == "up"


@pytest.fixture(scope="module")
def timing(loaded_pack):
    return __import__("sys").modules[f"{loaded_pack.package.__name__}.nodes.timing"]


@given(frames=st.integers(0, 2_000_000), fps=st.floats(0.1, 1000), mode=st.sampled_from(MODES))
@settings(deadline=None)
def test_there_and_back(timing, frames: int, fps: float, mode: str) -> None:
    """Whatever the rate and rounding, the seconds of n frames take n frames."""
    seconds = timing.seconds_from_frames(frames, fps)
    if seconds <= 86_400:
        assert timing.frames_from_seconds(seconds, fps, mode) == frames


@given(samples=st.integers(1, 10**9), rate=st.sampled_from([16_000, 22_050, 24_000, 44_100, 48_000]))
@settings(deadline=None)
def test_up_always_covers_the_audio(timing, samples: int, rate: int) -> None:
    seconds = samples / rate
    if seconds <= 86_400:
        assert (
            timing.frames_from_seconds(seconds, 25, "up") == math.ceil(samples * 25 / rate) == -(-samples * 25 // rate)
        )


TOO_LARGE = 86_400_001
BAD = [
    ("OmniVoiceSecondsToFrames", "seconds", [None, "2", True, -0.1, 86_401.0, math.nan, math.inf, [2.0]]),
    ("OmniVoiceSecondsToFrames", "fps", [None, "25", False, 0, -25.0, 1001.0, math.nan]),
    ("OmniVoiceSecondsToFrames", "rounding", [None, "sideways", 1, ["up"]]),
    ("OmniVoiceFramesToSeconds", "frames", [None, 1.5, 2.0, "3", True, -1, TOO_LARGE]),
    ("OmniVoiceFramesToSeconds", "fps", [None, "25", 0, math.nan]),
]
GOOD = {
    "OmniVoiceSecondsToFrames": {"seconds": 1.0, "fps": 24.0, "rounding": "up"},
    "OmniVoiceFramesToSeconds": {"frames": 24, "fps": 24.0},
}


@pytest.mark.parametrize("node, name, value", [(node, name, v) for node, name, bad in BAD for v in bad], ids=repr)
def test_bad_values_are_refused_by_name(nodes, node: str, name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        nodes[node].execute(**{**GOOD[node], name: value})


def test_the_table_of_bad_values_has_every_input(nodes) -> None:
    listed = [(node, i.id) for node in GOOD for i in nodes[node].define_schema().inputs]
    assert listed == [(node, name) for node, name, _ in BAD]
