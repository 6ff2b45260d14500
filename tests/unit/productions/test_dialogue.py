"""Dialogues: which voice each line gets, in which run, and where each line lies, to the sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from omnivoice.constants import SAMPLE_RATE
from omnivoice.errors import InputError, NumericError, OmniVoiceError
from omnivoice.generate.plan import make_plan
from omnivoice.productions.cast import Cast, Speaker
from omnivoice.productions.dialogue import Dialogue, DialogueOptions, speak_dialogue
from omnivoice.productions.lines import equal_gains, speech_level
from omnivoice.productions.takes import SpeakWithRetries
from omnivoice.text.script import parse_script
from omnivoice.types import GenerationPlan, GenerationRequest, Speech, VoiceDesign, VoicePrompt, Waveform

LONG = "It was a very long and quite remarkable sentence about the weather."


def voice(code: int, frames: int = 50) -> VoicePrompt:
    """Return a voice that is recognised by its first code."""
    return VoicePrompt(torch.full((8, frames), code), f"This is the voice {code}.", 0.1)


class FakeSpeech:
    """Speaks each request as a constant sound and records what it was asked for."""

    def __init__(self) -> None:
        self.runs: list[list[GenerationRequest]] = []

    def __call__(self, requests: Sequence[GenerationRequest], /) -> list[Speech]:
        self.runs.append(list(requests))
        return [self._speak(request) for request in requests]

    def _speak(self, request: GenerationRequest) -> Speech:
        assert request.seed is not None
        samples = torch.full((1, 100 * len(request.text)), 0.1)
        codes = torch.full((8, 10), 500 + request.seed)
        made = request.voice or VoicePrompt(codes, request.text, 0.1)
        speech = Speech(Waveform(samples, SAMPLE_RATE), (codes,), (request.text,), 1.0, request.seed, made)
        return replace(speech, normalised=make_plan(request).normalised)


def plan(requests: Sequence[GenerationRequest], /) -> list[GenerationPlan]:
    return [make_plan(request) for request in requests]


def speak(script: str, cast: Sequence[Speaker], **options: object) -> tuple[Dialogue, FakeSpeech]:
    fake = FakeSpeech()
    parsed = parse_script(script, [speaker.name for speaker in cast])
    base = GenerationRequest("", seed=7, language="en", normalise=bool(options.pop("normalise", False)))
    return speak_dialogue(parsed, Cast(tuple(cast)), base, plan, fake, DialogueOptions(**options)), fake  # type: ignore[arg-type]


def test_every_speaker_gets_the_own_voice_in_one_run() -> None:
    cast = [Speaker("A", voice(1)), Speaker("B", voice(2), language="de")]
    dialogue, fake = speak(f"A: {LONG}\nB: {LONG}\nA: {LONG}", cast)
    ((first, second, third),) = fake.runs
    assert [request.voice for request in (first, second, third)] == [cast[0].voice, cast[1].voice, cast[0].voice]
    assert [request.language for request in (first, second, third)] == ["en", "de", "en"]
    assert [request.seed for request in (first, second, third)] == [7, 8, 9]
    assert [line.speaker for line in dialogue.lines] == ["A", "B", "A"]


def test_settings_of_a_line_win() -> None:
    dialogue, _ = speak(
        f"A: {{voice speed=1.5 seed=3 language=fr}} {LONG}\n{LONG}", [Speaker("A", voice(1), language="de")]
    )
    first, second = (line.request for line in dialogue.lines)
    assert (first.speed, first.seed, first.language) == (1.5, 3, "fr")
    assert (second.speed, second.seed, second.language) == (None, 8, "de")


@pytest.mark.parametrize("design", [None, VoiceDesign(("female",))])
def test_a_speaker_without_a_recording_is_one_person(design: VoiceDesign | None) -> None:
    dialogue, fake = speak(
        f"A: Yes.\n{LONG}\nB: {LONG}\nA: {LONG}", [Speaker("A", design=design), Speaker("B", voice(2))]
    )
    first, second, third = fake.runs
    assert [request.text for request in first] == [LONG, LONG]  # the line that makes A's voice, and B's
    assert [request.voice for request in second] == [dialogue.lines[1].speech.voice]
    assert [request.text for request in third] == ["Yes."]
    assert third[0].voice is not None
    assert torch.equal(third[0].voice.codes, dialogue.lines[1].speech.codes[0])
    assert [request.design for run in fake.runs for request in run if request.text == "Yes."] == [design]


def test_only_short_lines_choose_the_longest_to_make_the_voice() -> None:
    dialogue, fake = speak("A: No.\nMaybe not.\nYes.", [Speaker("A")])
    assert [request.text for request in fake.runs[0]] == ["Maybe not."]
    assert [request.voice for request in fake.runs[1]] == [dialogue.lines[1].speech.voice] * 2


@pytest.mark.parametrize(
    ("script", "index", "context"),
    [
        (f"A: {LONG}\nYes.", 1, 0),
        (f"A: Yes.\n{LONG}", 0, 1),
        (f"A: {LONG}\n{LONG}\nYes.\n{LONG}", 2, 1),
        (f"A: {LONG}\nB: {LONG}\nA: Yes.", 2, 0),
        (f"A: {LONG}\nNo.\nYes.", 2, 0),
    ],
)
def test_a_short_line_continues_a_long_one(script: str, index: int, context: int) -> None:
    dialogue, _ = speak(script, [Speaker("A", voice(1)), Speaker("B", voice(2))])
    used, before = dialogue.lines[index].request.voice, dialogue.lines[context].speech
    assert used is not None
    assert torch.equal(used.codes, before.codes[0])
    assert (used.text, used.rms) == (LONG, 0.1)


def test_without_context_every_line_is_spoken_alone() -> None:
    _, fake = speak(f"A: {LONG}\nYes.", [Speaker("A", voice(1))], context=False)
    (run,) = fake.runs
    assert [request.voice.codes[0, 0].item() for request in run if request.voice] == [1, 1]


def test_places_are_exact() -> None:
    script = f"A: {LONG}\n{LONG}\nB: {LONG}\n[pause 2s]\n{LONG}\n[pause 250ms]"
    dialogue, _ = speak(script, [Speaker("A", voice(1)), Speaker("B", voice(2))], gap_seconds=0.1, change_seconds=0.4)
    size, starts, end = 100 * len(LONG), [line.start for line in dialogue.lines], dialogue.waveform.samples.shape[1]
    assert starts == [0, size + 2400, 2 * size + 2400 + 9600, 3 * size + 2400 + 9600 + 48000]
    assert [line.end - line.start for line in dialogue.lines] == [size] * 4
    assert end == starts[-1] + size + 6000
    sound = dialogue.waveform.samples[0] != 0
    for line in dialogue.lines:
        assert bool(sound[line.start : line.end].all())
        assert not bool(sound[line.start - line.silence : line.start].any())
    assert int(sound.sum()) == 4 * size


def test_equal_loudness_keeps_the_lines_of_a_speaker_apart() -> None:
    dialogue, _ = speak(f"A: {LONG}\nB: {LONG}\nA: {LONG}", [Speaker("A", voice(1)), Speaker("B", voice(2))])
    for line, level in zip(dialogue.lines, (0.05, 0.2, 0.025)):
        line.samples.mul_(level / 0.1)
    gains = equal_gains(dialogue.lines)
    assert gains[0] == gains[2]
    assert gains[1] == pytest.approx(1.0)
    first, second, third = (line.samples * gain for line, gain in zip(dialogue.lines, gains))
    assert speech_level([first, third]) == pytest.approx(speech_level([second]), rel=1e-4)


def test_equal_loudness_never_clips() -> None:
    dialogue, _ = speak(f"A: {LONG}\nB: {LONG}", [Speaker("A", voice(1)), Speaker("B", voice(2))])
    dialogue.lines[0].samples.mul_(5)
    dialogue.lines[1].samples[0, 0] = 0.9
    gains = equal_gains(dialogue.lines)
    assert max(float((line.samples * gain).abs().max()) for line, gain in zip(dialogue.lines, gains)) <= 0.99 + 1e-6


@pytest.mark.parametrize(
    ("script", "cast", "error"),
    [
        (
            "A: {voice duration=600} a\nB: [B EY9] 12 [pause 29s] x",
            ["A"],
            "line 2, column 1: the speaker 'B' is not in",
        ),
        ("A: yes\n{voice duration=0.1} one [pause 20s] two", ["A"], "line 2: duration must be at least"),
    ],
)
def test_errors_name_the_line(script: str, cast: list[str], error: str) -> None:
    with pytest.raises(OmniVoiceError) as raised:
        speak(script, [Speaker(name, voice(1)) for name in cast])
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gap_seconds": -1}, "gap_seconds must be 0-60, got -1"),
        ({"change_seconds": float("nan")}, "change_seconds must be 0-60, got nan"),
        ({"equal_loudness": 1}, "equal_loudness must be true or false, got 1"),
    ],
)
def test_options_are_checked(options: dict[str, object], error: str) -> None:
    with pytest.raises(InputError) as raised:
        speak("A: a", [Speaker("A", voice(1))], **options)
    assert str(raised.value) == error


@pytest.mark.parametrize("normalise", [True, False])
def test_what_the_normalisation_changed_is_noted(normalise: bool) -> None:
    dialogue, _ = speak(
        "A 2: I have 3 cats and a dog here.\nA 2: It was $5 for all of them.", [Speaker("A 2")], normalise=normalise
    )
    assert dialogue.notes == (("normalised: “3” → “three”, “$5” → “five dollars”",) if normalise else ())


class Noise(FakeSpeech):
    """As `FakeSpeech`, with samples that depend on text, seed and voice."""

    def _speak(self, request: GenerationRequest) -> Speech:
        speech = super()._speak(request)
        code = int(request.voice.codes[0, 0]) if request.voice else 0
        noise = torch.Generator().manual_seed(hash((request.text, request.seed, code)) % 2**62)
        samples = 0.05 * torch.randn(speech.waveform.samples.shape, generator=noise)
        return replace(speech, waveform=Waveform(samples, SAMPLE_RATE))


@pytest.mark.parametrize("redo", [{1: 99}, {3: 99}, {4: 99}, {6: 99}, {2: 7, 5: 8}], ids=str)
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("voices", [(voice(1), voice(2)), (None, None), (voice(1), None)])
def test_lines_spoken_again_leave_all_others_as_they_are(redo: dict[int, int], equal: bool, voices: tuple) -> None:
    """Line 1 and 2 give the voices where there are none, lines 3 and 4 are short and continue them."""
    script = parse_script(f"A: {LONG}\nB: {LONG}!\nA: Yes.\nB: No.\nA: {LONG} So.\nB: {LONG} No.", ["A", "B"])
    cast = Cast(tuple(Speaker(name, one) for name, one in zip("AB", voices)))
    base, options = GenerationRequest("", seed=7, language="en"), DialogueOptions(equal_loudness=equal)
    plain = speak_dialogue(script, cast, base, plan, Noise(), options)
    fake = Noise()
    again = speak_dialogue(script, cast, base, plan, fake, options, redo=redo)
    assert {request.text: request.seed for request in fake.runs[-1]} == {
        script.lines[number - 1].text: seed for number, seed in redo.items()
    }
    assert all(request.voice is not None for request in fake.runs[-1])
    for old, new in zip(plain.lines, again.lines):
        same = torch.equal(
            plain.waveform.samples[:, old.start : old.end], again.waveform.samples[:, new.start : new.end]
        )
        assert same == (new.number not in redo)
        assert new.request.seed == redo.get(new.number, old.request.seed)


def test_a_line_that_is_not_there_cannot_be_spoken_again() -> None:
    script, fake = parse_script(f"A: {LONG}", ["A"]), FakeSpeech()
    with pytest.raises(InputError, match="redo names line 2, which is not spoken"):
        speak_dialogue(script, Cast((Speaker("A"),)), GenerationRequest("", seed=1), plan, fake, redo={2: 5})
    assert fake.runs == []


def test_equal_loudness_holds_for_each_line_and_for_the_whole() -> None:
    class Louder(FakeSpeech):
        def _speak(self, request: GenerationRequest) -> Speech:
            speech = super()._speak(request)
            speech.waveform.samples.mul_(1 + (request.seed or 0) % 2)
            return speech

    cast = Cast((Speaker("A", voice(1)), Speaker("B", voice(2))))
    script = parse_script(f"A: {LONG}\nB: {LONG}", cast.names)
    options = DialogueOptions(equal_loudness=True)
    dialogue = speak_dialogue(script, cast, GenerationRequest("", seed=6), plan, Louder(), options)
    for line in dialogue.lines:
        assert torch.equal(dialogue.waveform.samples[:, line.start : line.end], line.samples)
        assert speech_level([line.samples]) == pytest.approx(0.2, rel=1e-4)


@pytest.mark.parametrize(("mark", "silence"), [("", 0.3), ("[pause 0s]\n", 0.0), ("[pause 1s]\n", 1.0), ("<p>\n", 0.3)])
def test_a_pause_of_any_length_replaces_the_gap(mark: str, silence: float) -> None:
    dialogue, _ = speak(f"A: {LONG}\n{mark}{LONG}", [Speaker("A", voice(1))])
    first, second = dialogue.lines
    assert second.start - first.end == round(silence * SAMPLE_RATE)


@pytest.mark.parametrize("broken", ["one", "two", "three"])
def test_a_line_that_comes_out_as_nan_is_named_by_its_number(broken: str) -> None:
    lines = [LONG, "# a note", f"{LONG} two", "", f"{LONG} three"] if broken != "one" else [f"{LONG} one", LONG]
    text = "\n".join(f"A: {line}" if line.startswith("It") else line for line in lines)

    def broken_speech(plans: Sequence[GenerationPlan], /) -> list[Speech]:
        if any(one.request.text.endswith(broken) for one in plans):
            raise NumericError("it is NaN")
        return FakeSpeech()([one.request for one in plans])

    retrying = SpeakWithRetries(broken_speech, 0)
    with pytest.raises(
        NumericError, match=rf"^line {1 + next(i for i, x in enumerate(lines) if x.endswith(broken))}: .*it is NaN"
    ):
        speak_dialogue(
            parse_script(text, ["A"]),
            Cast((Speaker("A", voice(1)),)),
            GenerationRequest("", seed=7),
            plan,
            lambda requests: retrying(plan(requests)),
        )


@pytest.mark.parametrize("seed", [{"samples": 1}, "7", 1.5, True, -1, 2**64])
def test_a_seed_that_is_none_is_refused_in_words(seed: object) -> None:
    """A link brings any value into a node, and the seed counts up from line to line."""
    script, cast = parse_script("A: Hi.", ["A"]), Cast((Speaker("A", voice(1)),))
    base = GenerationRequest("", seed=seed)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="seed must be"):
        speak_dialogue(script, cast, base, plan, pytest.fail)
