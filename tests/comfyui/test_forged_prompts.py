"""Hostile clients of a real ComfyUI: forged prompts on a watched server, texts that are null, and its routes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.conftest import comfyui_path
from tests.fuzz.campaign import Run
from tests.fuzz.prompts import attack

MODEL = {"load": {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice"}}}
SETTINGS = {"settings": {"class_type": "OmniVoiceSettings", "inputs": {"steps": 1}}}
SPOKEN = {"model": ["load", 0], "settings": ["settings", 0], "preset": "draft"}


def outcome(comfy, kind: str, **inputs: object) -> tuple[str, list[str]]:
    """How a prompt with one node of `kind` ends, and the texts that its first outputs give, or the reason."""
    shown = {f"show {slot}": {"class_type": "PreviewAny", "inputs": {"source": ["node", slot]}} for slot in range(2)}
    prompt = {**MODEL, **SETTINGS, "node": {"class_type": kind, "inputs": inputs}, **shown}
    status, body = comfy.request("/prompt", {"prompt": prompt, "client_id": comfy.client})
    if status != 200:
        errors = json.loads(body)["node_errors"]["node"]["errors"]
        return f"HTTP {status}", [f"{one['extra_info']['input_name']}: {one['type']}" for one in errors]
    events = list(comfy.events(json.loads(body)["prompt_id"]))
    kind, data = events[-1]
    if kind == "execution_error":
        return kind, [data["exception_message"].strip()]
    return kind, [str(text) for name, told in events if name == "executed" for text in told["output"].get("text", ())]


# ComfyUI hands a node the word "None" where a prompt has null, so a node cannot tell the two apart.
NULLS = [
    ("OmniVoiceVoiceDesignAttributes", "description", {}, ("execution_success", [])),
    ("OmniVoiceDictionary", "entries", {}, ("HTTP 400", ["entries: custom_validation_failed"])),
    ("OmniVoicePreviewText", "text", {}, ("HTTP 400", ["text: custom_validation_failed"])),
    ("OmniVoiceDialogue", "script", {**SPOKEN, "names": "Anna"}, ("execution_success", [])),
    ("OmniVoiceSubtitles", "subtitles", SPOKEN, ("HTTP 400", ["subtitles: custom_validation_failed"])),
    ("OmniVoiceSynthesize", "text", SPOKEN, ("HTTP 400", ["text: custom_validation_failed"])),
    (
        "OmniVoiceTimings",
        "timings",
        {"format": "subtitles of words", "fps": 24.0},
        ("execution_error", ["timings must be the timings output of a node or the JSON file of narrate, got 'None'"]),
    ),
]


@pytest.mark.parametrize("kind, name, others, wanted", NULLS, ids=[kind for kind, *_ in NULLS])
def test_a_null_text_is_refused_or_the_word_none(comfy, kind: str, name: str, others: dict, wanted: tuple) -> None:
    ended, texts = first = outcome(comfy, kind, **{**others, name: None})
    assert first == outcome(comfy, kind, **{**others, name: None})
    assert (ended, [] if ended == "execution_success" else texts) == wanted


def test_the_pack_adds_no_route(comfy) -> None:
    """ComfyUI serves the files of its web folder and its workflows; nothing of the pack handles a request."""
    prompt = {
        "routes": {"class_type": "Routes", "inputs": {}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["routes", 0]}},
    }
    events = list(comfy.events(comfy.submit(prompt)))
    (text,) = [text for name, told in events if name == "executed" for text in told["output"]["text"]]
    routes = json.loads(text)
    assert len(routes) > 30 and any(path == "/prompt" for _, path, _ in routes)
    assert [route for route in routes if "omnivoice" in route[2].lower()] == []
    files = {
        f"{root}/omnivoice-nodes-dev" for root in ("/extensions", "/workflow_templates", "/api/workflow_templates")
    }
    ours = {(method, path) for method, path, _ in routes if "omnivoice" in path.lower()}
    assert ours and ours <= {
        (method, path) for method in ("GET", "HEAD") for path in (*files, "/extensions/omnivoice-nodes")
    }


def test_forged_prompts_do_no_harm(tmp_path: Path) -> None:
    if comfyui_path() is None:
        pytest.skip("no ComfyUI: set COMFYUI_PATH (and COMFYUI_PYTHON) to test on a real one")
    run = Run(random.Random("suite"), tmp_path, tmp_path / "kept", goal=60, seconds=1e9, timed=False)
    attack(run)
    assert not run.findings
    assert run.inputs >= 60 and run.accepted > 5 and run.refused > 5
