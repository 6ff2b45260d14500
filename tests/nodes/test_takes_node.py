"""Takes as a node: seeds, the choice, retries, the check of words, the report, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

TEXT = "Good morning, my old friend."


@pytest.fixture
def faults(nodes, monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """{seed: number of faults}, which takes the place of the real checks."""
    inputs = module(nodes, "inputs.takes")
    found: dict[int, int] = {}
    finding = inputs.check_each.__globals__["Finding"]

    def check(plans: Sequence, speeches: Sequence) -> list:
        return [tuple(finding("click", f"fault {i}", 0.0) for i in range(found.get(s.seed, 0))) for s in speeches]

    monkeypatch.setattr(inputs, "check_each", check)
    return found


def module(nodes, name: str):
    import sys

    return sys.modules[f"{nodes['OmniVoiceTakes'].__module__.rpartition('.')[0]}.{name}"]


def takes(nodes, model, **inputs):
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=2).values
    return nodes["OmniVoiceTakes"].execute(model=model, text=TEXT, **{"settings": settings, "seed": 3, **inputs}).values


def test_a_take_is_what_synthesize_gives_for_its_seed(nodes, model, faults) -> None:
    audio, every, voice, report = takes(nodes, model, takes=3)
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=2).values
    for i, take in enumerate(every):
        given = {"model": [model], "text": [TEXT], "seed": [3 + i], "settings": [settings]}
        ((one,), *_) = nodes["OmniVoiceSynthesize"].execute(**given).values
        assert torch.equal(one["waveform"], take["waveform"])
    assert len(every) == 3 and torch.equal(audio["waveform"], every[0]["waveform"])
    assert report.splitlines()[0].startswith("take 1 of 3, seed 3, ")
    assert [line.split()[1:4] for line in report.splitlines()[1:4]] == [[str(i), "seed", str(i + 2)] for i in (1, 2, 3)]
    assert report.count("no fault") == 3
    assert voice.codes.shape[0] == 8


@pytest.mark.parametrize(
    ("counts", "take", "chosen"),
    [((1, 0, 0), 0, 2), ((2, 1, 1), 0, 2), ((0, 0, 0), 3, 3), ((0, 1, 2), 3, 3), ((1, 1, 0), 0, 3)],
)
def test_the_choice(nodes, model, faults, host, counts: tuple[int, ...], take: int, chosen: int) -> None:
    faults.update({3 + i: count for i, count in enumerate(counts)})
    audio, every, _, report = takes(nodes, model, takes=3, take=take)
    assert torch.equal(audio["waveform"], every[chosen - 1]["waveform"])
    assert report.startswith(f"take {chosen} of 3")
    named = [line for line in report.splitlines() if line.startswith("warning: ") and " is used although " in line]
    assert len(named) == bool(counts[chosen - 1])
    assert ("no take is without a fault" in report) == (take == 0 and all(counts))


def test_faulty_takes_are_spoken_again_with_seeds_of_their_own(nodes, model, faults) -> None:
    faults.update({3: 1, 4: 1, 6: 2})
    _, every, _, report = takes(nodes, model, takes=2, retries=2)
    assert len(every) == 2
    lines = [line.split("  ")[-1].strip() for line in report.splitlines()]
    assert "seed 3 was rejected: fault 0" in lines and "seed 4 was rejected: fault 0" in lines
    assert "seed 6 was rejected: fault 0; fault 1" in lines
    assert report.startswith("take 1 of 2, seed 5")
    assert "take  2  seed 8" in report


def test_words_are_checked_where_a_whisper_is_chosen(nodes, model, host, monkeypatch: pytest.MonkeyPatch) -> None:
    transcribe, asked = module(nodes, "host").transcribe, []

    def texts_of(recordings: Sequence, name: object, language: object) -> list[str]:
        asked.append((len(recordings), name, language))
        return ["Good morning, my friend.", TEXT][: len(recordings)]

    monkeypatch.setattr(transcribe, "texts_of", texts_of)
    monkeypatch.setattr(transcribe, "model_folder", lambda name: Path("tiny"))
    _, _, _, report = takes(nodes, model, takes=2, whisper="tiny", language="English")
    assert asked == [(2, "tiny", "English")]
    first, second = report.splitlines()[1:3]
    assert "“old” was not heard" in first and "heard" not in second


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"takes": 0}, "takes must be 1-16, got 0"),
        ({"takes": 2, "take": 3}, "take must be 0 or one of the 2 takes, got 3"),
        ({"take": -1}, "take must be 0-16, got -1"),
        ({"retries": 17}, "retries must be 0-16, got 17"),
        ({"takes": 2.0}, "takes must be a?"),
        ({"whisper": "gone"}, "no Whisper model found"),
        ({"voice": 3}, "voice must come from"),
        ({"text": "  "}, "text"),
    ],
)
def test_what_cannot_be_done_is_refused(nodes, model, inputs: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nodes["OmniVoiceTakes"].execute(**{"model": model, "text": TEXT, **inputs})


def test_dialogue_redo_and_retries(nodes, model, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"Anna: {TEXT} How are you?\nBob: Very well, thank you, and how are you?\nAnna: Fine."
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=2).values
    given = {"model": model, "script": script, "names": "Anna\nBob", "settings": settings, "seed": 3}
    speak = nodes["OmniVoiceDialogue"].execute
    _, first, *_ = speak(**given).values
    *_, report = speak(**given, redo="1=99").values
    _, again, *_ = speak(**given, redo="1=99").values
    assert [torch.equal(a["waveform"], b["waveform"]) for a, b in zip(first, again)] == [False, True, True]
    assert "seed 99" in report
    with pytest.raises(ValueError, match="redo names line 4"):
        speak(**given, redo="4=1")
    with pytest.raises(ValueError, match="retries must be 0-16"):
        speak(**given, retries=99)
