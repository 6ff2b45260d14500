"""Dataset in a real ComfyUI: the menu, a folder, what is refused, and that a changed file runs it again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

RECORDING = Path(__file__).resolve().parents[1] / "assets" / "wav" / "reference.wav"
TEXT = "Good morning everyone, thank you for coming today."


@pytest.fixture(scope="module")
def folder(comfy) -> Path:
    """input/ann: one good clip, one without a transcript, one that lies outside."""
    folder = comfy.base / "input" / "ann"
    folder.mkdir()
    for name in ("a", "b"):
        shutil.copy(RECORDING, folder / f"{name}.wav")
    (folder / "a.txt").write_text(TEXT)
    (folder / "out.wav").symlink_to(RECORDING)
    (folder / "out.txt").write_text(TEXT)
    return folder


def prompt(folder: object = "ann", **more: object) -> dict:
    return {
        "load": {"class_type": "LoadOmniVoice", "inputs": {"model_name": "OmniVoice", "dtype": "auto"}},
        "audio": {"class_type": "LoadAudio", "inputs": {"audio": "omnivoice_reference.wav"}},
        "set": {
            "class_type": "OmniVoiceDataset",
            "inputs": {"model": ["load", 0], "folder": folder, "language": "English", **more},
        },
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["set", 1]}},
    }


def report(comfy, body: dict) -> str:
    """What PreviewAny was given, which must be one text."""
    prompt_id = comfy.submit(body)
    ended, data = list(comfy.events(prompt_id))[-1]
    assert ended == "execution_success", data
    comfy.files(prompt_id)  # waits for the history
    (text,) = comfy.get(f"/history/{prompt_id}")[prompt_id]["outputs"]["show"]["text"]
    return text


def test_menu_lists_the_folder(comfy, folder: Path) -> None:
    (comfy.base / "datasets" / "bob").mkdir(parents=True)
    node = comfy.get("/object_info/OmniVoiceDataset")["OmniVoiceDataset"]
    options = node["input"]["required"]["folder"]
    assert "ann" in str(options) and "none (use the audio input)" in str(options)
    assert ("datasets/bob" in str(options)) == (comfy.version >= (0, 30))
    assert node["output"] == ["OMNIVOICE_DATASET", "STRING", "INT", "FLOAT"]


def test_a_folder_and_a_change_in_it(comfy, folder: Path) -> None:
    told = report(comfy, prompt()).splitlines()
    assert told[0].startswith("1 of 3 clips, 3.3 s, languages: en (1)")
    assert told[1] == "rejected b.wav: it has no transcript: write its words into b.txt"
    assert told[2] == "rejected out.wav: it is outside the dataset folder"
    assert list((comfy.base / "user" / "omnivoice_codes").rglob("*.safetensors"))
    (folder / "b.txt").write_text(TEXT)
    told = report(comfy, prompt()).splitlines()
    assert told[0].startswith("2 of 3 clips") and told[1].startswith("clips with the recording and text")


def test_recordings_of_the_graph(comfy, folder: Path) -> None:
    told = report(comfy, prompt("none (use the audio input)", audio=["audio", 0], text=TEXT))
    assert told.startswith("1 of 1 clips")


@pytest.mark.parametrize("name", ["..", "../models", "/etc", "gone", "ann/../.."])
def test_folders_that_are_not_listed_give_http_400(comfy, folder: Path, name: str) -> None:
    status, body = comfy.request("/prompt", {"prompt": prompt(name)})
    assert status == 400 and "folder must be one of none (use the audio input), " in body.decode()


def test_refused_while_running(comfy, folder: Path) -> None:
    ended, data = comfy.run(prompt("none (use the audio input)"))
    assert ended == "execution_error" and "no recordings given" in data["exception_message"]
