"""Dialogue and Timings as nodes: what the widgets become, what comes out, and what is refused."""

from __future__ import annotations

import json

import pytest
import torch

SCRIPT = (
    "Anna: Good morning, my old friend, how are you?\nBob: [pause 1s] Very well, thank you, and how are you?\nFine."
)


def talk(nodes, model, script=SCRIPT, names="Anna\nBob", **inputs):
    """The values of the outputs."""
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=2).values
    given = {"settings": settings, "seed": 3, **inputs}
    return nodes["OmniVoiceDialogue"].execute(model=model, script=script, names=names, **given).values


def design(nodes, **attributes):
    return nodes["OmniVoiceVoiceDesignAttributes"].execute(**attributes).values[0]


def test_a_dialogue_with_its_lines_times_and_report(nodes, model) -> None:
    audio, lines, timings, subtitles, report = talk(nodes, model, voices={"voice_1": design(nodes, gender="female")})
    table = json.loads(timings)
    assert [(line["speaker"], line["text"]) for line in table["lines"]][::2] == [
        ("Anna", "Good morning, my old friend, how are you?"),
        ("Bob", "Fine."),
    ]
    whole, rate = audio["waveform"], audio["sample_rate"]
    assert rate == 24_000 and whole.shape[2] == round(table["seconds"] * rate) and len(lines) == 3
    for line, times in zip(lines, table["lines"]):
        start = round(times["start"] * rate)
        assert torch.equal(whole[..., start : start + line["waveform"].shape[2]], line["waveform"])
    assert subtitles.count("-->") == 3 and "Anna: Good morning" in subtitles
    assert "line   1" in report and "seed 5" in report and report.startswith(f"{table['seconds']:.2f} s, 3 lines")


def test_the_same_seed_gives_the_same_dialogue_and_one_line_can_change(nodes, model) -> None:
    _, first, *_ = talk(nodes, model)
    _, again, *_ = talk(nodes, model)
    _, other, *_ = talk(nodes, model, SCRIPT.replace("Fine.", "{voice seed=99} Fine."))
    same = [torch.equal(a["waveform"], b["waveform"]) for a, b in zip(first, again)]
    assert same == [True, True, True]
    assert [a["waveform"].shape == b["waveform"].shape for a, b in zip(first, other)][:2] == [True, True]
    assert [torch.equal(a["waveform"], b["waveform"]) for a, b in zip(first[:2], other[:2])] == [True, True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"script": "Eve: hi"}, "line 1, column 1: the speaker 'Eve' is not in the cast (Anna, Bob)"),
        ({"names": ""}, "the cast is empty: write the names of the speakers into names"),
        ({"names": None}, "the cast is empty"),
        ({"script": None}, "script must be a string, got None"),
        ({"script": 5}, "script must be a string, got 5"),
        ({"names": 5}, "the names of speakers must be a text"),
        ({"gap_seconds": 99}, "gap_seconds must be 0-60, got 99"),
        ({"equal_loudness": "yes"}, "equal_loudness must be true or false"),
        ({"voices": {"voice_1": "Anna"}}, "'voice_1' of voices must come from"),
        ({"voices": ["Anna"]}, "voices must come from nodes"),
        ({"settings": 3}, "settings must come from OmniVoice Settings"),
    ],
)
def test_what_cannot_be_is_refused(nodes, model, pack, changes, message) -> None:
    with pytest.raises(ValueError) as raised:
        talk(nodes, model, **changes)
    assert message in str(raised.value)


def test_timings_in_every_format(nodes) -> None:
    lines = [{"start": 0.5, "end": 1.0, "text": "Hi.", "words": [{"word": "Hi.", "start": 0.6, "end": 0.9}]}]
    timings = json.dumps({"seconds": 1.0, "lines": lines})
    convert = lambda kind: nodes["OmniVoiceTimings"].execute(timings, kind, 10.0).values[0]  # noqa: E731
    assert convert("subtitles of lines") == "1\n00:00:00,500 --> 00:00:01,000\nHi.\n"
    assert convert("subtitles of words") == "1\n00:00:00,600 --> 00:00:00,900\nHi.\n"
    assert json.loads(convert("video frames of lines")) == [{"frame": 5, "last_frame": 9, "text": "Hi."}]
    assert json.loads(convert("video frames of words")) == [{"frame": 6, "last_frame": 8, "text": "Hi."}]
    with pytest.raises(ValueError, match="format must be one of"):
        convert("srt")
