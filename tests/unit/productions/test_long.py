"""Long texts: the same bytes after a stop at any part, level, places, chapters, and early sound."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from omnivoice.constants import SAMPLE_RATE
from omnivoice.errors import InputError, NumericError, TextError
from omnivoice.generate.plan import make_plan
from omnivoice.productions.lines import speech_level
from omnivoice.productions.long import MadePart, Progress, samples_of, speak_long
from omnivoice.productions.long_plan import FIRST_SECONDS, plan_long
from omnivoice.productions.parts import Part, PartStore
from omnivoice.productions.takes import SpeakWithRetries, with_seed
from omnivoice.types import GenerationPlan, GenerationRequest, Speech, VoicePrompt, Waveform

SENTENCE = "It was a long and quite remarkable sentence about the weather of number {}. "
TEXT = "".join(SENTENCE.format(i) for i in range(40))
LONG_TEXT = "".join(SENTENCE.format(i) for i in range(2010, 2051))  # a year surely ends a sentence


class Stopped(Exception):
    """A cancel."""


class FakeSpeech:
    """Speaks a plan as noise that depends on all that should decide it; stops after `parts` of them."""

    def __init__(self, parts: int = 1_000_000) -> None:
        self.batches: list[int] = []
        self.plans: list[GenerationPlan] = []
        self.left = parts

    def __call__(self, plans: Sequence[GenerationPlan], /) -> list[Speech]:
        self.batches.append(len(plans))
        self.plans += plans
        self.left -= len(plans)
        if self.left < 0:
            raise Stopped
        return [self._speak(plan) for plan in plans]

    def _speak(self, plan: GenerationPlan) -> Speech:
        (chunk,), voice = plan.chunks, plan.request.voice
        codes = torch.full((8, 10), plan.seed % 1000)
        key = f"{chunk.text} {plan.seed} {None if voice is None else (voice.codes.tolist(), voice.text)}"
        generator = torch.Generator().manual_seed(int(hashlib.sha256(key.encode()).hexdigest()[:8], 16))
        loudness = 0.06 + 0.05 * float(torch.rand(1, generator=generator))
        samples = loudness * (2 * torch.rand(1, 100 * chunk.frames, generator=generator) - 1)
        made = voice or VoicePrompt(codes, chunk.text, 0.1)
        return Speech(Waveform(samples, SAMPLE_RATE), (codes,), (chunk.text,), 1.0, plan.seed, made)


def plan(requests: Sequence[GenerationRequest], /) -> list[GenerationPlan]:
    return [make_plan(request) for request in requests]


def spoken(
    folder: Path, text: str = TEXT, *, stop_after: int = 1_000_000, voice: VoicePrompt | None = None, seed: int = 3
) -> tuple[list[MadePart], Tensor, FakeSpeech]:
    """Return the parts, the whole recording and the speech that made them."""
    fake, store = FakeSpeech(stop_after), PartStore(folder)
    long = plan_long(GenerationRequest(text, voice=voice, seed=seed), plan)
    made = speak_long(long, fake, store, model="m")
    return made, torch.cat(list(samples_of(made, store, tail=long.tail))), fake


VOICE = VoicePrompt(torch.full((8, 20), 5), "This is a voice.", 0.1)


@pytest.mark.parametrize("voice", [None, VOICE])
@pytest.mark.parametrize("stop_after", [0, 1, 3, 7])
def test_a_stopped_run_gives_the_same_bytes(tmp_path: Path, voice: VoicePrompt | None, stop_after: int) -> None:
    made, whole, once = spoken(tmp_path / "a", voice=voice)
    with pytest.raises(Stopped):
        spoken(tmp_path / "b", voice=voice, stop_after=stop_after)
    again, resumed, twice = spoken(tmp_path / "b", voice=voice)
    assert torch.equal(whole, resumed)
    assert [(part.start, part.end, part.key) for part in made] == [(part.start, part.end, part.key) for part in again]
    assert sum(part.is_new for part in again) == sum(twice.batches) <= sum(once.batches) == len(made)
    assert sum(twice.batches) == len(made) - {0: 0, 1: 1, 3: 3, 7: 7}[stop_after]


def test_a_finished_text_is_not_spoken_again(tmp_path: Path) -> None:
    spoken(tmp_path)
    _, _, fake = spoken(tmp_path)
    assert fake.batches == []


@pytest.mark.parametrize("damage", ["cut", "foreign", "one byte"])
def test_a_damaged_part_is_made_again(tmp_path: Path, damage: str) -> None:
    made, whole, _ = spoken(tmp_path)
    path = tmp_path / f"{made[2].key}.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes({"cut": data[: len(data) // 2], "foreign": b"hello", "one byte": data}[damage])
    _, again, fake = spoken(tmp_path)
    assert sum(fake.batches) == 1
    assert torch.equal(whole, again)


@pytest.mark.parametrize("fault", ["unreadable", "gone", "cut"])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_part_that_cannot_be_read_back_is_an_error_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, number: int
) -> None:
    """It used to be a failed assertion."""
    _, whole, _ = spoken(tmp_path / "a")
    write, count = PartStore.write, list[str]()

    def faulty(self: PartStore, key: str, part: Part) -> None:
        write(self, key, part)
        count.append(key)
        path = tmp_path / "b" / f"{key}.safetensors"
        if len(count) == number + 1 and fault == "unreadable":
            path.unlink()
            path.mkdir()
        elif len(count) == number + 1:
            path.unlink() if fault == "gone" else path.write_bytes(path.read_bytes()[:-9])

    with monkeypatch.context() as patch:
        patch.setattr(PartStore, "write", faulty)
        patch.setattr("omnivoice.productions.parts.remove_file", lambda path: None)
        with pytest.raises(InputError, match=r"^a finished part of the text has disappeared"):
            spoken(tmp_path / "b")
    for path in (tmp_path / "b").iterdir():
        if path.is_dir():
            path.rmdir()
    _, again, _ = spoken(tmp_path / "b")
    assert torch.equal(whole, again)


def test_an_edited_text_makes_only_the_parts_that_changed(tmp_path: Path) -> None:
    paragraphs = [TEXT[: len(TEXT) // 2].strip(), "[pause 1s]", TEXT[len(TEXT) // 2 :].strip()]
    before, _, _ = spoken(tmp_path, " ".join(paragraphs), voice=VOICE)
    _, _, fake = spoken(tmp_path, " ".join([*paragraphs[:2], paragraphs[2].replace("39", "40")]), voice=VOICE)
    assert 0 < sum(fake.batches) < len(before) / 2


def test_the_first_part_runs_alone_and_is_reported_first(tmp_path: Path) -> None:
    reports = list[tuple[int, int, int]]()
    fake = FakeSpeech()

    def on_part(part: MadePart, samples: Tensor, progress: Progress) -> None:
        reports.append((len(fake.batches), progress.parts, len(samples)))
        assert progress.total == len(long.parts)
        assert progress.seconds_left >= 0

    long = plan_long(GenerationRequest(TEXT, seed=3), plan)
    made = speak_long(long, fake, PartStore(tmp_path), model="m", on_part=on_part)
    assert fake.batches[:3] == [1, 2, 4]
    assert reports[0][0] == 1
    assert [report[1] for report in reports] == list(range(1, len(made) + 1))
    assert sum(report[2] for report in reports) == made[-1].end


def test_a_short_heading_does_not_make_the_voice(tmp_path: Path) -> None:
    """One word makes a bad voice, so the first longer part makes it, and the heading follows."""
    made, _, fake = spoken(tmp_path, f"# One\n{TEXT}")
    assert [part.text for part in made][:2] == ["One", made[1].text]
    assert fake.plans[0].chunks[0].text == made[1].text
    voices = [plan.request.voice for plan in fake.plans]
    assert voices[0] is None
    assert {None if voice is None else voice.text for voice in voices[1:]} == {made[1].text}


@pytest.mark.parametrize(
    ("text", "warned"), [(f"# One\n{TEXT}", False), ("# One\nYes!", True), (f"One. [pause 1s] {TEXT}", False)]
)
def test_one_word_is_warned_about_only_if_it_makes_the_voice(text: str, warned: bool) -> None:
    long = plan_long(GenerationRequest(text, seed=3), plan)
    assert any("one word without a voice" in warning for warning in long.warnings) == warned


@pytest.mark.parametrize(("pad", "warned"), [(0.0, False), (0.1, False), (1.0, True)])
def test_padding_that_is_not_used_is_named(pad: float, warned: bool) -> None:
    long = plan_long(GenerationRequest(TEXT, seed=3, pad_seconds=pad), plan)
    assert any(warning.startswith("pad_seconds is not used") for warning in long.warnings) == warned


def test_all_parts_are_as_loud_as_the_first(tmp_path: Path) -> None:
    made, whole, _ = spoken(tmp_path)
    levels = [speech_level([whole[part.start : part.end].float()[None] / 32768]) for part in made]
    assert max(abs(20 * math.log10(level / levels[0])) for level in levels) < 0.1  # dB


def test_the_gain_is_bounded(tmp_path: Path) -> None:
    class Whisper(FakeSpeech):
        def _speak(self, plan: GenerationPlan) -> Speech:
            speech = super()._speak(plan)
            speech.waveform.samples.mul_(1.0 if plan.seed == 3 else 1e-3)
            return speech

    long, store = plan_long(GenerationRequest(TEXT, voice=VOICE, seed=3), plan), PartStore(tmp_path)
    made = speak_long(long, Whisper(), store, model="m")
    part = store.read(made[1].key)
    assert part is not None
    assert 0 < int(part.samples.abs().max()) < 8  # at most 0.11e-3 of full scale, twice


def test_places_pauses_and_chapters_are_exact(tmp_path: Path) -> None:
    text = "Hello there. [pause 2s] And now.\n# The first day\nIt rained.\n"
    text += "## The second day ##\n[pause 1s] The end. [pause 3s]"
    long = plan_long(GenerationRequest(text, voice=VOICE, seed=3), plan)
    assert long.chapters == ("", "The first day", "The second day")
    assert [(part.text, part.silence, part.chapter) for part in long.parts] == [
        ("Hello there.", 0, 0),
        ("And now.", 48_000, 0),
        ("The first day", 24_000, 1),
        ("It rained.", 12_000, 1),
        ("The second day", 24_000, 2),
        ("The end.", 36_000, 2),
    ]
    assert long.tail == 72_000
    made, whole, _ = spoken(tmp_path, text, voice=VOICE)
    assert len(whole) == made[-1].end + 72_000
    for before, part, planned in zip([None, *made], made, long.parts):
        end = 0 if before is None else before.end
        assert part.start - end == planned.silence
        assert not bool(whole[end : part.start].any())
    assert made[0].seed == 3
    assert len({part.seed for part in made}) == 6


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_headings_end_as_lines_do(end: str) -> None:
    text = end.join(["# One", "It rained.", "## Two ##", "It rained again."])
    long = plan_long(GenerationRequest(text, voice=VOICE, seed=3), plan)
    assert long.chapters == ("One", "Two")
    assert [part.text for part in long.parts] == ["One", "It rained.", "Two", "It rained again."]


def test_text_that_is_put_in_leaves_the_other_parts_as_they_are(tmp_path: Path) -> None:
    """Also when it moves every part behind it, and where a text occurs twice."""
    lines = ["The rain stopped at last.", "And then?", "Nobody knew why.", "And then?", "We went home together."]
    before, _, _ = spoken(tmp_path, " [pause 1s] ".join(lines), voice=VOICE)
    assert len({part.key for part in before}) == 5
    _, _, fake = spoken(tmp_path, " [pause 1s] ".join([lines[0], "A bird sang.", *lines[1:]]), voice=VOICE)
    assert [one.chunks[0].text for one in fake.plans] == ["A bird sang."]


def test_what_an_earlier_run_made_is_there_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        spoken(tmp_path, voice=VOICE, stop_after=3)
    fake, seen = FakeSpeech(), list[tuple[int, int]]()

    def on_part(part: MadePart, samples: Tensor, progress: Progress) -> None:
        seen.append((progress.parts, len(fake.batches)))

    long = plan_long(GenerationRequest(TEXT, voice=VOICE, seed=3), plan)
    speak_long(long, fake, PartStore(tmp_path), model="m", on_part=on_part)
    assert seen[:4] == [(1, 0), (2, 0), (3, 0), (4, 1)]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_parts_run_together_than_asked_for(tmp_path: Path, most: int) -> None:
    fake, long = FakeSpeech(), plan_long(GenerationRequest(TEXT, voice=VOICE, seed=3), plan)
    made = speak_long(long, fake, PartStore(tmp_path), model="m", max_batch=most)
    assert max(fake.batches) == most
    assert sum(fake.batches) == len(made)


@pytest.mark.parametrize(
    ("text", "line"), [("It rained.\n\n# ***\nAgain.", 3), ("# One\n***", 1), ("# One\r\nYes.\r\n# Two\r\n***", 3)]
)
def test_a_chapter_without_anything_to_speak_is_named(text: str, line: int) -> None:
    with pytest.raises(TextError, match=f"^line {line}: the heading, or the text below it, cannot be spoken"):
        plan_long(GenerationRequest(text, voice=VOICE, seed=3), plan)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (GenerationRequest(TEXT, duration=5.0), InputError, "leave out the duration"),
        (GenerationRequest("", seed=1), TextError, "nothing to speak"),
        (GenerationRequest("# \n", seed=1), TextError, "nothing to speak"),
        (GenerationRequest(None), TextError, "text must be a string, got None"),
        (GenerationRequest(["# a"]), TextError, "text must be a string, got list"),
        (GenerationRequest("# a\n" * 50_001), TextError, "text must be at most 200000 characters, got 200004"),
        (GenerationRequest(TEXT, speed=9.0), InputError, "speed must be 0.25-4"),
        (GenerationRequest("The weather. " * 8000, speed=0.25), InputError, "at most 4"),
    ],
)
def test_what_cannot_be_spoken_is_refused(request_: GenerationRequest, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        plan_long(request_, plan)
    assert words in str(raised.value)


def test_a_part_that_disappears_is_an_error(tmp_path: Path) -> None:
    made, _, _ = spoken(tmp_path)
    (tmp_path / f"{made[1].key}.safetensors").unlink()
    with pytest.raises(InputError, match="disappeared from the disk"):
        list(samples_of(made, PartStore(tmp_path), tail=0))


def test_the_parts_can_be_removed(tmp_path: Path) -> None:
    made, _, _ = spoken(tmp_path / "parts")
    PartStore(tmp_path / "parts").remove([part.key for part in made])
    assert not (tmp_path / "parts").exists()


def test_what_the_normalisation_changed_is_noted_once_for_the_whole_text() -> None:
    text = "# Part 2\nI have 3 of them.\n# Part 4\nAnd 3 more."
    long = plan_long(GenerationRequest(text, seed=1, language="en", normalise=True), plan)
    assert [part.text for part in long.parts] == ["Part two", "I have three of them.", "Part four", "And three more."]
    assert long.notes == ("normalised: “2” → “two”, “3” → “three”, “4” → “four”",)
    assert plan_long(GenerationRequest(text, seed=1, language="en"), plan).notes == ()


@pytest.mark.parametrize("voice", [None, VOICE])
@pytest.mark.parametrize("redo", [{1: 99}, {2: 99}, {5: 70, 9: 80}, {1: 40, 3: 50}], ids=str)
@pytest.mark.parametrize("kept", [False, True])
def test_parts_made_again_leave_the_bytes_of_all_others(
    tmp_path: Path, voice: VoicePrompt | None, redo: dict[int, int], kept: bool
) -> None:
    made, whole, _ = spoken(tmp_path / "a", voice=voice)
    fake, store = FakeSpeech(), PartStore(tmp_path / ("a" if kept else "b"))
    long = plan_long(GenerationRequest(TEXT, voice=voice, seed=3), plan)
    again = speak_long(long, fake, store, model="m", redo=redo)
    if kept:
        assert sorted(one.seed for one in fake.plans) == sorted(redo.values())
    changed = torch.cat(list(samples_of(again, store, tail=long.tail)))
    for number, (old, new) in enumerate(zip(made, again), 1):
        assert torch.equal(whole[old.start : old.end], changed[new.start : new.end]) == (number not in redo)
        assert new.start - (again[number - 2].end if number > 1 else 0) == long.parts[number - 1].silence
        assert new.seed == redo.get(number, old.seed)
    levels = [speech_level([changed[None, one.start : one.end].float()]) for one in again]
    assert max(levels) / min(levels) < 1.13  # 1 dB
    store.remove([*store.used])
    assert kept or not store.folder.exists()


@pytest.mark.parametrize("number", [0, 41, 1000])
def test_a_part_that_is_not_there_cannot_be_made_again(tmp_path: Path, number: int) -> None:
    fake = FakeSpeech()
    long = plan_long(GenerationRequest("One sentence.", seed=3), plan)
    with pytest.raises(InputError, match=f"redo names part {number}, which is not spoken: the parts are 1 to 1"):
        speak_long(long, fake, PartStore(tmp_path), model="m", redo={number: 1})
    assert fake.batches == []


@pytest.mark.parametrize("broken", [0, 3])
def test_a_part_that_comes_out_as_nan_is_spoken_again_or_named(tmp_path: Path, broken: int) -> None:
    long, fake = plan_long(GenerationRequest(TEXT, voice=VOICE, seed=3), plan), FakeSpeech()
    bad = long.parts[broken]

    def speak(plans: Sequence[GenerationPlan], /) -> list[Speech]:
        if any((one.request.seed, one.chunks[0].text) == (bad.plan.seed, bad.text) for one in plans):
            raise NumericError("it is NaN")
        return fake(plans)

    long = replace(long, parts=tuple(replace(p, plan=with_seed(p.plan, p.plan.seed)) for p in long.parts))
    with pytest.raises(
        NumericError, match=rf"^part {broken + 1}: .* cannot be spoken: seed {bad.plan.seed}: it is NaN$"
    ):
        speak_long(long, SpeakWithRetries(speak, 0), PartStore(tmp_path / "a"), model="m")
    retrying = SpeakWithRetries(speak, 1, check=lambda plans, _: [() for _ in plans])
    made = speak_long(long, retrying, PartStore(tmp_path / "b"), model="m")
    assert len(made) == len(long.parts)
    (report,) = retrying.reports
    assert f"seed {bad.plan.seed} was rejected: it is NaN; seed {bad.plan.seed + 1} is used" in report


@pytest.mark.parametrize("heading", ["", "# A chapter\n"])
@pytest.mark.parametrize("voice", [None, VOICE])
def test_the_first_part_that_is_heard_is_short(heading: str, voice: VoicePrompt | None) -> None:
    request = GenerationRequest(heading + LONG_TEXT, voice=voice, seed=3)
    plain, early = (plan_long(replace(request, first_seconds=seconds), plan) for seconds in (0.0, FIRST_SECONDS))
    place = int(bool(heading))
    assert early.parts[place].text == SENTENCE.format(2010).strip()
    assert FIRST_SECONDS <= early.parts[place].seconds < 8 < plain.parts[place].seconds
    assert all(part.seconds > 8 for part in early.parts[place + 1 :])  # only the first part
    assert " ".join(part.text for part in early.parts) == " ".join(part.text for part in plain.parts)


@pytest.mark.parametrize("text", ["Oh. No. Yes.", "It is late.", "[pause 1s] One. [pause 2s] " + LONG_TEXT])
def test_a_text_without_a_long_first_sentence_stays_as_it_is(text: str) -> None:
    request = GenerationRequest(text, voice=VOICE, seed=3)
    plain, early = (plan_long(replace(request, first_seconds=seconds), plan) for seconds in (0.0, FIRST_SECONDS))
    assert early.parts[0].text == plain.parts[0].text


@pytest.mark.parametrize("stop_after", [0, 1, 2, 5])
def test_a_stopped_run_with_a_short_first_part_gives_the_same_bytes(tmp_path: Path, stop_after: int) -> None:
    def run(folder: Path, parts: int) -> Tensor:
        store, long = (
            PartStore(folder),
            plan_long(GenerationRequest(LONG_TEXT, seed=3, first_seconds=FIRST_SECONDS), plan),
        )
        made = speak_long(long, FakeSpeech(parts), store, model="m")
        return torch.cat(list(samples_of(made, store, tail=long.tail)))

    whole = run(tmp_path / "a", 1_000_000)
    with pytest.raises(Stopped):
        run(tmp_path / "b", stop_after)
    assert torch.equal(run(tmp_path / "b", 1_000_000), whole)
