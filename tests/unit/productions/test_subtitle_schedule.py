"""How much time each cue gets: exact samples for every mode and every kind of cue."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnivoice.errors import InputError
from omnivoice.productions.cues import Cue
from omnivoice.productions.subtitle_schedule import DEFAULT_REQUEST, MODES, SubtitleOptions, natural_samples, schedule
from omnivoice.types import Chunk, GenerationPlan, GenerationRequest

S = 24_000


def cue(start: float, end: float) -> Cue:
    return Cue(1, round(start * 1000), round(end * 1000), "x")


def slots(mode: str, times: list[tuple[float, float]], natural: list[float], **options: float):
    """[(start, room)] in seconds, and the length."""
    cues = [cue(*each) for each in times]
    end = max(cue.end_ms for cue in cues)
    found, length = schedule(cues, [round(n * S) for n in natural], end, SubtitleOptions(mode, **options))
    return [(slot.start / S, None if slot.room is None else slot.room / S) for slot in found], length / S


@pytest.mark.parametrize(
    "times, natural, expected",
    [
        ([(1, 3)], [2], [(1, 2.0)]),  # as long as its cue
        ([(1, 3)], [3], [(1, 2.0)]),  # squeezed
        ([(1, 3)], [1.5], [(1, 2.0)]),  # stretched
        ([(1, 9)], [2], [(1, 4.0)]),  # stretched to half its rate, then silence
        ([(1, 3), (3, 4)], [8, 1], [(1, 2.0), (3, 1.0)]),  # four times as fast
        ([(1, 2), (4, 5)], [8, 1], [(1, 3.0), (4, 1.0)]),  # too short: takes the gap
        ([(1, 1.01), (4, 5)], [2, 1], [(1, None), (4, 1.0)]),  # too short, and the gap is enough
        ([(1, 2), (2, 3)], [8, 1], [(1, 2.0), (2, 1.0)]),  # no gap: overlaps
        ([(0, 5), (5, 5.1)], [5, 4], [(0, 5.0), (4.1, 1.0)]),  # at the end: begins earlier
        ([(0, 1), (5, 5)], [1, 4], [(0, 1.0), (5, None)]),  # no end in the file, and nothing after it
        ([(1, 3), (2, 4)], [2, 2], [(1, 2.0), (2, 2.0)]),  # an overlap in the file stays
    ],
)
def test_fit(times: list, natural: list, expected: list) -> None:
    assert slots("fit", times, natural) == (expected, max(end for _, end in times))


@pytest.mark.parametrize("slowest, room", [(0.0, 8.0), (0.5, 4.0), (0.25, 8.0), (0.8, 2.5), (1.0, 2.0)])
def test_fit_stretches_no_further_than_the_slowest_rate(slowest: float, room: float) -> None:
    assert slots("fit", [(1, 9)], [2], slowest_rate=slowest) == ([(1, room)], 9)


@pytest.mark.parametrize(
    "times, natural, expected",
    [
        ([(1, 3)], [1], [(1, None)]),
        ([(1, 3)], [2], [(1, None)]),
        ([(1, 3)], [2.5], [(1, 2.0)]),  # nothing after it
        ([(1, 3), (4, 5)], [2.5, 1], [(1, None), (4, None)]),  # the gap is enough
        ([(1, 3), (4, 5)], [3.5, 1], [(1, 3.0), (4, None)]),  # squeezed into cue and gap
        ([(1, 3), (3, 4)], [20, 1], [(1, 5.0), (3, None)]),  # never more than four times as fast
        ([(1, 3), (2, 4)], [2.5, 1], [(1, 2.0), (2, None)]),  # its own time at least
    ],
)
def test_fill(times: list, natural: list, expected: list) -> None:
    assert slots("fill", times, natural)[0] == expected


@pytest.mark.parametrize("mode", ["fit", "fill"])
def test_fill_goes_up_to_the_given_total(mode: str) -> None:
    expected = {"fit": (1, 2.0), "fill": (1, None)}[mode]
    assert slots(mode, [(1, 3)], [4], total_seconds=6) == ([expected], 6)


def test_natural_leaves_all_lengths_open() -> None:
    assert slots("natural", [(1, 2), (2, 2), (2.5, 3)], [9, 9, 9], total_seconds=5) == (
        [(1, None), (2, None), (2.5, None)],
        5,
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_total_that_is_too_short_is_refused(mode: str) -> None:
    message = r"^total_seconds must be 0 or at least 3\.5, where the last cue ends, got 3$"
    with pytest.raises(InputError, match=message):
        slots(mode, [(1, 3.5)], [1], total_seconds=3)
    assert slots(mode, [(1, 3.5)], [1], total_seconds=3.5)[1] == 3.5


CUES = st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 5_000)), min_size=1, max_size=8)


@given(
    CUES, st.lists(st.integers(960, 400_000), min_size=8, max_size=8), st.sampled_from(["fit", "fill"]), st.booleans()
)
def test_every_slot_is_inside_and_none_is_too_fast(times: list, natural: list, mode: str, with_total: bool) -> None:
    cues = sorted((Cue(i, a, a + n, "x") for i, (a, n) in enumerate(times)), key=lambda one: one.start_ms)
    end = max(one.end_ms for one in cues)
    options = SubtitleOptions(mode, total_seconds=end / 1000 + 1 if with_total else 0)
    found, length = schedule(cues, natural[: len(cues)], end, options)
    assert length >= end * 24
    assert length == round(options.total_seconds * S) or not with_total
    for slot in found:
        assert slot.start >= 0
        if slot.room is not None:
            assert slot.start + slot.room <= length
            assert slot.room * 4 >= slot.natural or slot.room == length
        elif with_total:
            assert slot.start + slot.natural <= length


@pytest.mark.parametrize(
    "options, message",
    [
        (SubtitleOptions("squeeze"), "mode must be one of fit, natural, fill, got 'squeeze'"),
        (SubtitleOptions(total_seconds=-1), "total_seconds must be 0-14400, got -1"),
        (SubtitleOptions(total_seconds=float("nan")), "total_seconds must be 0-14400, got nan"),
        (SubtitleOptions(slowest_rate=2), "slowest_rate must be 0-1, got 2"),
        (
            SubtitleOptions(request=GenerationRequest("", speed=2.0)),
            "in mode fit the times of the cues decide the speed: leave it out, or choose another mode",
        ),
        (
            SubtitleOptions(request=GenerationRequest("", duration=2.0)),
            "the times of the cues decide their durations: leave out the duration",
        ),
    ],
)
def test_bad_options_are_refused(options: SubtitleOptions, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        options.checked()


def test_the_natural_length_of_a_plan() -> None:
    request = GenerationRequest("", pad_seconds=0.5)
    chunks = (Chunk("a", 10), Chunk("b", 20), Chunk("c", 5, pause_samples=100))
    plan = GenerationPlan(request, chunks, None, None, 1, tail_samples=7)
    assert natural_samples(plan) == 35 * 960 + 2400 + 100 + 7 + 24_000
    assert (DEFAULT_REQUEST.pad_seconds, DEFAULT_REQUEST.fade_seconds) == (0.0, 0.02)
