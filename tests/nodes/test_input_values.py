"""Every input of four nodes with values that ComfyUI lets through: None, literals on sockets, other types and names.

None on an optional input means "not connected". On a required input it is refused, as any other wrong value is, by
the input's name and before anything is loaded. test_transcribe_node.py has the wrong names of Whisper models.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

NODES = ["LoadOmniVoice", "OmniVoiceReferenceAudio", "OmniVoiceVoiceDesignAttributes", "OmniVoiceTranscribe"]
REQUIRED = {
    ("LoadOmniVoice", "model_name"),
    ("OmniVoiceReferenceAudio", "model"),
    ("OmniVoiceReferenceAudio", "audio"),
    ("OmniVoiceTranscribe", "audio"),
    ("OmniVoiceTranscribe", "model_name"),
}
WRONG = [3, 1.5, True, [], ["auto"], {}, {"__value__": "auto"}, object()]


def audio() -> dict[str, object]:
    return {"waveform": 0.3 * torch.sin(torch.arange(48_000) * 0.05)[None, None], "sample_rate": 24_000}


@pytest.fixture(scope="module")
def model(loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory) -> object:
    stand_in.reset(tmp_path_factory.mktemp("models"))
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    loaded_pack.host.models.register_model_folder()
    return loaded_pack.load.LoadOmniVoice.execute(model_name="OmniVoice").values[0]


@pytest.fixture
def good(model: object, host, pack: SimpleNamespace, checkpoint: Path, monkeypatch) -> dict[str, dict[str, object]]:
    """A value for every required input, with a model of each kind installed and Whisper replaced."""
    host.folder.mkdir(parents=True, exist_ok=True)
    (host.folder / "OmniVoice").symlink_to(checkpoint)
    pack.host.models.register_model_folder()
    monkeypatch.setattr(pack.host.transcribe, "model_folders", lambda: {"tiny": checkpoint})
    monkeypatch.setattr(pack.host.transcribe, "load_whisper", lambda name: pytest.fail("loaded before checks"))
    silence = {"waveform": torch.zeros(1, 1, 16_000), "sample_rate": 16_000}
    return {
        "LoadOmniVoice": {"model_name": "OmniVoice"},
        "OmniVoiceReferenceAudio": {"model": model, "audio": audio()},
        "OmniVoiceVoiceDesignAttributes": {},
        "OmniVoiceTranscribe": {"audio": silence, "model_name": "tiny"},
    }


def all_inputs(nodes: dict[str, type]) -> list[tuple[str, str]]:
    return [(name, item.id) for name in NODES for item in nodes[name].define_schema().inputs]


def test_optional_inputs_are_those_with_a_default(nodes: dict[str, type]) -> None:
    for name in NODES:
        for item in nodes[name].define_schema().inputs:
            assert item.optional == ((name, item.id) not in REQUIRED), (name, item.id)


def test_none_on_an_optional_input_is_its_default(nodes: dict[str, type], good: dict[str, dict[str, object]]) -> None:
    for name, item in all_inputs(nodes):
        if (name, item) not in REQUIRED:
            nodes[name].execute(**good[name], **{item: None})


def test_none_on_a_required_input_is_refused_by_its_name(nodes: dict[str, type], good, host) -> None:
    for name, item in sorted(REQUIRED - {("OmniVoiceTranscribe", "model_name")}):
        with pytest.raises(ValueError, match=f"^{item} must .*got None"):
            nodes[name].execute(**{**good[name], item: None})
    assert host.loads == []


@pytest.mark.parametrize("value", WRONG, ids=lambda value: type(value).__name__ + str(value)[:9].strip("<"))
def test_another_type_is_refused_by_the_inputs_name(nodes: dict[str, type], good, host, value: object) -> None:
    for name, item in all_inputs(nodes):
        given = {**good[name], item: value}
        allowed = (name, item) == ("OmniVoiceTranscribe", "model_name") or (item == "word_times" and value is True)
        if not allowed:
            with pytest.raises(ValueError, match=rf"^(the (voice )?)?{item} must "):
                nodes[name].execute(**given)
    assert host.loads == []


def test_an_unknown_word_is_refused_with_what_is_allowed(nodes: dict[str, type], good) -> None:
    for name, item, value, message in (
        ("LoadOmniVoice", "model_name", "gone", "model_name must be one of OmniVoice, got 'gone': press R"),
        ("LoadOmniVoice", "dtype", "int4", "dtype must be one of auto, bf16, fp16, fp32, fastest, fp8, got 'int4'"),
        ("LoadOmniVoice", "graphs", "on", "graphs must be one of auto, off, got 'on'"),
        ("OmniVoiceVoiceDesignAttributes", "gender", "robot", "gender must be one of male, female, got 'robot'"),
        ("OmniVoiceVoiceDesignAttributes", "accent", "brittish accent", "did you mean british accent"),
        ("OmniVoiceTranscribe", "language", "Germann", r"language 'Germann' is not known: .*German \(de\)"),
    ):
        with pytest.raises(ValueError, match=message) as told:
            nodes[name].execute(**{**good[name], item: value})
        assert len(str(told.value)) < 300


def test_validation_takes_links_and_every_spelling_and_names_the_fault(nodes: dict[str, type], good) -> None:
    validate = nodes["OmniVoiceTranscribe"].validate_inputs
    assert validate() is True and validate(model_name="TINY") is True
    assert "model_name must be one of tiny" in validate(model_name="gone")
    load = nodes["LoadOmniVoice"].validate_inputs
    assert load() is True and load(model_name="omnivoice") is True
    assert "model_name must be one of OmniVoice" in load(model_name="gone")


def test_a_bad_recording_of_a_batch_is_named(nodes: dict[str, type], good, model: object, host) -> None:
    batch = {"waveform": audio()["waveform"].repeat(3, 1, 1), "sample_rate": 24_000}
    node = nodes["OmniVoiceReferenceAudio"]
    node.execute(model=model, audio=batch, transcript="One two three.\n\nFour five six.\nSeven eight nine.\n")
    batch["waveform"][1] = 0
    with pytest.raises(ValueError, match="recording 2 of 3: the reference is silent"):
        node.execute(model=model, audio=batch)
    batch["waveform"][1] = batch["waveform"][0]
    host.texts[:] = []
    node.execute(model=model, audio=batch, transcript=None)
    assert re.search("recording 3 of 3: .*no transcript", host.texts[0][0])
