"""Lines of a finished recording spoken again: what stays bit for bit, the voice, the timings, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from omnivoice.engine import Engine
from omnivoice.errors import AudioError, InputError, TextError
from omnivoice.productions.lines import speech_level
from omnivoice.productions.redo_places import RedoRequest, place_of
from omnivoice.productions.redo_speech import RedoneLines, RedoTools, check_lines, parse_lines, redo_lines, redo_tools
from omnivoice.productions.timings import TimedLine, parse_timings, timings_json
from omnivoice.types import GenerationRequest, Sampling, VoicePrompt, Waveform

BASE = GenerationRequest("", language="en", seed=3, sampling=Sampling(steps=4))
LINES = (
    TimedLine("Good morning to you.", 0.2, 1.4, "A"),
    TimedLine("How are you today?", 1.7, 2.9, "B"),
    TimedLine("I am very well.", 3.2, 4.6, "A"),
)
SECONDS = 5.0


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


def recording(rate: int, channels: int = 1, floor: float = 0.0) -> Waveform:
    """Return tones that fill all but 0.1 s at each end of every line."""
    t = torch.arange(round(SECONDS * rate)) / rate
    sound = torch.zeros_like(t)
    for number, line in enumerate(LINES):
        inside = (t >= line.start + 0.1) & (t < line.end - 0.1)
        sound += inside * (0.1 + 0.05 * number) * torch.sin(2 * torch.pi * 200 * (number + 1) * t)
    samples = torch.stack([sound / (1 + c) for c in range(channels)])
    return Waveform(samples + floor * torch.randn(samples.shape, generator=torch.Generator().manual_seed(0)), rate)


def redo(engine: Engine, whole: Waveform, *numbers: int, takes: int = 1, **changes: object) -> list[RedoneLines]:
    request = replace(RedoRequest(whole, LINES, numbers, BASE), **changes)  # type: ignore[arg-type]
    return redo_lines(redo_tools(engine), request, takes)


@pytest.mark.parametrize(("rate", "channels"), [(24_000, 1), (44_100, 2), (8_000, 1), (48_000, 6)])
@pytest.mark.parametrize("floor", [0.0, 1e-4])
def test_everything_but_the_line_stays_bit_for_bit(engine: Engine, rate: int, channels: int, floor: float) -> None:
    whole = recording(rate, channels, floor)
    (take,) = redo(engine, whole, 1)
    (piece,) = take.replaced
    start, end = piece.place.start, piece.place.end
    assert (start, end) == (round(0.3 * rate), round(1.3 * rate))
    N, fade = whole.samples.shape[1], round(0.01 * rate)
    assert (piece.place.left, piece.place.right) == (fade, fade)
    assert take.waveform.sample_rate == rate
    assert take.waveform.samples.shape == (channels, N + piece.added)
    assert torch.equal(take.waveform.samples[:, : start - fade], whole.samples[:, : start - fade])
    assert torch.equal(take.waveform.samples[:, end + piece.added + fade :], whole.samples[:, end + fade :])
    assert not torch.equal(take.waveform.samples[:, start : start + 1000], whole.samples[:, start : start + 1000])


@pytest.mark.parametrize(("rate", "channels"), [(24_000, 1), (44_100, 2)])
def test_a_kept_length_moves_nothing(engine: Engine, rate: int, channels: int) -> None:
    whole = recording(rate, channels)
    (take,) = redo(engine, whole, 2, base=replace(BASE, design="female"), keep_length=True)
    (piece,) = take.replaced
    assert piece.added == 0 and take.waveform.samples.shape == whole.samples.shape
    assert torch.equal(take.waveform.samples[:, : piece.start - 500], whole.samples[:, : piece.start - 500])
    assert torch.equal(take.waveform.samples[:, piece.end + 500 :], whole.samples[:, piece.end + 500 :])
    assert [(line.start, line.end) for line in take.lines] == [(line.start, line.end) for line in LINES]


@pytest.mark.parametrize("numbers", [(1,), (2,), (3,), (1, 2), (3, 2)])
def test_later_lines_move_by_what_was_added(engine: Engine, numbers: tuple[int, ...]) -> None:
    voice = VoicePrompt(torch.zeros(8, 25, dtype=torch.int64), "A voice.", 0.1)
    whole = recording(44_100, 2)
    (take,) = redo(engine, whole, *numbers, base=replace(BASE, voice=voice))
    assert [piece.place.number for piece in take.replaced] == sorted(numbers)
    added = {piece.place.number: piece.added / 44_100 for piece in take.replaced}
    moved = 0.0
    for number, (old, new) in enumerate(zip(LINES, take.lines), 1):
        assert new.start == pytest.approx(old.start + moved)
        moved += added.get(number, 0.0)
        assert new.end == pytest.approx(old.end + moved)
    assert take.waveform.seconds == pytest.approx(SECONDS + moved)
    again = parse_timings(timings_json(take.lines, take.waveform.seconds))
    assert [line.text for line in again] == [line.text for line in LINES]
    for number in numbers:  # what was kept of later lines is where the timings say
        assert [word.word for word in again[number - 1].words] == LINES[number - 1].text.split()
    for number in {1, 2, 3} - set(numbers):
        old, new = place_of(whole, LINES, number), place_of(take.waveform, again, number)
        assert torch.equal(whole.samples[:, old.start : old.end], take.waveform.samples[:, new.start : new.end])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_level_is_that_of_the_old_line_in_each_channel(engine: Engine, number: int) -> None:
    voice = VoicePrompt(torch.zeros(8, 25, dtype=torch.int64), "A voice.", 0.1)
    whole = recording(44_100, 2)
    (take,) = redo(engine, whole, number, base=replace(BASE, voice=voice))
    (piece,) = take.replaced
    for channel in (0, 1):
        new = take.waveform.samples[channel : channel + 1, piece.start : piece.end]
        old = whole.samples[channel : channel + 1, piece.place.start : piece.place.end]
        level = speech_level([new]) / speech_level([old])
        assert 0.8 < level < 1.25 or float(new.abs().max()) > 0.98


def test_takes_have_seeds_in_a_row_and_the_same_seed_the_same_sound(engine: Engine) -> None:
    first, second = redo(engine, recording(24_000), 1, takes=2)
    (again,) = redo(engine, recording(24_000), 1, base=replace(BASE, seed=4))
    assert (first.seed, second.seed) == (3, 4)
    assert torch.equal(second.waveform.samples, again.waveform.samples)
    assert not torch.equal(first.waveform.samples, second.waveform.samples)


class Encoder:
    """Records what voices are made of."""

    def __init__(self) -> None:
        self.made: list[tuple[Waveform, str]] = []

    def __call__(self, waveform: Waveform, text: str) -> VoicePrompt:
        self.made.append((waveform, text))
        return VoicePrompt(torch.zeros(8, 25, dtype=torch.int64), text, 0.1)


def prepared_with(engine: Engine, lines: Sequence[TimedLine], number: int, *, single: bool) -> tuple[Encoder, str]:
    encoder, tools = Encoder(), redo_tools(engine)
    tools = RedoTools(encoder, tools.plan, tools.speak, tools.rules, single)
    (take,) = redo_lines(tools, RedoRequest(recording(24_000), lines, (number,), BASE))
    return encoder, take.prepared.voices[0]


@pytest.mark.parametrize("speaker", ["A", None])
def test_the_voice_is_that_of_the_speakers_other_lines(engine: Engine, speaker: str | None) -> None:
    lines = [
        TimedLine("One [pause 0.2s] two.", 0.2, 1.4, speaker),
        TimedLine("Three.", 1.7, 2.9, "B"),
        TimedLine("Four five.", 3.2, 3.8, speaker),
        TimedLine("Six.", 3.9, 4.6, speaker),
    ]
    encoder, source = prepared_with(engine, lines, 3, single=False)
    ((heard, text),) = encoder.made
    assert (source, text) == ("the voice of lines 1, 4", "One two. Six.")
    assert heard.seconds == pytest.approx(1.2 + 0.3 + 0.7)
    encoder, source = prepared_with(engine, lines, 3, single=True)
    assert (source, encoder.made[0][1]) == ("the voice of line 1", "One two.")


def test_a_given_voice_or_design_comes_first(engine: Engine) -> None:
    (take,) = redo(engine, recording(24_000), 1, base=replace(BASE, design="female"))
    assert take.prepared.voices == ("the given voice",) and take.prepared.plans[0].request.voice is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"numbers": ()}, "say which line to speak again, from 1 to 3"),
        ({"numbers": (0,)}, "line must be 1-3, the lines of the timings, got 0"),
        ({"numbers": (4,)}, "line must be 1-3, the lines of the timings, got 4"),
        ({"numbers": (-1,)}, "line must be 1-3"),
        ({"numbers": (True,)}, "line must be 1-3"),
        ({"numbers": (1.0,)}, "line must be 1-3"),
        ({"numbers": ("1",)}, "line must be 1-3"),
        ({"numbers": (1, 1)}, "line 1 is named twice"),
        ({"timings": ()}, "the timings have no lines"),
        ({"numbers": (2,)}, "line 2: no other line of 'B' of 0.5-60 s is in the recording to take the voice from"),
        ({"numbers": (1, 3)}, "line 1: no other line of 'A'"),
        ({"timings": (*LINES, TimedLine("Later.", 6.0, 7.0))}, "line 4 ends at 7.00 s, but the recording lasts 5.00 s"),
        ({"timings": (*LINES, TimedLine("Never.", float("nan"), 1.0))}, "the time of line 4"),
        ({"timings": (*LINES, TimedLine("Over.", 1.3, 1.8, "C"))}, "lines 1 and 4 sound at the same time"),
        ({"timings": (TimedLine("Nothing.", 0.0, 0.2), *LINES)}, "line 1 is silent in the recording"),
        ({"timings": (TimedLine("Nothing.", 5.0, 5.0), *LINES)}, "line 1 is silent in the recording"),
        ({"timings": (replace(LINES[0], text=" "), *LINES[1:])}, "line 1: "),
        ({"keep_length": "yes"}, "keep_length must be"),
        ({"recording": Waveform(torch.zeros(1, 0), 24_000)}, "the recording is empty"),
        ({"recording": Waveform(torch.full((1, 99), float("inf")), 24_000)}, "the recording must be finite"),
        ({"recording": Waveform(torch.zeros(1, 120_000), 24_000)}, "line 1 is silent in the recording"),
    ],
)
def test_what_is_refused_before_anything_is_spoken(engine: Engine, changes: dict[str, object], message: str) -> None:
    def speak(plans: object, /) -> list[object]:
        raise AssertionError("nothing may be spoken")

    tools = replace(redo_tools(engine), speak=speak)  # type: ignore[arg-type]
    request = replace(RedoRequest(recording(24_000), LINES, (1,), BASE), **changes)  # type: ignore[arg-type]
    with pytest.raises((InputError, AudioError, TextError)) as error:
        redo_lines(tools, request)
    assert message in str(error.value)


@pytest.mark.parametrize(("text", "numbers"), [("3", (3,)), (" 3, 7 ", (3, 7)), ("1 2", (1, 2))])
def test_numbers_of_lines_are_read(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_lines(text) == numbers


@pytest.mark.parametrize("text", ["", " ", "a", "-1", "1.5", "1-3", "²", "9" * 99, None, 3])
def test_what_is_no_number_of_a_line(text: object) -> None:
    with pytest.raises(InputError, match="line must be the number of a line, or several"):
        parse_lines(text)


def test_lines_that_touch_are_both_replaced(engine: Engine) -> None:
    lines = (replace(LINES[0], end=1.7), replace(LINES[1], start=1.7, end=3.2), LINES[2])
    base = replace(BASE, design="female")
    (take,) = redo_lines(redo_tools(engine), RedoRequest(recording(24_000), lines, (1, 2), base))
    assert take.waveform.samples.shape[1] == 120_000 + sum(piece.added for piece in take.replaced)
    assert check_lines((2, 1), 3) == [2, 1]


def test_the_numbers_of_lines_are_measured_before_they_are_read() -> None:
    with pytest.raises(TextError, match="line must be at most 20000 characters, got 20001"):
        parse_lines("1 " * 10_000 + "1")
