"""The pack on a real ComfyUI: it loads, both workflows speak, cancel works, and bad values do no harm."""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

WORKFLOWS = Path(__file__).resolve().parents[2] / "workflows" / "api"
IDS = [
    "LoadOmniVoice",
    "OmniVoiceReferenceAudio",
    "OmniVoiceVoiceDesignAttributes",
    "OmniVoiceSynthesize",
    "OmniVoiceSettings",
    "OmniVoiceSaveVoice",
    "OmniVoiceLoadVoice",
    "OmniVoiceDownload",
    "OmniVoiceTranscribe",
    "OmniVoiceApplyLoRA",
    "OmniVoiceDataset",
    "OmniVoiceTrainLoRA",
    "OmniVoiceTrainingSettings",
    "OmniVoiceJoinAudio",
    "OmniVoiceSecondsToFrames",
    "OmniVoiceFramesToSeconds",
    "OmniVoiceAudioImage",
    "OmniVoiceDialogue",
    "OmniVoiceTimings",
    "OmniVoiceSubtitles",
    "OmniVoiceLongText",
    "OmniVoiceDictionary",
    "OmniVoicePreviewText",
    "OmniVoiceTakes",
    "OmniVoiceEditSpeech",
    "OmniVoiceRedo",
    "OmniVoiceDisclose",
]
EXPERT = ("steps", "guidance")  # of Settings
BAD_LOG = ("IMPORT FAILED", "Error while calling comfy_entrypoint", "Traceback", "Cannot import")


def workflow(name: str, **synthesize: object) -> dict:
    """An API prompt of workflows/, quick, with inputs of its Synthesize node replaced and a Settings node added."""
    prompt = json.loads((WORKFLOWS / f"{name}.json").read_text(encoding="utf-8"))
    expert = {"steps": 4, **{key: synthesize.pop(key) for key in EXPERT if key in synthesize}}
    prompt["97"] = {"class_type": "OmniVoiceSettings", "inputs": expert}
    prompt[node_id(prompt, "OmniVoiceSynthesize")]["inputs"].update({"settings": ["97", 0], **synthesize})
    return prompt


def node_id(prompt: dict, kind: str) -> str:
    return next(key for key, node in prompt.items() if node["class_type"] == kind)


def check_speech(sound: dict) -> None:
    assert (sound["rate"], sound["channels"]) == (24_000, 1)
    assert sound["finite"] and sound["rms"] > 1e-3 and sound["samples"] > 12_000


def still_works(comfy) -> None:
    check_speech(comfy.speak(workflow("02_design_a_voice", text=f"The next prompt works, {time.monotonic_ns()}.")))


def error_text(data: dict) -> str:
    return f"{data.get('exception_type')}: {data.get('exception_message')}"


def test_it_loads(comfy) -> None:
    log, ready, _ = comfy.log_text().partition("To see the GUI go to")
    assert ready and "omnivoice-nodes-dev" in log
    assert [word for word in BAD_LOG if word in log] == []
    info = comfy.get("/object_info")
    for key in IDS:
        assert info[key]["category"] == "audio/omnivoice" and info[key]["description"]
        inputs = {**info[key]["input"].get("required", {}), **info[key]["input"].get("optional", {})}
        assert all(options[1]["tooltip"] for options in inputs.values())
    assert [key for key in info if key.startswith("OmniVoice") or key == "LoadOmniVoice"] == IDS
    names = info["LoadOmniVoice"]["input"]["required"]["model_name"]
    assert "OmniVoice" in (names[0] if isinstance(names[0], list) else names[1]["options"])


def test_described_voice(comfy) -> None:
    check_speech(comfy.speak(workflow("02_design_a_voice")))


def test_cloned_voice(comfy) -> None:
    check_speech(comfy.speak(workflow("03_clone_a_voice")))


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_every_dtype(comfy, dtype: str) -> None:
    prompt = workflow("02_design_a_voice")
    prompt[node_id(prompt, "LoadOmniVoice")]["inputs"]["dtype"] = dtype
    check_speech(comfy.speak(prompt))


def test_warnings_reach_the_log(comfy) -> None:
    prompt = workflow("03_clone_a_voice")
    prompt[node_id(prompt, "OmniVoiceReferenceAudio")]["inputs"]["transcript"] = ""
    check_speech(comfy.speak(prompt))
    assert "the reference has no transcript" in comfy.log_text()


def test_same_prompt_again_comes_from_the_cache(comfy) -> None:
    prompt = workflow("02_design_a_voice", text="Said once, heard twice.")
    comfy.speak(prompt)
    events = list(comfy.events(comfy.submit(prompt)))
    assert events[-1][0] == "execution_success"
    ran = {data["node"] for kind, data in events if kind == "executing" and data.get("node")}
    assert node_id(prompt, "OmniVoiceSynthesize") not in ran


def test_every_step_is_reported(comfy) -> None:
    prompt = workflow("02_design_a_voice", text="Progress, please.", steps=6)
    speak = node_id(prompt, "OmniVoiceSynthesize")
    events = list(comfy.events(comfy.submit(prompt)))
    steps = [data for kind, data in events if kind == "progress" and data["node"] == speak]
    assert [(s["value"], s["max"]) for s in (steps[0], steps[-1])] == [(1, 6), (6, 6)]


def test_cancel_in_mid_run(comfy) -> None:
    """Cancelled well before the end and at once; the same server then speaks."""
    prompt = workflow("02_design_a_voice", text="A long one. " * 60, steps=256)
    prompt_id, asked, last = comfy.submit(prompt), 0.0, {}
    for kind, data in comfy.events(prompt_id):
        if kind == "progress":
            last = data
            if not asked and data["value"] >= 2:
                comfy.interrupt()
                asked = time.monotonic()
    took = time.monotonic() - asked
    assert kind == "execution_interrupted" and asked
    assert last["value"] < last["max"] / 2
    print(f"cancelled {took:.2f} s after it was asked, at step {last['value']} of {last['max']}")
    still_works(comfy)


# Links skip ComfyUI's own range checks; PrimitiveInt and PrimitiveFloat are core nodes.
LINKED = [
    ("steps", "PrimitiveInt", 10**9, "steps must be 1-256, got 1000000000"),
    ("seed", "PrimitiveInt", -5, "seed must be 0-18446744073709551615, got -5"),
    ("speed", "PrimitiveFloat", -1.0, "speed must be 0.25-4, got -1.0"),
    ("duration", "PrimitiveFloat", -1.0, "duration must be above 0 and at most 600, got -1.0"),
    ("guidance", "PrimitiveFloat", 11.0, "guidance must be 0-10, got 11.0"),
]


@pytest.mark.parametrize("name, kind, value, message", LINKED)
def test_linked_value_out_of_range(comfy, name: str, kind: str, value: object, message: str) -> None:
    prompt = workflow("02_design_a_voice", **{name: ["99", 0]})
    prompt["99"] = {"class_type": kind, "inputs": {"value": value}}
    ended, data = comfy.run(prompt)
    assert ended == "execution_error" and message in error_text(data)
    still_works(comfy)


@pytest.mark.parametrize("name", ["guidance", "speed", "duration"])
@pytest.mark.parametrize("value", ["nan", float("nan")])
def test_nan(comfy, name: str, value: object) -> None:
    status, body = comfy.request(
        "/prompt", {"prompt": workflow("02_design_a_voice", **{name: value}), "client_id": comfy.client}
    )
    assert status in (200, 400)
    if status == 200:  # NaN passes min and max
        ended, data = list(comfy.events(json.loads(body)["prompt_id"]))[-1]
        assert ended == "execution_error" and f"{name} must be" in error_text(data)
    still_works(comfy)


@pytest.mark.parametrize("literal", [{"kind": "clone", "path": "/etc/passwd"}, "text", 3, [[0.0]]], ids=repr)
@pytest.mark.parametrize("name", ["model", "voice", "design", "settings"])
def test_literal_on_a_socket(comfy, name: str, literal: object) -> None:
    prompt = workflow("02_design_a_voice", **{name: literal})
    status, body = comfy.request("/prompt", {"prompt": prompt, "client_id": comfy.client})
    if status == 200:
        ended, data = list(comfy.events(json.loads(body)["prompt_id"]))[-1]
        assert ended == "execution_error" and f"{name} must come from" in error_text(data)
    else:
        assert status == 400
    still_works(comfy)


def test_forged_audio(comfy) -> None:
    prompt = workflow("03_clone_a_voice")
    prompt[node_id(prompt, "OmniVoiceReferenceAudio")]["inputs"]["audio"] = {
        "waveform": [[[0.0]]],
        "sample_rate": 24_000,
    }
    ended, data = comfy.run(prompt)
    assert ended == "execution_error" and "audio must hold a float waveform" in error_text(data)
    still_works(comfy)


def test_ordinary_bad_values_are_refused_by_the_server(comfy) -> None:
    """Each is named once: ComfyUI repeats the message of validate_inputs for every input that it names."""
    bad = {"steps": -1, "guidance": 25, "speed": 0.1, "duration": -1, "preset": "best", "seed": -1, "text": None}
    for name, value in bad.items():
        status, body = comfy.request("/prompt", {"prompt": workflow("02_design_a_voice", **{name: value})})
        errors = json.loads(body)["node_errors"]
        named = [e["extra_info"]["input_name"] for n in errors.values() for e in n["errors"]]
        assert status == 400 and named == [name]


@pytest.mark.parametrize("language", ["en", "en-US", "English", "id:la", None])
def test_language_over_http(comfy, language: str | None) -> None:
    check_speech(comfy.speak(workflow("02_design_a_voice", language=language)))


@pytest.mark.parametrize("written", [True, False])
def test_text_as_written_over_http(comfy, written: bool) -> None:
    prompt = workflow("02_design_a_voice", text="So {65:24} it <is>.")
    prompt["97"]["inputs"]["text_as_written"] = written
    check_speech(comfy.speak(prompt))


def test_unknown_language(comfy) -> None:
    ended, data = comfy.run(workflow("02_design_a_voice", language="Klingon"))
    assert ended == "execution_error" and "language 'Klingon' is not known" in error_text(data)


def test_a_wrong_line_is_named(comfy) -> None:
    ended, data = comfy.run(workflow("02_design_a_voice", text="One.\n\n...\n", split_lines=True))
    assert ended == "execution_error" and 'line 3 ("..."): nothing to speak' in error_text(data)


@pytest.mark.parametrize("name", ["../OmniVoice", "/etc", "omnivoice2", ""])
def test_model_name_outside_the_list(comfy, name: str) -> None:
    prompt = workflow("02_design_a_voice")
    prompt[node_id(prompt, "LoadOmniVoice")]["inputs"]["model_name"] = name
    status, body = comfy.request("/prompt", {"prompt": prompt})
    assert status == 400 and "model_name must be one of OmniVoice, demo voice" in body.decode()


def test_linked_model_name_is_checked_by_the_node(comfy) -> None:
    """A string reaches a combo through core's switch node, where the version has one."""
    if "ComfySwitchNode" not in comfy.get("/object_info"):
        pytest.skip("this ComfyUI has no ComfySwitchNode")
    prompt = workflow("02_design_a_voice")
    prompt["98"] = {"class_type": "PrimitiveString", "inputs": {"value": "../../../etc"}}
    switch = {"switch": True, "on_true": ["98", 0], "on_false": ["98", 0]}
    prompt["99"] = {"class_type": "ComfySwitchNode", "inputs": switch}
    prompt[node_id(prompt, "LoadOmniVoice")]["inputs"]["model_name"] = ["99", 0]
    ended, data = comfy.run(prompt)
    assert ended == "execution_error" and "model_name must be one of OmniVoice, demo voice" in error_text(data)
    assert "got '../../../etc': press R" in error_text(data)
    still_works(comfy)


def test_changed_model_is_loaded_anew(comfy) -> None:
    prompt = workflow("02_design_a_voice", text="Before and after.")
    comfy.speak(prompt)
    with (comfy.base / "models" / "omnivoice" / "OmniVoice" / "config.json").open("a") as file:
        file.write("\n")
    events = list(comfy.events(comfy.submit(copy.deepcopy(prompt))))
    assert events[-1][0] == "execution_success"
    ran = {data["node"] for kind, data in events if kind == "executing" and data.get("node")}
    assert node_id(prompt, "LoadOmniVoice") in ran


def test_damaged_model(comfy) -> None:
    """Half a weight file, then no codec: refused with a reason, without a path of this machine."""
    folder = comfy.base / "models" / "omnivoice" / "Damaged"
    shutil.copytree(folder.parent / "OmniVoice", folder)
    prompt = workflow("02_design_a_voice")
    prompt[node_id(prompt, "LoadOmniVoice")]["inputs"]["model_name"] = "Damaged"
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    ended, data = comfy.run(prompt)
    assert ended == "execution_error" and "model.safetensors" in error_text(data)
    assert str(comfy.base) not in data["exception_message"]
    shutil.rmtree(folder / "audio_tokenizer")
    ended, data = comfy.run(prompt)
    assert ended == "execution_error" and "audio_tokenizer" in error_text(data)
    assert str(comfy.base) not in data["exception_message"]
    shutil.rmtree(folder)
    still_works(comfy)


def test_without_a_model_the_nodes_are_there_and_say_what_to_do(comfy_factory: Callable[..., object]) -> None:
    bare = comfy_factory(with_model=False)
    info = bare.get("/object_info")
    assert set(IDS) <= set(info)
    menu = info["LoadOmniVoice"]["input"]["required"]["model_name"]
    (entry,) = menu[0] if isinstance(menu[0], list) else menu[1]["options"]
    assert entry == "demo voice (speaks a small vocabulary)"
    status, body = bare.request("/prompt", {"prompt": workflow("02_design_a_voice"), "client_id": bare.client})
    told = " ".join(e["details"] for node in json.loads(body)["node_errors"].values() for e in node["errors"])
    assert (
        status == 400 and "no model found in models/omnivoice" in told and "demo voice" in told and "Download" in told
    )
    check_speech(bare.speak(workflow("01_first_sentence")))


def test_the_log_stayed_clean(comfy) -> None:
    """Last: no error of ours but those that the tests above provoked, each told as one exception."""
    log = comfy.log_text()
    assert "IMPORT FAILED" not in log and "prompt_worker" not in log
    assert comfy.process.poll() is None
