"""Every example on a real ComfyUI, over HTTP: it runs, once; lists keep their order; odd recordings and old prompts."""

from __future__ import annotations

import json
import math
import subprocess
import urllib.parse
import wave
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "workflows" / "api"
# Files that each makes.
MADE = {
    "01_first_sentence": 2,  # the audio and its picture
    "02_design_a_voice": 1,
    "03_clone_a_voice": 1,
    "04_keep_a_voice": 2,
    "05_many_lines": 4,  # each line, and all of them
    "06_dialogue": 1,
    "07_speech_for_video": 1,
    "08_apply_a_lora": 1,
    "09_train_a_lora": 2,  # the loss curve and the audio
    "10_subtitles": 2,  # the audio and the video
    "11_dub_a_clip": 2,
    "12_audiobook": 1,
    "13_edit_speech": 2,  # before and after
    "14_redo_a_line": 5,  # before, after and each take
}
VIDEO = """
import av, json, sys
with av.open(sys.argv[1]) as file:
    rate, sound = file.streams.video[0].average_rate, file.streams.audio[0]
    samples = sum(frame.samples for frame in file.decode(sound))
with av.open(sys.argv[1]) as file:
    frames = sum(1 for _ in file.decode(video=0))
print(json.dumps({"frames": frames, "rate": float(rate), "sound_rate": sound.rate, "sound_samples": samples}))
"""


def workflow(name: str) -> dict:
    return json.loads((API / f"{name}.json").read_text(encoding="utf-8"))


def ids(prompt: dict, kind: str) -> list[str]:
    return [key for key, node in prompt.items() if node["class_type"] == kind]


def outputs(comfy, prompt: dict) -> tuple[dict, list[tuple[str, dict]]]:
    """Runs a prompt that must succeed: its outputs in the history, and everything the websocket said."""
    prompt_id = comfy.submit(prompt)
    events = list(comfy.events(prompt_id))
    assert events[-1][0] == "execution_success", events[-1][1].get("exception_message", events[-1])
    comfy.files(prompt_id)  # waits for the history
    return comfy.get(f"/history/{prompt_id}")[prompt_id]["outputs"], events


def files(found: dict) -> list[dict]:
    return [file for output in found.values() for key in ("audio", "images") for file in output.get(key, [])]


def failure(comfy, prompt: dict) -> str:
    ended, data = comfy.run(prompt)
    assert ended == "execution_error", data
    return data["exception_message"]


def refusal(comfy, prompt: dict) -> str:
    status, body = comfy.request("/prompt", {"prompt": prompt, "client_id": comfy.client})
    assert status == 400, body
    return " ".join(e["details"] for node in json.loads(body)["node_errors"].values() for e in node["errors"])


def ran(events: list[tuple[str, dict]]) -> list[str]:
    return [data["node"] for kind, data in events if kind == "executing" and data.get("node")]


def test_every_example_is_known() -> None:
    assert sorted(MADE) == sorted(path.stem for path in API.glob("*.json"))


@pytest.mark.parametrize("name", MADE)
def test_workflow_runs_once(comfy, name: str) -> None:
    """It makes its files; the same again does no work at all."""
    prompt = workflow(name)
    found, events = outputs(comfy, prompt)
    made = files(found)
    assert len(made) == MADE[name] and [kind for kind, _ in events].count("progress") > 0
    for file in made:
        if file["filename"].endswith(".flac"):
            sound = comfy.decode(file)
            assert sound["rate"] == 24_000 and sound["finite"] and sound["rms"] > 1e-3 and sound["samples"] > 12_000
    _, again = outputs(comfy, prompt)
    (cached,) = [data["nodes"] for kind, data in again if kind == "execution_cached"]
    assert sorted(cached) == sorted(prompt)
    assert ran(again) == [] and "progress" not in [kind for kind, _ in again]


def test_list_outputs_are_in_order(comfy) -> None:
    """Three lines: their files, seconds and reports tell of the same three, in the order of the lines."""
    prompt = workflow("05_many_lines")
    (say,) = ids(prompt, "OmniVoiceSynthesize")
    prompt["90"] = {"class_type": "PreviewAny", "inputs": {"source": [say, 2]}}
    prompt["91"] = {"class_type": "PreviewAny", "inputs": {"source": [say, 3]}}
    found, _ = outputs(comfy, prompt)
    lines = prompt[say]["inputs"]["text"].splitlines()
    seconds = [float(text) for text in found["90"]["text"]]
    assert len(seconds) == len(lines) == 3 and seconds[0] < seconds[1] < seconds[2]
    assert all(line in report for line, report in zip(lines, found["91"]["text"], strict=True))
    each, joined = (
        [comfy.decode(file)["samples"] / 24_000 for file in files({key: found[key]})]
        for key in sorted(ids(prompt, "PreviewAudio"), key=lambda key: prompt[key]["inputs"]["audio"][0] != say)
    )
    assert each == pytest.approx(seconds, abs=1e-4)
    (join,) = ids(prompt, "OmniVoiceJoinAudio")
    assert joined == pytest.approx([sum(seconds) + 2 * prompt[join]["inputs"]["gap_seconds"]], abs=1e-4)


def test_video_lasts_as_long_as_the_speech(comfy) -> None:
    prompt = workflow("07_speech_for_video")
    (say,) = ids(prompt, "OmniVoiceSynthesize")
    (count,) = ids(prompt, "OmniVoiceSecondsToFrames")
    for key, link in {"90": [say, 2], "91": [count, 0]}.items():
        prompt[key] = {"class_type": "PreviewAny", "inputs": {"source": link}}
    found, _ = outputs(comfy, prompt)
    seconds, frames = float(found["90"]["text"][0]), int(found["91"]["text"][0])
    assert frames == math.ceil(seconds * 24) > 24
    (file,) = files({key: output for key, output in found.items() if "images" in output})
    query = urllib.parse.urlencode({k: file[k] for k in ("filename", "subfolder", "type")})
    path = comfy.base / "video.mp4"
    path.write_bytes(comfy.request(f"/view?{query}")[1])
    done = subprocess.run([comfy.python, "-c", VIDEO, str(path)], capture_output=True, text=True, check=True)
    video = json.loads(done.stdout)
    assert (video["frames"], video["rate"], video["sound_rate"]) == (frames, 24.0, 24_000)
    assert video["sound_samples"] / 24_000 == pytest.approx(seconds, abs=0.1)  # whole packets


def test_a_locked_voice_is_saved_for_later(comfy) -> None:
    prompt = workflow("04_keep_a_voice")
    outputs(comfy, prompt)
    assert (comfy.base / "models" / "omnivoice_voices" / "example narrator.safetensors").is_file()
    reread = {
        "1": {"class_type": "OmniVoiceLoadVoice", "inputs": {"voice_name": "example narrator"}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 1]}},
    }
    found, _ = outputs(comfy, reread)
    (cast, *_) = ids(prompt, "OmniVoiceSynthesize")
    assert found["2"]["text"] == [prompt[cast]["inputs"]["text"]]


def test_a_reference_is_encoded_once_whatever_uses_it(comfy) -> None:
    """Two Synthesize nodes on one voice; then another text."""
    prompt = workflow("03_clone_a_voice")
    (voice,), (say,), (save,) = (
        ids(prompt, k) for k in ("OmniVoiceReferenceAudio", "OmniVoiceSynthesize", "PreviewAudio")
    )
    prompt[voice]["inputs"]["transcript"] += " Once."
    prompt["90"] = {**prompt[say], "inputs": {**prompt[say]["inputs"], "text": "The second of two nodes."}}
    prompt["91"] = {**prompt[save], "inputs": {**prompt[save]["inputs"], "audio": ["90", 0]}}
    found, events = outputs(comfy, prompt)
    assert len(files(found)) == 2 and ran(events).count(voice) == 1 and {say, "90"} <= set(ran(events))
    prompt["90"]["inputs"]["text"] = "The second of two nodes, later."
    assert voice not in ran(outputs(comfy, prompt)[1])


def odd(kind: str, transcript: str = "") -> dict:
    prompt = workflow("03_clone_a_voice")
    (voice,), (audio,) = (ids(prompt, k) for k in ("OmniVoiceReferenceAudio", "LoadAudio"))
    prompt["90"] = {"class_type": "OddAudio", "inputs": {"audio": [audio, 0], "kind": kind}}
    prompt[voice]["inputs"].update(audio=["90", 0], transcript=transcript)
    return prompt


ODD = {
    "none": "audio must be ComfyUI's AUDIO, got None: connect Load Audio or Record Audio",
    "silent": "the reference is silent: check that the right track was recorded",
    "nan": "the reference must be finite, got NaN or infinite samples",
    "empty": "the reference is empty, got 0 samples: give 3-10 s of one speaker",
    "no_rate": "the audio's sample_rate must be a whole number of Hz, 4000-384000, got 'fast'",
    "flat": "audio must hold a float waveform [batch, channels, samples], got (1, ",
}


@pytest.mark.parametrize("kind", ODD)
def test_unusable_recordings_are_refused_in_words(comfy, kind: str) -> None:
    assert ODD[kind] in failure(comfy, odd(kind))


def test_a_batch_of_recordings_is_a_list_of_voices(comfy) -> None:
    assert len(files(outputs(comfy, odd("batch"))[0])) == 3
    assert len(files(outputs(comfy, odd("batch", "One.\nTwo.\nThree."))[0])) == 3
    assert "one line for each of the 3 recordings, or be empty, got 2 lines" in failure(
        comfy, odd("batch", "One.\nTwo.")
    )


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 2), (8_000, 1), (48_000, 2), (96_000, 6)])
def test_any_rate_and_channel_count(comfy, rate: int, channels: int) -> None:
    seconds = np.arange(4 * rate) / rate
    wobble = np.sin(2 * np.pi * 180 * seconds * (1 + 0.1 * np.sin(2 * seconds))) * (np.sin(4 * seconds) > -0.5)
    sound = np.stack([wobble * 0.3 / (1 + c) for c in range(channels)], axis=1)
    name = f"odd_{rate}_{channels}.wav"
    with wave.open(str(comfy.base / "input" / name), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes((sound * 32_767).astype("<i2").tobytes())
    prompt = workflow("03_clone_a_voice")
    prompt[ids(prompt, "LoadAudio")[0]]["inputs"]["audio"] = name
    (file,) = files(outputs(comfy, prompt)[0])
    assert comfy.decode(file)["rate"] == 24_000


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"text": ""}, "nothing to speak"),
        ({"text": " \n\t "}, "nothing to speak"),
        ({"text": "..."}, "nothing to speak"),
        ({"text": "a [pause 31s] b"}, "pause"),
    ],
    ids=str,
)
def test_what_can_be_known_is_refused_at_validation(comfy, values: dict, message: str) -> None:
    prompt = workflow("02_design_a_voice")
    prompt[ids(prompt, "OmniVoiceSynthesize")[0]]["inputs"].update(values)
    assert message in refusal(comfy, prompt)


def test_a_prompt_with_nothing_but_the_required_inputs_runs(comfy) -> None:
    """As an engineer writes it by hand for the HTTP interface."""
    nodes = comfy.get("/object_info")
    prompt = {
        key: {**node, "inputs": {k: v for k, v in node["inputs"].items() if k in required(nodes, node) or k == "voice"}}
        for key, node in workflow("03_clone_a_voice").items()
    }
    (say,) = ids(prompt, "OmniVoiceSynthesize")
    assert "settings" not in prompt[say]["inputs"] and "preset" not in prompt[say]["inputs"]
    assert len(files(outputs(comfy, prompt)[0])) == 1


def required(nodes: dict, node: dict) -> set[str]:
    return set(nodes[node["class_type"]]["input"].get("required", {}))


def test_what_the_browser_asks_for_is_served(comfy) -> None:
    """Templates with their pictures, help pages, translations."""
    (pack,) = [name for name in comfy.get("/api/workflow_templates") if "omnivoice" in name]
    assert sorted(comfy.get("/api/workflow_templates")[pack]) == sorted(MADE)
    for name in MADE:
        for suffix in ("json", "jpg"):
            status, body = comfy.request(f"/api/workflow_templates/{pack}/{name}.{suffix}")
            assert (status, body) == (200, (ROOT / "workflows" / f"{name}.{suffix}").read_bytes())
    status, body = comfy.request(f"/extensions/{pack}/docs/OmniVoiceSynthesize.md")
    assert status == 200 and body.startswith(b"# OmniVoice Synthesize")
    texts = comfy.get("/i18n")
    for locale in (path.name for path in (ROOT / "locales").iterdir()):
        assert texts[locale]["nodeDefs"]["OmniVoiceSynthesize"]["display_name"]


def test_the_log_stayed_clean(comfy) -> None:
    log = comfy.log_text()
    assert "IMPORT FAILED" not in log and "prompt_worker" not in log
    assert comfy.process.poll() is None
