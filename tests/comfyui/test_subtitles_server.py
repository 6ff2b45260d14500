"""Subtitles on a real ComfyUI: the growing list of voices, the exact length, and refusals when a prompt is queued."""

from __future__ import annotations

import json

from tests.comfyui.headless import audio_of

LOADER = {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "fp32"}}
SRT = (
    "1\n00:00:00,500 --> 00:00:02,000\nHelen: Hello there.\n\n2\n00:00:02,100 --> 00:00:03,013\nBob: Good bye.\n\n"
    "3\n00:00:03,500 --> 00:00:04,000\n[door slams]\n"
)


def design(**words: str) -> dict:
    return {"class_type": "OmniVoiceVoiceDesignAttributes", "inputs": words}


def subtitles(**inputs: object) -> dict:
    """A prompt with a cast of a recorded voice on the second socket and a design on the first."""
    clip = "omnivoice_reference.wav"
    say = {
        "model": ["load", 0],
        "subtitles": SRT,
        "preset": "draft",
        "names": "Helen\nBob",
        "voices.voice_1": ["helen", 0],
        "voices.voice_2": ["bob", 0],
        **inputs,
    }
    return {
        "load": LOADER,
        "helen": design(gender="female"),
        "clip": {"class_type": "LoadAudio", "inputs": {"audio": clip}},
        "bob": {
            "class_type": "OmniVoiceReferenceAudio",
            "inputs": {"model": ["load", 0], "audio": ["clip", 0], "transcript": "Good morning."},
        },
        "say": {"class_type": "OmniVoiceSubtitles", "inputs": say},
        "save": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 0], "filename_prefix": "audio/subtitles"}},
        "srt": {"class_type": "PreviewAny", "inputs": {"source": ["say", 1]}},
        "report": {"class_type": "PreviewAny", "inputs": {"source": ["say", 2]}},
    }


def run(comfy, prompt: dict) -> tuple[dict, dict]:
    """(what is in the audio file, {node: its text}) of a prompt that must succeed."""
    outputs = comfy.outputs(prompt)
    texts = {node: output["text"][0] for node, output in outputs.items() if "text" in output}
    return comfy.decode(audio_of(outputs)[0]), texts


def test_cues_are_spoken_by_the_cast_on_their_times(comfy) -> None:
    sound, texts = run(comfy, subtitles())
    assert (sound["rate"], sound["channels"], sound["samples"]) == (24_000, 1, 96_000)
    assert sound["finite"] and sound["rms"] > 1e-3
    assert "00:00:00,500 --> 00:00:02,000\nHelen: Hello there.\n" in texts["srt"]
    assert "00:00:02,100 --> 00:00:03,013\nBob: Good bye.\n" in texts["srt"]
    assert texts["report"].startswith("2 cues spoken, 1 not spoken, 4.000 s, mode fit")
    assert "voice: 'Helen', a described voice, 1 cues" in texts["report"]
    assert "voice: 'Bob', a recording of" in texts["report"]
    assert "cue 3 (line 10): [door slams]: a description of a sound" in texts["report"]


def test_the_list_of_voices_may_be_short_or_empty(comfy) -> None:
    prompt = subtitles(total_seconds=5.5, mode="fill")
    del prompt["say"]["inputs"]["voices.voice_1"]
    sound, texts = run(comfy, prompt)
    assert sound["samples"] == 132_000
    assert "voice: 'Helen', the model's own choice, 1 cues" in texts["report"]
    prompt = subtitles(names="")
    for key in ("voices.voice_1", "voices.voice_2"):
        del prompt["say"]["inputs"][key]
    assert "not in the cast, so the default voice speaks their cues: 'Helen' (1)" not in run(comfy, prompt)[1]["report"]


def test_wrong_subtitles_are_refused_when_they_are_queued(comfy) -> None:
    for text, message in (
        ("Hello", "subtitles must have times"),
        (SRT.replace("00:00:03,013", "x"), "line 6: the times"),
    ):
        status, body = comfy.request("/prompt", {"prompt": subtitles(subtitles=text), "client_id": comfy.client})
        assert status == 400
        details = [error["details"] for error in json.loads(body)["node_errors"]["say"]["errors"]]
        assert any(message in detail for detail in details), details


def test_a_wrong_total_stops_the_run_with_the_reason(comfy) -> None:
    ended, data = comfy.run(subtitles(total_seconds=1.0))
    assert ended == "execution_error"
    assert "total_seconds must be 0 or at least 4, where the last cue ends, got 1" in data["exception_message"]
    run(comfy, subtitles())  # the next prompt works
