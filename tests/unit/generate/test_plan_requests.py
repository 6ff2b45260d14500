"""From request to plan: what is refused, what is warned of, and how many frames each chunk gets."""

import contextlib
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice import GenerationRequest, InputError, Sampling, TextError, VoiceDesign, VoicePrompt
from omnivoice.generate.chunks import _share
from omnivoice.generate.plan import CHUNKING, make_plan
from omnivoice.types import Chunk

UNEVEN = " [pause 0.01s] ".join(["a", "This is quite a bit longer than that, is it not, my old friend?"] * 50)
PAUSED = "Hello there. [pause 3s] I am fine. " * 10


def plan(text="Hello there, my friend.", **fields):
    return make_plan(GenerationRequest(text=text, **{"seed": 1, **fields}))


@given(st.lists(st.integers(1, 500), min_size=1, max_size=60), st.integers(0, 3000))
@settings(max_examples=300, deadline=None)
def test_shares_add_up_and_none_is_empty(estimates, spare):
    total = len(estimates) + spare
    shares = [chunk.frames for chunk in _share([Chunk("a", n) for n in estimates], total)]
    assert sum(shares) == total
    assert min(shares) >= 1
    for share, estimate in zip(shares, estimates):
        assert abs(share - 1 - spare * estimate / sum(estimates)) <= 1


def test_very_uneven_pieces_in_a_short_time():
    """99 pauses of 0.01 s and 100 pieces of at least a frame need 4.99 s; the tiny pieces must not eat the others."""
    frames = [chunk.frames for chunk in plan(UNEVEN, duration=6).chunks]
    assert len(frames) == 100
    assert sum(frames) == (6 * 24_000 - 99 * 240) // 960
    assert min(frames) >= 1


@pytest.mark.parametrize("chunking", ["sentences", "upstream"])
@pytest.mark.parametrize("exact", [True, False])
def test_a_duration_that_the_pauses_fill_is_refused(chunking, exact):
    with pytest.raises(InputError, match=r"duration must be at least 30\.44 .* pauses last 30 s, got 30: give more"):
        plan(PAUSED, duration=30, exact_length=exact, chunking=chunking)
    assert len(plan(PAUSED, duration=30.44, exact_length=exact, chunking=chunking).chunks) == 11


LENGTHS = {
    "a word": "Hello.",
    "a page": "Hello there, my friend. " * 80,
    "digits": "1" * 1_000,
    "marks": "a" + "\u0301" * 1_000,
    "pauses": "Hello there. [pause 30s] " * 20,
    "ten minutes": "Hello there, my friend. " * 400,
}


@pytest.mark.parametrize("text", LENGTHS.values(), ids=LENGTHS)
def test_whatever_the_lengths_a_run_is_within_the_limits_or_refused(text):
    """40 combinations each: no plan is longer than four hours and its pauses, no chunk is longer than ten minutes."""
    durations, speeds = (None, 5e-324, 0.01, 599.99, 600), (None, 0.25, 1, 4)
    for duration, speed, chunking in product(durations, speeds, CHUNKING):
        with contextlib.suppress(InputError):
            made = plan(text, duration=duration, speed=speed, chunking=chunking)
            frames = [chunk.frames for chunk in made.chunks]
            silence = sum(chunk.pause_samples for chunk in made.chunks) + made.tail_samples
            assert min(frames) >= 1 and max(frames) <= 600 * 25 and sum(frames) <= 4 * 3600 * 25
            assert silence <= 600 * 24_000
            if duration is not None and chunking == "sentences":  # upstream's frames may be more
                assert sum(frames) <= max(duration * 25, len(frames))


@pytest.mark.parametrize(
    "values",
    [
        *({"duration": value} for value in (0, -1, 1e9, 600.001, 1e308, 10**400, "5", True)),
        *({"speed": value} for value in (0, -1, 1e-9, 0.2499, 4.001, 1e308, "1", False)),
        *({name: value} for name in ("duration", "speed") for value in (float("nan"), float("inf"), float("-inf"))),
    ],
    ids=repr,
)
def test_lengths_and_speeds_out_of_range_are_refused(values):
    with pytest.raises(InputError, match="must be"):
        plan(**values)


def test_more_than_four_hours_are_refused():
    text = "Hello there, my friend. " * 3_000
    assert 3600 * 25 < sum(chunk.frames for chunk in plan(text).chunks) < 4 * 3600 * 25
    with pytest.raises(TextError, match=r"^the text would take \d+\.\d hours to speak, at most 4 are allowed"):
        plan(text, speed=0.25)


def test_one_endless_chunk_is_refused():
    with pytest.raises(TextError, match=r"would be \d+ s long, at most 600 s are allowed: use chunking=\"sentences\""):
        plan("a" * 100_000, chunking="upstream")
    assert max(chunk.frames for chunk in plan("a" * 100_000).chunks) <= 375


def test_a_transcript_without_a_word_has_no_rate():
    codes = torch.zeros(8, 75, dtype=torch.long)
    frames = [plan(voice=VoicePrompt(codes, text, 0.1)).chunks[0].frames for text in (".", "  \n", "\u0301", "")]
    assert set(frames) == {plan().chunks[0].frames}


@pytest.mark.parametrize("name", ["exact_length", "denoise", "post_process"])
@pytest.mark.parametrize("value", ["false", None, 0, 1, np.True_])
def test_switches_are_true_or_false(name, value):
    with pytest.raises(InputError, match=f"{name} must be True or False, got"):
        plan(**{name: value})


def test_numbers_become_pythons_own():
    """numpy's float16 overflows at 3 s in samples, and tensors do not multiply by a Fraction."""
    sampling = Sampling(steps=np.int64(4), guidance=Fraction(3, 2), class_temperature=np.float32(0.5))
    request = plan(
        duration=np.float16(3),
        exact_length=True,
        seed=np.uint64(2**64 - 1),
        sampling=sampling,
        pad_seconds=np.float16(3),
    )
    assert request.target_samples == 72_000
    assert request.seed == 2**64 - 1
    numbers = [request.seed, request.request.duration, request.request.pad_seconds]
    numbers += [getattr(request.request.sampling, name) for name in ("steps", "guidance", "class_temperature")]
    assert [type(number) for number in numbers] == [int, float, float, int, float, float]


def test_an_exact_length_of_no_sample_is_refused():
    with pytest.raises(InputError, match=r"duration must be at least one sample, 1/24000 s, got 1e-09"):
        plan(duration=1e-9, exact_length=True)


def test_a_speed_beside_a_duration_is_told():
    assert "speed 2 has no effect" in plan(speed=2, duration=3).warnings[0]
    assert plan(speed=1, duration=3).warnings == plan(duration=3).warnings == plan(speed=2).warnings == ()


@pytest.mark.parametrize("attributes", ["female", None, 5, {"female"}])
def test_a_design_takes_words_in_a_row(attributes):
    with pytest.raises(InputError, match="VoiceDesign takes words as"):
        VoiceDesign(attributes)
    assert VoiceDesign(["female"]) == VoiceDesign(("female",))


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0, 4.0])
def test_speed_counts_once_in_every_chunk(speed):
    """Upstream applies it twice where the first chunk is the voice of the others (models/omnivoice.py:957-1020)."""
    text = "This is a sentence of some length, which takes a while to say. " * 40
    normal = sum(chunk.frames for chunk in plan(text, chunk_threshold_seconds=10).chunks)
    chunks = plan(text, chunk_threshold_seconds=3, chunk_seconds=20, speed=speed).chunks
    assert len(chunks) >= 2
    assert sum(chunk.frames for chunk in chunks) == pytest.approx(normal / speed, rel=0.02)
    upstream = plan(text, chunk_threshold_seconds=3, chunk_seconds=20, speed=speed, chunking="upstream").chunks
    rates = [chunk.frames / len(chunk.text) for chunk in upstream]
    assert rates[1] == pytest.approx(rates[0] / speed, rel=0.1)


def test_a_language_of_ones_own_is_taken_with_one_warning():
    own = plan(language="id:la")
    assert own.language == "la"
    (told,) = own.warnings
    assert told.startswith("la: not a language of OmniVoice")
    assert plan(language="id:en") == replace(plan(language="en"), request=plan(language="id:en").request)
