"""Subtitles on the stand-in for ComfyUI: from sockets and widgets to audio, SRT and report."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

SRT = (
    "1\n00:00:00,500 --> 00:00:02,000\nHello there.\n\n2\n00:00:02,100 --> 00:00:02,900\nHELEN: Good bye.\n\n"
    "3\n00:00:03,000 --> 00:00:03,513\n[door slams]\n"
)


@pytest.fixture
def speak(nodes, loaded, loaded_pack):
    """Runs the node with two steps; (audio, subtitles, report)."""

    def run(subtitles: object = SRT, **inputs: object) -> tuple:
        settings = inputs.pop("settings", loaded_pack.speech.SpeechSettings({"steps": 2}))
        node = nodes["OmniVoiceSubtitles"]
        return node.execute(model=loaded, subtitles=subtitles, settings=settings, **inputs).values

    return run


@pytest.fixture
def voice(loaded_pack, loaded):
    draw = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 1024, (8, 40), generator=draw)
    fingerprint = loaded.engine.codec_fingerprint
    return loaded_pack.engine.types.VoicePrompt(codes, "One voice.", 0.1, name="Anna", codec=fingerprint)


@pytest.mark.parametrize(
    "inputs, length", [({}, 84_312), ({"total_seconds": 5}, 120_000), ({"mode": "fill", "total_seconds": 4.5}, 108_000)]
)
def test_the_audio_is_exactly_as_long_as_the_subtitles(speak, inputs: dict, length: int) -> None:
    audio, subtitles, report = speak(**inputs)
    assert audio["waveform"].shape == (1, 1, length) and audio["sample_rate"] == 24_000
    assert subtitles.startswith("1\n00:00:00,500 --> 00:00:0")
    assert report.startswith(f"2 cues spoken, 1 not spoken, {length / 24_000:.3f} s, mode ")
    assert "cue 3 (line 10): [door slams]: a description of a sound" in report


def test_a_cast_of_voices_designs_and_automatic_ones(speak, host, loaded_pack, voice) -> None:
    design = loaded_pack.engine.types.VoiceDesign(("female",))
    _, subtitles, report = speak(names="helen\n\nBob", voices={"voice_1": design, "voice_2": voice}, voice=voice)
    assert "helen: Good bye." in subtitles
    assert "voice: 'helen', a described voice, 1 cues" in report
    assert "voice: 'Anna', a recording of 1.6 s, 0 cues" in report
    assert "voice: default voice, a recording of 1.6 s, 1 cues" in report
    assert "warning: no cue is spoken by 'Anna', 'Bob'" in report
    assert "not in the cast" not in report
    shown = host.texts[-1][0]
    assert shown.startswith("2 cues spoken, 1 not spoken") and "[door slams]" in shown and "'Anna', 'Bob'" in shown


def test_memory_is_asked_for_and_progress_is_shown(speak, host, loaded) -> None:
    speak(names="Helen")
    assert [models for models, _ in host.loads] == [[loaded.lm, loaded.decoder]]
    assert all(memory > 0 for _, memory in host.loads)
    assert host.progress == [(2, 4), (4, 4)]  # both cues in each step


def test_cancel_stops_within_a_step(speak, host, pack) -> None:
    host.interrupt_after = 1
    with pytest.raises(pack.host.models.mm.InterruptProcessingException):
        speak()
    assert len(host.progress) == 1


@pytest.mark.parametrize("values, pads", [({}, (0.0, 0.02)), ({"pad_seconds": 0.3}, (0.3, 0.02)), ("all", (0.0, 0.02))])
def test_pads_are_those_of_cues_unless_settings_change_them(nodes, loaded_pack, values, pads: tuple) -> None:
    if values == "all":
        items = nodes["OmniVoiceSettings"].define_schema().inputs
        settings = nodes["OmniVoiceSettings"].execute(**{item.id: item.default for item in items}).values[0]
    else:
        settings = loaded_pack.speech.SpeechSettings(values)
    production = __import__("sys").modules[f"{loaded_pack.package.__name__}.nodes.inputs.subtitles"]
    _, _, options = production.production_from({"subtitles": SRT, "settings": settings})
    assert (options.request.pad_seconds, options.request.fade_seconds) == pads


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({"subtitles": None}, "subtitles must be a string, got None"),
        ({"subtitles": "Hello"}, "subtitles must have times such as"),
        ({"mode": "squeeze"}, "mode must be one of fit, natural, fill, got 'squeeze'"),
        ({"total_seconds": 1.0}, "total_seconds must be 0 or at least 3.513"),
        ({"total_seconds": float("nan")}, "total_seconds must be 0-14400, got nan"),
        ({"slowest_rate": True}, "slowest_rate must be 0-1, got True"),
        ({"seed": -1}, "seed must be 0-"),
        ({"preset": "best"}, "preset must be one of"),
        ({"language": "Klingonish"}, "language"),
        ({"voice": "Anna"}, "voice must come from"),
        ({"design": 3}, "design must come from"),
        ({"settings": {}}, "settings must come from OmniVoice Settings"),
        ({"names": 3}, "the names of speakers must be a text with one name on each line"),
        ({"names": "Bob\nbob"}, "two speakers are called 'bob'"),
        ({"voices": {"voice_1": "x"}}, "'voice_1' of voices must come from"),
    ],
)
def test_wrong_values_are_refused_before_anything_moves(speak, host, pack, inputs: dict, message: str) -> None:
    with pytest.raises(pack.engine.errors.InputError) as told:
        speak(**{"subtitles": SRT, **inputs})
    assert message in str(told.value)
    assert host.loads == []


@pytest.mark.parametrize(
    "text, answer", [(SRT, True), (None, True), ("1\n00:00:01,000 --> 0\nHi", "line 2: the times")]
)
def test_subtitles_are_checked_when_the_prompt_is_queued(nodes, text: object, answer: object) -> None:
    found = nodes["OmniVoiceSubtitles"].validate_inputs(subtitles=text, voices=None)
    assert found is True if answer is True else str(found).startswith(answer)


def test_ten_widgets_at_most(nodes) -> None:
    schema: SimpleNamespace = nodes["OmniVoiceSubtitles"].define_schema()
    assert (
        len([item for item in schema.inputs if item.kind in ("INT", "FLOAT", "STRING", "COMBO", "COMBO,STRING")]) == 9
    )


@pytest.mark.parametrize("retries", [0, 1])
def test_retries_are_in_the_report(speak, voice, retries: int) -> None:
    _, _, report = speak(voice=voice, retries=retries)
    assert ("is used" in report) == bool(retries)  # with two steps speech has faults


def test_retries_out_of_range_are_refused(speak, loaded_pack) -> None:
    with pytest.raises(ValueError, match="retries must be"):
        speak(retries=17)
