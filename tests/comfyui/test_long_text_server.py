"""Long Text on a real ComfyUI: the same samples after a kill and a cancel, and what the browser is told meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

SENTENCES = [f"It was a long and quite remarkable sentence about the weather of number {i}." for i in range(24)]
TEXT = f"# One\n{' '.join(SENTENCES[:12])}\n# Two\n{' '.join(SENTENCES[12:])}"


def long_text(**inputs: object) -> dict:
    settings = {
        "class_type": "OmniVoiceSettings",
        "inputs": {"steps": 4, "chunk_seconds": 5.0, "chunk_threshold_seconds": 5.0},
    }
    say = {"model": ["load", 0], "text": TEXT, "name": "book", "seed": 7, "settings": ["settings", 0], **inputs}
    return {
        "load": {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "fp32"}},
        "settings": settings,
        "say": {"class_type": "OmniVoiceLongText", "inputs": say},
        "save": {"class_type": "SaveAudio", "inputs": {"audio": ["say", 0], "filename_prefix": "audio/book"}},
        "report": {"class_type": "PreviewAny", "inputs": {"source": ["say", 3]}},
    }


def finish(comfy, prompt: dict) -> tuple[bytes, str, list[dict]]:
    """(the MD5 of the samples, the report, what the browser was told while it ran) of a prompt that must succeed."""
    prompt_id = comfy.submit(prompt)
    events = list(comfy.events(prompt_id))
    assert events[-1][0] == "execution_success", events[-1]
    (file,) = comfy.files(prompt_id)
    status, body = comfy.request(f"/view?filename={file['filename']}&subfolder={file['subfolder']}&type={file['type']}")
    assert status == 200
    report = comfy.get(f"/history/{prompt_id}")[prompt_id]["outputs"]["report"]["text"][0]
    told = [data["output"] for kind, data in events if kind == "executed" and data["node"] == "say"]
    assert body[:4] == b"fLaC" and any(body[26:42])  # STREAMINFO has the MD5 of the samples
    return body[26:42], report, told


def stop_after(comfy, prompt: dict, parts: int, stop: Callable[[], None]) -> None:
    """Queue a prompt and call `stop` once so many parts can be heard."""
    prompt_id = comfy.submit(prompt)
    for kind, data in comfy.events(prompt_id):
        if kind == "executed" and data["node"] == "say" and data["output"]["omnivoice_long_first"] == [parts - 1]:
            stop()
            return
    raise AssertionError("it ended before it could be stopped")


def kept(comfy, name: str = "book") -> int:
    folder = comfy.base / "output" / "omnivoice" / "long" / name
    return len(list(folder.glob("*.safetensors")))


@pytest.fixture(scope="module")
def whole(comfy) -> tuple[bytes, str, list[dict]]:
    return finish(comfy, long_text(name="whole"))


def test_parts_are_told_while_it_runs_and_can_be_fetched(comfy, whole) -> None:
    _, report, told = whole
    *during, end = told
    assert len(during) == kept(comfy, "whole") > 4
    assert [output["omnivoice_long_first"] for output in during] == [[i] for i in range(len(during))]
    assert end["omnivoice_long"] == [name for output in during for name in output["omnivoice_long"]]
    for name in end["omnivoice_long"]:
        status, body = comfy.request(f"/view?filename={name}&subfolder=omnivoice_long&type=temp")
        assert status == 200 and body[:4] == b"RIFF"
    assert f"{len(during)} parts, 0 of them from an earlier run" in report


def test_a_killed_server_goes_on_where_it_was(comfy, comfy_factory, whole) -> None:
    """The second server works in a copy of the first one's folder, with the same model files."""
    first = comfy_factory()
    stop_after(first, long_text(), 3, lambda: os.kill(first.process.pid, signal.SIGKILL))
    first.process.wait(timeout=30)
    made = kept(first)
    assert 3 <= made < kept(comfy, "whole")

    def prepare(base: Path) -> None:
        shutil.rmtree(base / "models" / "omnivoice")
        (base / "models" / "omnivoice").symlink_to(first.base / "models" / "omnivoice")
        shutil.copytree(first.base / "output", base / "output")

    sound, report, _ = finish(comfy_factory(prepare=prepare), long_text())
    assert sound == whole[0]
    assert f"{kept(comfy, 'whole')} parts, {made} of them from an earlier run" in report


def test_cancel_and_queue_again_goes_on_where_it_was(comfy, whole) -> None:
    prompt = long_text(name="cancelled")
    prompt_id = comfy.submit(prompt)
    ended = ""
    for kind, data in comfy.events(prompt_id):
        if kind == "executed" and data["node"] == "say" and data["output"]["omnivoice_long_first"] == [1]:
            comfy.interrupt()
        ended = kind
    assert ended == "execution_interrupted"
    made = kept(comfy, "cancelled")
    assert 2 <= made < kept(comfy, "whole")
    sound, report, _ = finish(comfy, prompt)
    assert sound == whole[0]
    assert f"{made} of them from an earlier run" in report


@pytest.mark.parametrize("name", ["..", "a/b", "C:\\x", "nul", ""])
def test_bad_names_are_refused_when_they_are_queued(comfy, name: str) -> None:
    status, body = comfy.request("/prompt", {"prompt": long_text(name=name), "client_id": comfy.client})
    assert status == 400
    assert b"name is the name of a folder in output/omnivoice/long" in body
