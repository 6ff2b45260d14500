"""Subtitles as speech: every sample in its place, every number in the report measured, nothing lost."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

import pytest
import torch

from omnivoice.engine import Engine
from omnivoice.errors import InputError, NumericError, TextError
from omnivoice.productions.cast import Cast, Speaker
from omnivoice.productions.cue_output import CuesInMemory, CuesOnDisk
from omnivoice.productions.kept import KeptSpeech
from omnivoice.productions.parts import to_int16
from omnivoice.productions.placed_cues import heard
from omnivoice.productions.subtitle_parser import parse_subtitles
from omnivoice.productions.subtitle_report import not_spoken, subtitle_report
from omnivoice.productions.subtitle_schedule import DEFAULT_REQUEST, SubtitleOptions
from omnivoice.productions.subtitle_writer import srt_text
from omnivoice.productions.subtitles import SpokenSubtitles, speak_subtitles
from omnivoice.productions.takes import run_with_retries
from omnivoice.types import Sampling, VoicePrompt

REQUEST = replace(DEFAULT_REQUEST, seed=5, sampling=Sampling(steps=2), post_process=False)
TEXTS = ("Hello there.", "A text of some length.", "Good bye.")
FILE = """1
00:00:00,500 --> 00:00:02,000
Hello there.

2
00:00:02,100 --> 00:00:02,900
ALICE: A text of some length.

3
00:00:03,000 --> 00:00:03,500
[door slams]

4
00:00:04,000 --> 00:00:05,013
Alice: Good bye.
"""


@pytest.fixture(scope="module")
def engine(checkpoint) -> Engine:
    return Engine.load(checkpoint)


@pytest.fixture(scope="module")
def voices() -> tuple[VoicePrompt, VoicePrompt]:
    draw = torch.Generator().manual_seed(1)
    codes = [torch.randint(0, 1024, (8, 40), generator=draw) for _ in range(2)]
    return VoicePrompt(codes[0], "One voice.", 0.1), VoicePrompt(codes[1], "Another voice.", 0.1)


@pytest.fixture(scope="module")
def cast(voices) -> Cast:
    return Cast((Speaker("Alice", voices[1]),), Speaker("", voices[0]))


class Runs:
    """Counts the runs of an engine and what they speak."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.plans = engine, []

    def __call__(self, plans, *, on_step=None):
        self.plans.append(list(plans))
        return self.engine.generate_plans(plans, on_step=on_step)


def speak(engine: Engine, cast: Cast, mode: str, text: str = FILE, **options: object) -> SpokenSubtitles:
    given = {name: options.pop(name, None) for name in ("run", "on_step", "output")}
    how = SubtitleOptions(mode, request=options.pop("request", REQUEST), **options)
    return speak_subtitles(engine, parse_subtitles(text, cast.names), cast, how, **given)


def alone(engine: Engine, result: SpokenSubtitles, index: int) -> torch.Tensor:
    """The samples of one cue, spoken on its own."""
    one = result.spoken[index]
    request = result.cast.find(one.cue.speaker).request(REQUEST, one.cue.text)
    if one.slot.room is not None:
        request = replace(request, duration=one.slot.room / 24_000, exact_length=True)
    return engine.generate([request])[0].waveform.samples


@pytest.mark.parametrize(
    "mode, places",
    [
        ("fit", [(12_000, 48_000), (50_400, 69_600), (96_000, 120_312)]),
        ("fill", [(12_000, None), (50_400, 96_000), (96_000, None)]),
    ],
)
def test_every_cue_is_where_it_belongs_and_sounds_as_on_its_own(engine, cast, mode: str, places: list) -> None:
    result = speak(engine, cast, mode)
    output = result.waveform.samples
    assert output.shape == (1, 120_312)
    rest = output.clone()
    for i, (one, (start, end)) in enumerate(zip(result.spoken, places)):
        assert one.start == start
        assert one.end == (one.start + alone(engine, result, i).shape[1] if end is None else end)
        assert torch.equal(output[:, one.start : one.end], alone(engine, result, i))
        rest[:, one.start : one.end] = 0
    assert not rest.any()
    assert [one.voice for one in result.spoken] == ["", "Alice", "Alice"]


def test_natural_cues_wait_for_the_one_before(engine, cast) -> None:
    text = FILE.replace("00:00:04,000 --> 00:00:05,013", "00:00:02,200 --> 00:00:05,013")
    result = speak(engine, cast, "natural", text, total_seconds=30)
    assert result.waveform.samples.shape == (1, 720_000)
    end = 0
    for i, one in enumerate(result.spoken):
        samples = alone(engine, result, i)
        assert (one.start, one.slot.room) == (max(one.cue.start_ms * 24, end), None)
        assert torch.equal(result.waveform.samples[:, one.start : one.end], samples)
        end = one.end
    late = result.spoken[2]
    assert late.start == result.spoken[1].end > late.cue.start_ms * 24
    assert late.shift_seconds == pytest.approx(late.start / 24_000 - 2.2)
    named = [f"{one.cue.name} {one.shift_seconds:.2f} s" for one in result.spoken if one.shift_seconds]
    assert f"begin later, because the cue before goes on: {', '.join(named)}" in result.warnings


def test_natural_speech_that_goes_on_makes_the_output_longer_and_says_so(engine, cast) -> None:
    text = "1\n00:00:00,000 --> 00:00:00,100\nA text that takes some time.\n"
    for total in (0, 0.2):
        result = speak(engine, cast, "natural", text, total_seconds=total)
        length = result.waveform.samples.shape[1]
        assert length == result.spoken[0].end
        end, over = ("total_seconds", length - 4800) if total else ("the last cue", length - 2400)
        assert f"the speech goes on for {over / 24_000:.2f} s after {end}, so the output is longer" in result.warnings


@pytest.mark.parametrize("mode", ["fit", "natural", "fill"])
def test_the_reported_errors_are_those_in_the_output(engine, cast, mode: str) -> None:
    result = speak(engine, cast, mode, total_seconds=20)
    for one in result.spoken:
        part = result.waveform.samples[0, one.start : one.end].abs()
        loud = [i for i, value in enumerate((part > 0.01 * part.max()).tolist()) if value]
        assert (one.heard_start, one.heard_end) == (one.start + loud[0], one.start + loud[-1] + 1)
        assert one.start_error == pytest.approx((one.start + loud[0]) / 24_000 - one.cue.start_ms / 1000)
        assert one.end_error == pytest.approx((one.start + loud[-1] + 1) / 24_000 - one.cue.end_ms / 1000)


def test_rates_and_overflow(engine, cast) -> None:
    fit, natural = speak(engine, cast, "fit"), speak(engine, cast, "natural")
    squeezed, free = fit.spoken[1], natural.spoken[1]
    assert squeezed.rate == squeezed.slot.natural / 19_200 > 1.25
    assert squeezed.overflow_seconds == (squeezed.slot.natural - 19_200) / 24_000
    assert (free.rate, free.overflow_seconds) == (1, (free.end - free.start - 19_200) / 24_000)
    hurried = [f"{one.cue.name} {one.rate:.2f} times" for one in fit.spoken if one.rate >= 1.25]
    assert f"squeezed, as many times as fast as natural: {', '.join(hurried)}" in fit.warnings


@pytest.mark.parametrize(
    "samples, place",
    [
        ([0.0, 0, 0], (0, 0)),
        ([0, 1.0, 0], (1, 2)),
        ([0.01, 1, 0.011], (1, 3)),
        ([0.02, -1, 0], (0, 2)),
        ([1.0], (0, 1)),
    ],
)
def test_where_speech_is_heard(samples: list[float], place: tuple[int, int]) -> None:
    assert heard(torch.tensor(samples)) == place


def test_all_cues_are_one_run_and_batches_change_nothing(engine, cast, monkeypatch) -> None:
    runs = Runs(engine)
    together = speak(engine, cast, "fit", run=runs)
    assert [len(plans) for plans in runs.plans] == [3]
    monkeypatch.setattr(CuesInMemory, "batch_seconds", 0.0)
    apart = Runs(engine)
    assert torch.equal(speak(engine, cast, "fit", run=apart).waveform.samples, together.waveform.samples)
    assert [len(plans) for plans in apart.plans] == [1, 1, 1]


@pytest.mark.parametrize("batch_seconds", [600.0, 0.0])
def test_progress_covers_references_and_all_batches(engine, monkeypatch, batch_seconds: float) -> None:
    monkeypatch.setattr(CuesInMemory, "batch_seconds", batch_seconds)
    steps = []
    speak(engine, Cast((Speaker("Alice"),)), "fit", on_step=lambda *step: steps.append(step))
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (8, 8)  # a reference for Alice and three cues, two steps each


OVERLAPPING = "1\n00:00:01,000 --> 00:00:03,000\nOne.\n\n2\n00:00:02,000 --> 00:00:04,000\nTwo.\n\n"
OVERLAPPING += "3\n00:00:02,500 --> 00:00:02,900\nThree.\n\n4\n00:01:10,000 --> 00:01:11,000\nFour.\n"


@pytest.mark.parametrize("mode", ["fit", "natural", "fill"])
@pytest.mark.parametrize("text", [FILE, OVERLAPPING])
def test_from_the_disk_it_is_the_same_recording(engine, cast, tmp_path, mode: str, text: str) -> None:
    memory = speak(engine, cast, mode, text)
    kept = KeptSpeech(tmp_path / "parts", engine.generate_plans, model="m")
    output = CuesOnDisk(kept.speech_of)
    disk = speak(engine, cast, mode, text, run=kept, output=output)
    pieces = [*output.pieces()]
    assert all(piece.dtype == torch.int16 and len(piece) <= 60 * 24_000 for piece in pieces)
    whole = torch.cat(pieces)
    assert len(whole) == disk.samples == memory.samples
    assert int((whole - to_int16(memory.waveform.samples[0])).abs().max()) <= (1 if text == OVERLAPPING else 0)
    assert [(one.start, one.end) for one in disk.spoken] == [(one.start, one.end) for one in memory.spoken]
    assert disk.warnings == memory.warnings
    with pytest.raises(InputError, match=r"^this recording is on the disk: write it from the pieces of its output$"):
        assert disk.waveform
    kept.remove()
    with pytest.raises(InputError, match=r"^finished speech has disappeared from the disk: run the same command again"):
        list(output.pieces())


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_a_run_that_was_stopped_goes_on_and_gives_the_same_bytes(engine, tmp_path, monkeypatch, done: int) -> None:
    monkeypatch.setattr(CuesOnDisk, "batch_seconds", 0.0)
    cast = Cast((Speaker("Alice", design="female"),))

    def make(folder: str, run, **options) -> tuple[KeptSpeech, torch.Tensor]:
        kept = KeptSpeech(tmp_path / folder, run, model="m")
        output = CuesOnDisk(kept.speech_of)
        speak(engine, cast, "fill", run=kept, output=output, **options)
        return kept, torch.cat([*output.pieces()])

    class Stopped(Exception):
        pass

    class StopsAfter(Runs):
        def __call__(self, plans, *, on_step=None):
            if len(self.plans) == done + 1:  # the reference, and so many cues
                raise Stopped
            return super().__call__(plans, on_step=on_step)

    _, whole = make("whole", engine.generate_plans)
    with contextlib.suppress(Stopped):
        make("parts", StopsAfter(engine))
    runs, steps = Runs(engine), []
    kept, again = make("parts", runs, on_step=lambda *step: steps.append(step))
    assert (kept.read, len(runs.plans)) == (done + 1, 3 - done)
    assert torch.equal(again, whole)
    assert steps[-1] == (8, 8) if done < 3 else steps == []


def test_cancel_stops_between_steps(engine, cast) -> None:
    class Cancelled(Exception):
        pass

    def cancel(done: int, total: int) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        speak(engine, cast, "fit", on_step=cancel)


def test_a_speaker_without_a_voice_is_one_person(engine) -> None:
    runs = Runs(engine)
    result = speak(engine, Cast((Speaker("Alice", design="female"),)), "fit", run=runs)
    reference, cues = runs.plans
    assert [plan.request.text for plan in reference] == ["A text of some length.\nGood bye."]
    assert reference[0].request.design == "female"
    made = result.cast.find("Alice").voice
    assert [plan.request.voice is made for plan in cues] == [False, True, True]
    assert cues[0].request.voice is None  # it speaks once, and needs no reference
    again = speak(engine, Cast((Speaker("Alice", design="female"),)), "fit")
    assert torch.equal(again.waveform.samples, result.waveform.samples)


def test_cues_at_once_are_mixed_and_named(engine, cast) -> None:
    text = "1\n00:00:00,000 --> 00:00:02,000\nOne.\n\n2\n00:00:01,000 --> 00:00:03,000\nTwo.\n"
    result = speak(engine, cast, "fit", text, slowest_rate=0)
    parts = [alone(engine, result, i) for i in range(2)]
    mixed = torch.zeros(1, 72_000)
    mixed[:, :48_000] += parts[0]
    mixed[:, 24_000:] += parts[1]
    peak = float(mixed.abs().max())
    assert torch.equal(result.waveform.samples, mixed / peak if peak > 1 else mixed)
    assert "heard at the same time: cue 1 (line 2) and cue 2 (line 6)" in result.warnings


def test_a_sum_above_full_scale_is_lowered_and_named(engine, cast, monkeypatch) -> None:
    text = "1\n00:00:00,000 --> 00:00:02,000\nOne.\n\n2\n00:00:00,000 --> 00:00:02,000\nOne.\n"

    def loud(plans, *, on_step=None):
        speeches = engine.generate_plans(plans)
        return [replace(s, waveform=replace(s.waveform, samples=torch.full((1, 48_000), 0.75))) for s in speeches]

    result = speak(engine, cast, "fit", text, run=loud)
    assert result.waveform.samples.unique().tolist() == [1.0]
    assert "cues that are heard at once add up to a peak of 1.50: all was lowered to 1" in result.warnings


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("Wait [pause 5s] here", InputError, "cue 1 (line 2): duration must be at least 5.08 for this text, whose"),
        ("Wait [pause soon]", TextError, "cue 1 (line 2): the pause '[pause soon]' cannot be read"),
    ],
)
def test_a_cue_that_cannot_be_spoken_is_named_before_anything_runs(engine, cast, text, error, message: str) -> None:
    runs = Runs(engine)
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        speak(engine, cast, "fit", f"1\n00:00:00,000 --> 00:00:05,000\n{text}\n", run=runs)
    assert runs.plans == []


def test_a_file_of_sounds_alone_is_refused(engine, cast) -> None:
    with pytest.raises(InputError, match=r"^the subtitles have no cue to speak: all of them are descriptions, lyrics"):
        speak(engine, cast, "fit", "1\n00:00:00,000 --> 00:00:05,000\n[music]\n")


def test_speakers_and_the_cast_are_compared(engine, voices) -> None:
    cast = Cast((Speaker("Bob", voices[1]),), Speaker("", voices[0]))
    warnings = speak(engine, cast, "fit").warnings
    assert "not in the cast, so the default voice speaks their cues: 'ALICE' (1), 'Alice' (1)" in warnings
    assert "no cue is spoken by 'Bob'" in warnings


def test_the_adjusted_subtitles_have_the_times_of_the_speech(engine, cast) -> None:
    result = speak(engine, cast, "natural")
    again = parse_subtitles(srt_text([one.adjusted for one in result.spoken]), cast.names)
    assert [cue.text for cue in again.cues] == [one.cue.text for one in result.spoken]
    for cue, one in zip(again.cues, result.spoken):
        assert abs(cue.start_ms * 24 - one.start) <= 12
        assert abs(cue.end_ms * 24 - one.end) <= 12


def test_the_report_names_every_cue_and_everything_that_is_not_spoken(engine, cast) -> None:
    result = speak(engine, cast, "fit", FILE.replace("Hello there.", "♪ la ♪ Hello there."))
    report = subtitle_report(result)
    assert report.startswith("3 cues spoken, 1 not spoken, 5.013 s, mode fit, seed 5, 2 steps, guidance 2\n")
    for one in result.spoken:
        row = next(row for row in report.split("\n") if row.split()[:2] == [str(one.cue.number), str(one.cue.line)])
        _, _, start, end, natural, rate, overflow, shift, first, last, voice = row.split()
        assert (float(start), float(end)) == (round(one.start / 24_000, 3), round(one.end / 24_000, 3))
        assert float(natural) == pytest.approx(one.natural / 24_000, abs=0.005)
        assert float(rate) == pytest.approx(one.rate, abs=0.005)
        assert float(overflow) == pytest.approx(one.overflow_seconds, abs=0.005)
        assert float(shift) == pytest.approx(one.shift_seconds, abs=0.005)
        assert float(first) == pytest.approx(one.start_error, abs=0.0005)
        assert float(last) == pytest.approx(one.end_error, abs=0.0005)
        assert voice == (one.voice or "default")
    assert "not spoken (whole cues: 1):" in report
    assert "  cue 1 (line 2): ♪ la ♪: lyrics; the rest of the cue is spoken" in report
    assert "  cue 3 (line 10): [door slams]: a description of a sound" in report


@pytest.mark.parametrize("mode", ["natural", "fill"])
def test_a_speed_changes_the_natural_rate(engine, cast, mode: str) -> None:
    normal, fast = (speak(engine, cast, mode, request=replace(REQUEST, speed=speed)) for speed in (None, 2.0))
    for slow, quick in zip(normal.spoken, fast.spoken):
        assert abs(quick.slot.natural - slow.slot.natural / 2) <= 960
    assert not any("speed" in warning for warning in fast.warnings)


def test_cues_that_are_too_short_are_spoken_and_named(engine, cast) -> None:
    text = "1\n00:00:00,000 --> 00:00:00,010\nOne.\n\n2\n00:00:09,000 --> 00:00:09,000\nTwo.\n\n"
    text += "3\n00:00:09,010 --> 00:00:09,020\nThree.\n\n4\n00:00:09,900 --> 00:00:12,000\nFour.\n"
    result = speak(engine, cast, "fit", text)
    for i, one in enumerate(result.spoken[:3]):
        assert one.slot.natural <= 4 * (one.end - one.start)
        assert heard(alone(engine, result, i)[0]) != (0, 0)
    names = ", ".join(one.cue.name for one in result.spoken[:3])
    assert f"too short to be spoken, so their speech goes on after them: {names}" in result.warnings
    assert "heard at the same time: cue 2 (line 6) and cue 3 (line 10)" in result.warnings


def test_the_end_of_a_long_list_of_unspoken_texts_is_counted(engine, cast) -> None:
    text = FILE + "".join(f"\n{i}\n00:00:05,013 --> 00:00:05,013\n[noise {i}]\n" for i in range(5, 20))
    result = speak(engine, cast, "fit", text)
    lines = not_spoken(result, most=10)
    assert lines[0] == "not spoken (whole cues: 16):" and len(lines) == 12
    assert lines[-1] == "  and 6 more, which the report names"
    assert not_spoken(result, most=16) == not_spoken(result) and len(not_spoken(result)) == 17
    assert all(line in subtitle_report(result) for line in not_spoken(result))


@pytest.mark.parametrize("seed", [None, 9])
def test_the_seed_is_reported_and_repeats_the_speech(engine, cast, seed: int | None) -> None:
    first = speak(engine, cast, "fill", request=replace(REQUEST, seed=seed))
    assert seed in (None, first.seed)
    again = speak(engine, cast, "fill", request=replace(REQUEST, seed=first.seed))
    assert torch.equal(first.waveform.samples, again.waveform.samples)


def test_what_the_normalisation_changed_is_in_the_report(engine, cast) -> None:
    text = "1\n00:00:00,000 --> 00:00:04,000\nI have 3 cats here.\n"
    result = speak(engine, cast, "fit", text, request=replace(REQUEST, language="en", normalise=True))
    assert result.notes == ("normalised: “3” → “three”",)
    assert result.notes[0] in subtitle_report(result).split("\n")
    assert speak(engine, cast, "fit", text).notes == ()


@pytest.mark.parametrize("broken", [0, 2])
def test_a_cue_that_comes_out_as_nan_is_spoken_again_or_named(engine, cast, broken: int) -> None:
    def run(plans, *, on_step=None):
        if any((plan.request.text, plan.seed) == (TEXTS[broken], 5) for plan in plans):
            raise NumericError("it is NaN")
        return engine.generate_plans(plans, on_step=on_step)

    name = ("cue 1", "cue 2", "cue 4")[broken]
    with pytest.raises(NumericError, match=rf"^{name}[^:]*: .* cannot be spoken: seed 5: it is NaN$"):
        speak(engine, cast, "fit", run=run_with_retries(run, 0))
    result = speak(engine, cast, "fit", run=run_with_retries(run, 1))
    assert len(result.spoken) == 3
    rejected = [one for one in result.warnings if "seed 5 was rejected: it is NaN" in one]
    assert len(rejected) == 1 and rejected[0].startswith(name)
    assert rejected[0] in subtitle_report(result)


def test_what_is_wrong_with_the_speech_that_makes_a_voice_is_reported(engine) -> None:
    def run(plans, *, on_step=None):
        return [replace(one, warnings=(*one.warnings, "news")) for one in engine.generate_plans(plans, on_step=on_step)]

    result = speak(engine, Cast((Speaker("Alice"),), Speaker("")), "fit", run=run)
    assert "the voice of Alice: news" in result.warnings
