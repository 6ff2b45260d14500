"""The four nodes against a stand-in for ComfyUI, with the real engine and the tiny model."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

IDS = ["LoadOmniVoice", "OmniVoiceReferenceAudio", "OmniVoiceVoiceDesignAttributes", "OmniVoiceSynthesize"]
LITERALS = [
    {"kind": "clone", "path": "/etc/passwd"}, {"__value__": 1}, "text", "", 0, 1.5, True, [], [[0.0]], ["1", 0], {},
    object(),
]  # fmt: skip


@pytest.fixture(scope="module")
def loaded(
    loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> object:
    """The tiny model, loaded once for all tests by the node."""
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    return run(loaded_pack.load.LoadOmniVoice, model_name="OmniVoice", dtype="auto")


@pytest.fixture
def model(loaded: object, host) -> object:
    return loaded


def run(node: type, **inputs: object) -> object:
    (value,) = node.execute(**inputs).values
    return value


def test_ids_and_descriptions(nodes: dict[str, type]) -> None:
    assert list(nodes) == IDS
    for node in nodes.values():
        schema = node.define_schema()
        assert schema.category == "audio/omnivoice" and schema.display_name and schema.description.endswith(".")
        assert all(item.tooltip for item in (*schema.inputs, *schema.outputs))
        assert len({item.id for item in schema.inputs}) == len(schema.inputs)


def test_ranges_are_the_engines(nodes: dict[str, type], pack: SimpleNamespace) -> None:
    numbers = [i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.kind in ("INT", "FLOAT")]
    assert [i.id for i in numbers] == ["seed", "steps", "guidance", "speed", "duration"]
    limits = pack.synthesize.real.__globals__["LIMITS"]
    assert [(i.min, i.max) for i in numbers] == [(limits[i.id].low, limits[i.id].high) for i in numbers]
    assert all(i.min <= i.default <= i.max for i in numbers)


def test_menus(nodes: dict[str, type]) -> None:
    languages = next(i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.id == "language").options
    assert languages[0] == "auto" and len(languages) == len(set(languages)) == 647 and "Cantonese" in languages
    design = {i.id: i.options for i in nodes["OmniVoiceVoiceDesignAttributes"].define_schema().inputs}
    assert [len(options) for options in design.values()] == [3, 6, 6, 2, 11, 13]
    assert all(options[0] == "auto" for options in design.values())


def test_every_language_of_the_menu_is_known(nodes: dict[str, type], pack: SimpleNamespace) -> None:
    from omnivoice.text.languages import resolve_language

    languages = next(i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.id == "language").options
    found = [resolve_language(name) for name in languages[1:]]
    assert all(not warnings for _, warnings in found)
    assert len({language for language, _ in found}) == 646


def test_every_attribute_of_the_menus_is_known(nodes: dict[str, type]) -> None:
    node = nodes["OmniVoiceVoiceDesignAttributes"]
    assert run(node) is None
    for item in node.define_schema().inputs:
        for word in item.options[1:]:
            assert run(node, **{item.id: word}).attributes


def test_attributes_become_a_design(nodes: dict[str, type]) -> None:
    design = run(nodes["OmniVoiceVoiceDesignAttributes"], gender="female", age="auto", accent="british accent")
    assert design.attributes == ("female", "british accent")
    with pytest.raises(ValueError, match="accent"):
        run(nodes["OmniVoiceVoiceDesignAttributes"], accent="british accent", dialect="sichuan dialect")


@pytest.mark.parametrize("value", ["robot", 1, ["male"], "male, female", "elderly"], ids=repr)
def test_attribute_outside_the_menu(nodes: dict[str, type], value: object) -> None:
    with pytest.raises(ValueError, match=r"gender must be (one of male, female|a string), got"):
        run(nodes["OmniVoiceVoiceDesignAttributes"], gender=value)


def test_text_to_audio(nodes: dict[str, type], model: object, host) -> None:
    audio = run(nodes["OmniVoiceSynthesize"], model=model, text="Hello there.", seed=3, steps=4, duration=1.0)
    waveform = audio["waveform"]
    assert waveform.dtype == torch.float32 and waveform.is_contiguous() and waveform.shape[:2] == (1, 1)
    assert audio["sample_rate"] == 24_000 and bool(torch.isfinite(waveform).all()) and float(waveform.std()) > 1e-4
    assert host.progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    models, memory = host.loads[-1]
    assert models == [model.lm, model.decoder] and memory > 0
    assert "encoder" not in vars(model) and "encoder" not in vars(model.engine)
    again = run(nodes["OmniVoiceSynthesize"], model=model, text="Hello there.", seed=3, steps=4, duration=1.0)
    assert torch.equal(waveform, again["waveform"])


def test_reference_and_design_to_audio(nodes: dict[str, type], model: object, host) -> None:
    tone = 0.3 * torch.sin(torch.arange(66_150) * 0.05).expand(1, 2, -1)
    before = tone.clone()
    audio = {"waveform": tone, "sample_rate": 22_050}
    voice = run(nodes["OmniVoiceReferenceAudio"], model=model, audio=audio, transcript="One, two, three, four, five.")
    assert torch.equal(tone, before)
    assert host.loads == [([model.encoder], host.loads[0][1])] and host.loads[0][1] > 0
    design = run(nodes["OmniVoiceVoiceDesignAttributes"], gender="male")
    spoken = run(nodes["OmniVoiceSynthesize"], model=model, text="Hello.", steps=2, voice=voice, design=design)
    assert spoken["waveform"].shape[2] > 2_400


@pytest.mark.parametrize("dtype", ["auto", "bf16", "fp16", "fp32"])
def test_every_dtype_of_the_menu(nodes: dict[str, type], host, checkpoint: Path, dtype: str) -> None:
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    options = next(i for i in nodes["LoadOmniVoice"].define_schema().inputs if i.id == "dtype").options
    assert options == ["auto", "bf16", "fp16", "fp32"]
    loaded = run(nodes["LoadOmniVoice"], model_name="OmniVoice", dtype=dtype)
    wanted = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)
    assert {p.dtype for p in loaded.lm.model.parameters()} == {wanted}
    for half in (loaded.decoder, loaded.encoder):
        assert {p.dtype for p in half.model.parameters()} == {torch.float32}
    audio = run(nodes["OmniVoiceSynthesize"], model=loaded, text="Hello.", steps=2)
    assert bool(torch.isfinite(audio["waveform"]).all()) and float(audio["waveform"].std()) > 1e-4


def test_missing_transcript_is_said(nodes: dict[str, type], model: object, host) -> None:
    tone = {"waveform": 0.3 * torch.sin(torch.arange(72_000) * 0.05)[None, None], "sample_rate": 24_000}
    run(nodes["OmniVoiceReferenceAudio"], model=model, audio=tone, transcript="")
    assert "transcript" in host.texts[0][0] and host.texts[0][1] == "7"


def test_cancel_stops_at_the_next_step(
    nodes: dict[str, type], model: object, host, interrupt: type[BaseException]
) -> None:
    host.interrupt_after = 2
    with pytest.raises(interrupt):
        run(nodes["OmniVoiceSynthesize"], model=model, text="Hello.", steps=16)
    assert len(host.progress) == 2
    host.interrupt_after, host.progress[:] = None, []
    run(nodes["OmniVoiceSynthesize"], model=model, text="Hello.", steps=3)
    assert len(host.progress) == 3


BAD = [
    ("seed", -1, "seed must be"), ("seed", 2**64, "seed must be"), ("seed", 1.0, "seed must be"),
    ("steps", 10**9, "steps must be 1-256, got 1000000000"), ("steps", 0, "steps must be"),
    ("steps", True, "steps must"), ("steps", "32", "steps must"), ("guidance", 25, "guidance must be 0-10, got 25"),
    ("guidance", math.nan, "guidance must"), ("guidance", "nan", "guidance must"),
    ("guidance", None, "guidance must"), ("speed", 0, "speed must"), ("speed", -1.0, "speed must"),
    ("speed", 1e308, "speed must"), ("speed", 5e-324, "speed must"), ("duration", -1, "duration must"),
    ("duration", math.nan, "duration must"), ("duration", 1e9, "duration must"), ("duration", False, "duration must"),
    ("duration", math.inf, "duration must"), ("text", None, "text must be a string"),
    ("text", {"a": 1}, "text must be a string"), ("text", "", "text"), ("text", "____", "text"),
    ("text", "a" * 200_001, "text must be at most 200000 characters"), ("language", 3, "language must be"),
    ("language", None, "language must be"),
]  # fmt: skip


@pytest.mark.parametrize("name, value, message", BAD, ids=lambda v: repr(v)[:30])
def test_bad_value_is_refused_before_anything_runs(
    nodes: dict[str, type], model: object, host, name: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run(nodes["OmniVoiceSynthesize"], **{"model": model, "text": "Hello.", name: value})
    assert host.loads == [] and host.progress == []


@pytest.mark.parametrize("literal", LITERALS, ids=repr)
def test_literal_on_a_socket_is_refused(nodes: dict[str, type], model: object, host, literal: object) -> None:
    speak, reference = nodes["OmniVoiceSynthesize"], nodes["OmniVoiceReferenceAudio"]
    for node, inputs in ((speak, {"text": "Hello."}), (reference, {"audio": None, "transcript": ""})):
        with pytest.raises(ValueError, match="model must come from Load OmniVoice, got"):
            run(node, model=literal, **inputs)
    with pytest.raises(ValueError, match="voice must come from Reference Audio, got"):
        run(speak, model=model, text="Hello.", voice=literal)
    with pytest.raises(ValueError, match="design must come from Voice Design Attributes, got"):
        run(speak, model=model, text="Hello.", design=literal)
    assert host.loads == []


@pytest.mark.parametrize("transcript", [None, 3, {"a": 1}, "a" * 2_001], ids=lambda v: repr(v)[:20])
def test_bad_transcript(nodes: dict[str, type], model: object, transcript: object) -> None:
    audio = {"waveform": torch.zeros(1, 1, 48_000), "sample_rate": 24_000}
    with pytest.raises(ValueError, match="transcript must be"):
        run(nodes["OmniVoiceReferenceAudio"], model=model, audio=audio, transcript=transcript)


def test_unusable_recording(nodes: dict[str, type], model: object) -> None:
    for samples in (torch.full((1, 1, 48_000), math.nan), torch.zeros(1, 1, 48_000), torch.zeros(1, 1, 0)):
        with pytest.raises(ValueError, match=r"recording|reference|audio"):
            run(nodes["OmniVoiceReferenceAudio"], model=model, audio={"waveform": samples, "sample_rate": 24_000})
