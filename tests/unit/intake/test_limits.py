"""Every number from outside: type, finiteness, range, and the text of the refusal."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from omnivoice.errors import AudioError, InputError, TextError
from omnivoice.intake.limits import (
    LIMITS,
    MAX_AUDIO_SECONDS,
    check_audio_layout,
    check_audio_size,
    check_integer,
    check_number,
    check_run_length,
    check_text_length,
    shown,
    shown_size,
)
from omnivoice.productions.edit_places import parse_spans
from omnivoice.productions.redo import parse_redo

INTEGERS = [name for name, limit in LIMITS.items() if limit.integer]
REALS = [name for name, limit in LIMITS.items() if not limit.integer]
HOSTILE = [
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    10**5000,
    -(10**5000),
    Fraction(10**400),
    None,
    True,
    False,
    "2",
    "nan",
    "x" * 10**6,
    b"2",
    [2],
    {"a": 1},
    (2,),
    2j,
    object(),
    np.float64("nan"),
    np.float32("inf"),
    np.bool_(True),
    np.array(2),
    np.array([2]),
    torch.tensor(2),
    Decimal(2),
    "/srv/someone/secret",
    math.nextafter(-0.0, -1),
]
HOSTILE_TO_ANY = HOSTILE[:-1]  # just below 0 is in the range of a strength


def test_table_is_the_contract() -> None:
    ranges = {name: (limit.low, limit.high) for name, limit in LIMITS.items()}
    assert ranges == {
        "lora_alpha": (0, 10_000),
        "dropout": (0, 0.9),
        "training_steps": (1, 1_000_000),
        "learning_rate": (1e-7, 1),
        "share": (0, 1),
        "validation": (0, 0.5),
        "max_grad_norm": (0, 1_000),
        "batch_tokens": (1, 1_000_000),
        "batch_size": (1, 10_000),
        "grad_accumulation_steps": (1, 1_024),
        "every": (0, 1_000_000),
        "patience": (0, 1_000),
        "points": (0, 100),
        "steps": (1, 256),
        "guidance": (0, 10),
        "t_shift": (0.01, 10),
        "layer_penalty": (0, 100),
        "position_temperature": (0, 100),
        "class_temperature": (0, 10),
        "speed": (0.25, 4),
        "duration": (0, 600),
        "seed": (0, 2**64 - 1),
        "pad_seconds": (0, 10),
        "fade_seconds": (0, 10),
        "chunk_seconds": (3, 60),
        "chunk_threshold_seconds": (3, 120),
        "first_seconds": (0, 60),
        "context_seconds": (0, 30),
        "clips": (1, 10_000),
        "unconditional_every": (1, 64),
        "prefix_every": (1, 64),
        "strength": (-10, 10),
        "lora_rank": (1, 256),
        "gap_seconds": (0, 60),
        "total_seconds": (0, 14_400),
        "slowest_rate": (0, 1),
        "takes": (1, 16),
        "take": (0, 16),
        "retries": (0, 16),
        "seconds": (0, 86_400),
        "fps": (0.01, 1_000),
        "video_frames": (0, 86_400_000),
        "image_width": (256, 4_096),
        "image_height": (192, 2_160),
    }
    assert INTEGERS == [
        "steps",
        "unconditional_every",
        "prefix_every",
        "lora_rank",
        "training_steps",
        "batch_tokens",
        "batch_size",
        "grad_accumulation_steps",
        "every",
        "patience",
        "seed",
        "retries",
        "clips",
        "takes",
        "take",
        "video_frames",
        "image_width",
        "image_height",
    ]


def test_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        LIMITS["steps"] = LIMITS["seed"]  # type: ignore[index]


@pytest.mark.parametrize("name", LIMITS)
def test_hostile_values_are_refused_briefly(name: str) -> None:
    for value in HOSTILE if LIMITS[name].low >= 0 else HOSTILE_TO_ANY:
        with pytest.raises(InputError) as caught:
            check_number(name, value)
        assert str(caught.value).startswith(f"{name} must be ")
        assert len(str(caught.value)) < 200 and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", LIMITS)
def test_both_ends(name: str) -> None:
    limit = LIMITS[name]
    assert check_number(name, limit.high) == limit.high
    above: float = limit.high + 1 if limit.integer else math.nextafter(limit.high, math.inf)
    below: float = limit.low - 1 if limit.integer else math.nextafter(limit.low, -math.inf)
    for value in (above, below):
        with pytest.raises(InputError):
            check_number(name, value)
    if limit.above_low:
        with pytest.raises(InputError, match=rf"^{name} must be above 0 and at most {limit.high}, got 0$"):
            check_number(name, limit.low)
    else:
        assert check_number(name, limit.low) == limit.low


@pytest.mark.parametrize("name", REALS)
def test_reals_come_back_as_python_floats(name: str) -> None:
    inside = int(min(4, LIMITS[name].high))
    for kind in (int, float, np.float32, np.float64, np.int64, Fraction):
        number = check_number(name, kind(inside))
        assert type(number) is float and number == inside


@pytest.mark.parametrize("name", INTEGERS)
def test_whole_numbers_come_back_as_python_ints(name: str) -> None:
    inside = int(max(4, LIMITS[name].low))
    for value in (inside, np.int16(inside), np.uint64(inside)):
        assert type(check_number(name, value)) is int and check_integer(name, value) == inside
    for value in (4.0, np.float32(4), Fraction(4)):
        with pytest.raises(InputError, match=rf"^{name} must be a whole number"):
            check_integer(name, value)


def test_messages() -> None:
    with pytest.raises(InputError, match=r"^guidance must be 0-10, got 25$"):
        check_number("guidance", 25)
    with pytest.raises(InputError, match=r"^guidance must be 0-10, got nan$"):
        check_number("guidance", math.nan)
    with pytest.raises(InputError, match=r"^steps must be 1-256, got 1000000000$"):
        check_integer("steps", 10**9)
    with pytest.raises(InputError, match=r"^speed must be 0.25-4, got '/etc/passwd'$"):
        check_number("speed", "/etc/passwd")
    with pytest.raises(InputError, match=r"^seed must be 0-18446744073709551615, got a number of more than 30 digits$"):
        check_integer("seed", 10**5000)


def test_negative_zero_and_the_smallest_duration() -> None:
    assert check_number("guidance", -0.0) == 0
    assert check_number("duration", 5e-324) == 5e-324


def test_text_length() -> None:
    assert check_text_length("x" * 200_000) == "x" * 200_000
    with pytest.raises(TextError, match=r"^text must be at most 200000 characters, got 200001: split it"):
        check_text_length("x" * 200_001)
    with pytest.raises(TextError, match=r"^voice text must be a string, got dict$"):
        check_text_length({}, name="voice text")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 KB"),
        (1234, "1.23 KB"),
        (999_499, "999 KB"),
        (999_500, "1 MB"),
        (49_380_000, "49.4 MB"),
        (280_000_000, "280 MB"),
        (3_263_000_000, "3.26 GB"),
        (1_500_000_000_000, "1.5 TB"),
        (5 * 10**16, "50000 TB"),
    ],
)
def test_a_size_has_the_unit_that_shows_it(count: int, text: str) -> None:
    assert shown_size(count) == text


@pytest.mark.parametrize(
    ("limit", "count", "text"),
    [
        (1000, 2000, "2 KB"),
        (1_000_000, 1_000_001, "1.000001 MB"),
        (268_435_456, 268_435_457, "268.435457 MB"),
        (268_435_456, 294_000_000, "294 MB"),
        (5, 6, "6 bytes"),
        (7, 7, "7 bytes"),
    ],
)
def test_a_size_over_a_limit_never_looks_equal_to_it(limit: int, count: int, text: str) -> None:
    assert shown_size(count, unlike=limit) == text


def test_audio_limits() -> None:
    check_audio_size("a", MAX_AUDIO_SECONDS * 24_000, 1, 24_000)
    with pytest.raises(AudioError, match=r"^a must be at most 600 seconds long, got 601$"):
        check_audio_size("a", 601 * 24_000, 1, 24_000)
    with pytest.raises(AudioError, match=r"^a must be at most 268 MB decoded, got 369 MB: shorten it$"):
        check_audio_size("a", 60 * 192_000, 8, 192_000)
    for channels, rate in ((0, 24_000), (9, 24_000), (65_535, 24_000), (1, 3_999), (1, 384_001), (1, 0), (1, 2**32)):
        with pytest.raises(AudioError, match=r"^a must have "):
            check_audio_layout("a", channels, rate)
    assert check_audio_layout("a", 8, 384_000) == (8, 384_000)


def test_the_texts_of_a_run_are_counted_together() -> None:
    check_run_length(["a" * 250_000, "b" * 250_000, None, 3])
    check_run_length([])
    message = (
        "^all texts of one run together must be at most 500000 characters, got 500001: split them into several runs$"
    )
    with pytest.raises(TextError, match=message):
        check_run_length(iter(["a" * 250_000, "b" * 250_001]))


@pytest.mark.parametrize("read", [parse_redo, parse_spans])
@pytest.mark.parametrize("text", ["1=1 ", "1-2,", "\n", "=", "9"])
def test_lists_of_numbers_are_measured_before_they_are_read(read, text: str) -> None:
    with pytest.raises(TextError, match=r"(redo|span) must be at most 20000 characters, got \d+: split it into parts"):
        read(text * 20_001)


def test_shown_is_short_and_on_one_line() -> None:
    for value in [*HOSTILE, "a\nb\x1b[31m\u202e", "\ud800"]:
        text = shown(value)
        assert text.isprintable() and len(text) < 400


@pytest.mark.parametrize(
    "text", ["\u5c0f\u660e", "J\u00fcrgen", "\U0001f600 x", "\u0939\u093f\u0928\u094d\u0926\u0940"]
)
def test_shown_prints_characters(text: str) -> None:
    assert shown(text) == f"'{text}'"


@pytest.mark.parametrize(
    "char", "\n\x1b\x7f\x85\u00a0\u034f\u115f\u200b\u200d\u202e\u2028\u2066\u2800\u3164\ufeff\ud800\U000e0041"
)
def test_shown_escapes_what_cannot_be_seen(char: str) -> None:
    assert shown(f"a{char}b") == ascii(f"a{char}b")
