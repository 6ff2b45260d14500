"""The nodes against a stand-in for ComfyUI, with the real engine and the tiny model."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

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
WIDGETS = ("INT", "FLOAT", "STRING", "COMBO", "BOOLEAN", "COMBO,STRING")
LITERALS = [
    {"kind": "clone", "path": "/etc/passwd"},
    {"__value__": 1},
    "text",
    "",
    0,
    1.5,
    True,
    [],
    [[0.0]],
    ["1", 0],
    {},
    pytest.param(object(), id="an object"),
]


@pytest.fixture(scope="module")
def loaded(
    loaded_pack: SimpleNamespace, stand_in, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> object:
    """The tiny model, loaded once for all tests by the node."""
    stand_in.reset(tmp_path_factory.mktemp("models"))
    loaded_pack.host.models.register_model_folder()
    shutil.copytree(checkpoint, stand_in.folder / "OmniVoice")
    return run(loaded_pack.load.LoadOmniVoice, model_name="OmniVoice", dtype="auto")


def run(node: type, **inputs: object) -> object:
    """The first output of one run; as ComfyUI does, a node that takes lists is given each value as a list of one."""
    schema = node.define_schema()
    if getattr(schema, "is_input_list", False):
        inputs = {name: [value] for name, value in inputs.items()}
    value = node.execute(**inputs).values[0]
    if getattr(schema.outputs[0], "is_output_list", False):
        (value,) = value
    return value


def speak(nodes: dict[str, type], **inputs: object) -> object:
    """The audio of Synthesize, with a Settings node for the inputs that are Settings'."""
    expert = {name: inputs.pop(name) for name in SETTINGS if name in inputs}
    if expert:
        inputs["settings"] = run(nodes["OmniVoiceSettings"], **expert)
    return run(nodes["OmniVoiceSynthesize"], **inputs)


def test_ids_and_descriptions(nodes: dict[str, type]) -> None:
    assert list(nodes) == IDS
    for node in nodes.values():
        schema = node.define_schema()
        assert schema.category == "audio/omnivoice" and schema.display_name and schema.description.endswith(".")
        assert all(item.tooltip for item in (*schema.inputs, *schema.outputs))
        assert len({item.id for item in schema.inputs}) == len(schema.inputs)


SPEAK = ["text", "seed", "preset", "language", "speed", "duration", "exact_length", "split_lines"]
SETTINGS = [
    "steps",
    "guidance",
    "t_shift",
    "layer_penalty",
    "position_temperature",
    "class_temperature",
    "denoise",
    "post_process",
    "pad_seconds",
    "fade_seconds",
    "chunking",
    "chunk_seconds",
    "chunk_threshold_seconds",
    "unconditional_every",
    "prefix_every",
    "text_as_written",
    "normalise",
]
BY_PRESET = ("steps", "unconditional_every", "prefix_every")


def test_inputs_of_synthesize_and_settings(nodes: dict[str, type]) -> None:
    """Only what everybody needs is on Synthesize; what may be left out of a prompt has a default."""
    inputs = nodes["OmniVoiceSynthesize"].define_schema().inputs
    assert [i.id for i in inputs] == ["model", *SPEAK, "voice", "design", "settings", "dictionary"]
    assert [i.id for i in inputs if not i.optional] == ["model", "text"]
    expert = nodes["OmniVoiceSettings"].define_schema().inputs
    assert [i.id for i in expert] == SETTINGS and all(i.optional for i in expert)
    assert not any(getattr(i, "advanced", False) for i in (*inputs, *expert))  # it hides nothing in the classic view


@pytest.mark.parametrize("node", ["OmniVoiceSynthesize", "OmniVoiceSettings"])
def test_ranges_are_the_engines(nodes: dict[str, type], pack: SimpleNamespace, node: str) -> None:
    numbers = [i for i in nodes[node].define_schema().inputs if i.kind in ("INT", "FLOAT")]
    limits = pack.synthesize.float_input.__globals__["LIMITS"]
    for i in numbers:
        assert (i.min, i.max) == (0 if i.id in BY_PRESET else limits[i.id].low, limits[i.id].high)
        assert i.min <= i.default <= i.max


def test_defaults_are_the_engines(nodes: dict[str, type], pack: SimpleNamespace) -> None:
    """A request made of nothing but defaults is the engine's own, but for the seed."""
    widgets = [i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.kind in WIDGETS]
    settings = run(nodes["OmniVoiceSettings"], **{i.id: i.default for i in expert_inputs(nodes)})
    expected = pack.engine.GenerationRequest(text="The weather is beautiful today.", seed=0, speed=1.0)
    for more in ({}, {"settings": [settings]}, {"settings": [run(nodes["OmniVoiceSettings"])]}):
        (request,) = pack.speech.requests_from({**{i.id: [i.default] for i in widgets}, **more}).values()
        assert request == expected


def expert_inputs(nodes: dict[str, type]) -> list[SimpleNamespace]:
    return nodes["OmniVoiceSettings"].define_schema().inputs


def test_the_default_text_is_one_that_the_demo_voice_can_say(nodes: dict[str, type]) -> None:
    from omnivoice.text.vocabulary import vocabulary_warnings
    from omnivoice.weights import locate_checkpoint
    from omnivoice.weights.demo import demo_model

    text = next(i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.id == "text")
    words = frozenset(locate_checkpoint(demo_model()).words)
    assert words and vocabulary_warnings(text.default, words) == ()


def test_menus(nodes: dict[str, type]) -> None:
    languages = next(i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.id == "language").options
    assert languages[0] == "auto" and len(languages) == len(set(languages)) == 647 and "Cantonese" in languages
    inputs = nodes["OmniVoiceVoiceDesignAttributes"].define_schema().inputs
    design = {i.id: i.options for i in inputs if i.kind == "COMBO"}
    assert {name: len(options) for name, options in design.items()} == {
        "gender": 3,
        "age": 6,
        "pitch": 6,
        "style": 2,
        "accent": 23,
    }
    assert all(options[0] == "auto" and len(options) == len(set(options)) for options in design.values())


def test_every_language_of_the_menu_is_known(nodes: dict[str, type], pack: SimpleNamespace) -> None:
    from omnivoice.text.languages import language_id

    languages = next(i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.id == "language").options
    assert len({language_id(name) for name in languages[1:]}) == 646


def test_every_attribute_of_the_menus_is_known(nodes: dict[str, type]) -> None:
    node = nodes["OmniVoiceVoiceDesignAttributes"]
    assert run(node) is None
    for item in node.define_schema().inputs:
        for word in item.options[1:] if item.kind == "COMBO" else ():
            assert len(run(node, **{item.id: word}).attributes) == 1


def test_attributes_become_a_design(nodes: dict[str, type]) -> None:
    design = run(nodes["OmniVoiceVoiceDesignAttributes"], gender="female", age="auto", accent="british accent")
    assert design.attributes == ("female", "british accent")


def test_free_words_complete_the_menus(nodes: dict[str, type], host) -> None:
    node = nodes["OmniVoiceVoiceDesignAttributes"]
    assert run(node, description="a deep voice, British lady").attributes == ("low pitch", "british accent", "female")
    assert host.texts == []
    design = run(node, gender="male", accent="british accent", description="a lady from Sichuan, sparkling, whispering")
    assert design.attributes == ("male", "british accent", "whisper")
    (told,) = (text for text, _ in host.texts)
    assert "'lady'" in told and "'sichuan'" in told and "'sparkling'" in told
    with pytest.raises(ValueError, match="description must be a string of at most 500 characters, got 3"):
        run(node, description=3)


@pytest.mark.parametrize("value", ["robot", 1, ["male"], "male, female", "elderly"], ids=repr)
def test_attribute_outside_the_menu(nodes: dict[str, type], value: object) -> None:
    with pytest.raises(ValueError, match=r"gender must be (one of male, female|a string), got"):
        run(nodes["OmniVoiceVoiceDesignAttributes"], gender=value)


def test_text_to_audio(nodes: dict[str, type], model: object, host) -> None:
    audio = speak(nodes, model=model, text="Hello there.", seed=3, steps=4, duration=1.0)
    waveform = audio["waveform"]
    assert waveform.dtype == torch.float32 and waveform.is_contiguous() and waveform.shape[:2] == (1, 1)
    assert audio["sample_rate"] == 24_000 and bool(torch.isfinite(waveform).all()) and float(waveform.std()) > 1e-4
    assert host.progress == [(1, 4), (2, 4), (3, 4), (4, 4)]
    models, memory = host.loads[-1]
    assert models == [model.lm, model.decoder] and memory > 0
    assert "encoder" not in vars(model) and "encoder" not in vars(model.engine)
    again = speak(nodes, model=model, text="Hello there.", seed=3, steps=4, duration=1.0)
    assert torch.equal(waveform, again["waveform"])


def test_reference_and_design_to_audio(nodes: dict[str, type], model: object, host) -> None:
    tone = 0.3 * torch.sin(torch.arange(66_150) * 0.05).expand(1, 2, -1)
    before = tone.clone()
    audio = {"waveform": tone, "sample_rate": 22_050}
    voice = run(nodes["OmniVoiceReferenceAudio"], model=model, audio=audio, transcript="One, two, three, four, five.")
    assert torch.equal(tone, before)
    assert host.loads == [([model.encoder], host.loads[0][1])] and host.loads[0][1] > 0
    design = run(nodes["OmniVoiceVoiceDesignAttributes"], gender="male")
    spoken = speak(nodes, model=model, text="Hello.", steps=2, voice=voice, design=design)
    assert spoken["waveform"].shape[2] > 2_400


@pytest.mark.parametrize("dtype", ["auto", "bf16", "fp16", "fp32", "fastest"])
def test_every_dtype_of_the_menu(nodes, pack: SimpleNamespace, host, checkpoint: Path, dtype: str) -> None:
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    options = next(i for i in nodes["LoadOmniVoice"].define_schema().inputs if i.id == "dtype").options
    assert options == ["auto", "bf16", "fp16", "fp32", "fastest", "fp8"]
    loaded = run(nodes["LoadOmniVoice"], model_name="OmniVoice", dtype=dtype)
    quick = pack.host.models.fastest_dtype(torch.device("cpu"))  # what this machine's probe has found
    wanted = {"bf16": torch.bfloat16, "fp16": torch.float16, "fastest": quick}.get(dtype, torch.float32)
    assert {p.dtype for name, p in loaded.lm.model.named_parameters() if name.endswith("_proj.weight")} == {wanted}
    for half in (loaded.decoder, loaded.encoder):
        assert {p.dtype for p in half.model.parameters()} == {torch.float32}
    audio = speak(nodes, model=loaded, text="Hello.", steps=2)
    assert bool(torch.isfinite(audio["waveform"]).all()) and float(audio["waveform"].std()) > 1e-4


def test_fp8_stores_the_matrices_of_the_layers(nodes, pack: SimpleNamespace, host, checkpoint, monkeypatch) -> None:
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    monkeypatch.setattr(pack.host.models.mm, "get_torch_device", lambda: torch.device("cuda"))
    loaded = run(nodes["LoadOmniVoice"], model_name="OmniVoice", dtype="fp8")
    kinds = {name.rpartition(".")[0].rpartition(".")[2]: p.dtype for name, p in loaded.lm.model.named_parameters()}
    in_8_bits = {name for name, dtype in kinds.items() if dtype == torch.float8_e4m3fn}
    assert in_8_bits == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    assert kinds["audio_heads"] == kinds["audio_embeddings"] == loaded.engine.lm.get_dtype() == torch.float16
    assert pack.host.models.has_8_bit_weights(loaded)
    with pytest.raises(ValueError, match="a model with dtype fp8 cannot be trained: set dtype of Load OmniVoice to"):
        pack.host.training_model.private_copy(loaded, torch.float32, torch.device("cpu"))


@pytest.mark.parametrize("choice, flag, on", [("auto", False, True), ("off", False, False), ("auto", True, False)])
def test_graphs_follow_the_menu_and_comfyuis_flag(
    nodes, pack: SimpleNamespace, host, checkpoint: Path, monkeypatch, choice, flag, on
) -> None:
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    monkeypatch.setattr(host.args, "disable_cuda_graphs", flag, raising=False)
    loaded = run(nodes["LoadOmniVoice"], model_name="OmniVoice", graphs=choice)
    assert loaded.engine.sampler.speedups == replace(pack.host.models.ALL_SPEEDUPS, graphs=on)


def test_graphs_go_when_comfyui_unloads_the_model(model, monkeypatch) -> None:
    cleared: list[str] = []
    monkeypatch.setattr(model.engine.sampler.graphs, "clear", cleared.append)
    ((event, callback),) = model.lm.callbacks
    assert event == "on_detach"
    callback(model.lm, False)  # as load_models_gpu does in passing
    assert cleared == []
    callback(model.lm, True)
    assert cleared == ["the model was unloaded"]


def test_unknown_graph_mode(nodes, host, checkpoint: Path) -> None:
    shutil.copytree(checkpoint, host.folder / "OmniVoice")
    with pytest.raises(ValueError, match="graphs must be one of auto, off, got 'on'"):
        run(nodes["LoadOmniVoice"], model_name="OmniVoice", graphs="on")


def test_missing_transcript_is_said(nodes: dict[str, type], model: object, host) -> None:
    tone = {"waveform": 0.3 * torch.sin(torch.arange(72_000) * 0.05)[None, None], "sample_rate": 24_000}
    run(nodes["OmniVoiceReferenceAudio"], model=model, audio=tone, transcript="")
    assert "transcript" in host.texts[0][0] and host.texts[0][1] == "7"


def test_cancel_stops_at_the_next_step(
    nodes: dict[str, type], model: object, host, interrupt: type[BaseException]
) -> None:
    host.interrupt_after = 2
    with pytest.raises(interrupt):
        speak(nodes, model=model, text="Hello.", steps=16)
    assert len(host.progress) == 2
    host.interrupt_after, host.progress[:] = None, []
    speak(nodes, model=model, text="Hello.", steps=3)
    assert len(host.progress) == 3


def test_preset_decides_unless_settings_says_a_number(nodes: dict[str, type], model: object, host) -> None:
    say = {"model": model, "text": "Hello.", "seed": 3, "duration": 0.5}
    for preset, expert, steps in (
        ("quality", {}, 32),
        ("balanced", {}, 16),
        ("fast", {}, 16),
        ("draft", {}, 8),
        ("draft", {"steps": 0, "guidance": 1.0}, 8),
        ("draft", {"steps": 3}, 3),
        ("quality", {"steps": 8}, 8),
    ):
        host.progress[:] = []
        by_name = speak(nodes, **say, preset=preset, **expert)
        assert host.progress[-1] == (steps, steps)
        if preset != "fast" and "guidance" not in expert:
            assert torch.equal(by_name["waveform"], speak(nodes, **say, steps=steps)["waveform"])
    assert torch.equal(speak(nodes, **say)["waveform"], speak(nodes, **say, preset="quality")["waveform"])


def test_fast_is_approximate_unless_settings_says_exact(nodes: dict[str, type], model: object, host) -> None:
    say = {"model": model, "text": "Hello there.", "seed": 3}
    fast = speak(nodes, **say, preset="fast")
    shown = host.texts[-1][0]
    assert "16 steps" in shown and "approximate" in shown and "every 8 steps" in shown and "every 3 steps" in shown
    same = speak(nodes, **say, steps=16, prefix_every=8, unconditional_every=3)
    assert torch.equal(fast["waveform"], same["waveform"])
    exact = speak(nodes, **say, preset="fast", prefix_every=1, unconditional_every=1)
    assert "approximate" not in host.texts[-1][0]
    assert torch.equal(exact["waveform"], speak(nodes, **say, preset="balanced")["waveform"])
    assert not torch.equal(exact["waveform"], fast["waveform"])


def test_preset_menu(nodes: dict[str, type]) -> None:
    preset = next(i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs if i.id == "preset")
    assert preset.options == ["quality", "balanced", "fast", "draft"] and preset.default == "quality"
    for fact in ("quality: 32 steps;", "balanced: 16 steps;", "fast: 16 steps, approximate;", "draft: 8 steps."):
        assert fact in preset.tooltip


BAD = [
    ("seed", -1, "seed must be"),
    ("seed", 2**64, "seed must be"),
    ("seed", 1.0, "seed must be"),
    ("steps", 10**9, "steps must be 1-256, got 1000000000"),
    ("steps", -1, "steps must be"),
    ("steps", False, "steps must be"),
    ("unconditional_every", 65, "unconditional_every must be 1-64, got 65"),
    ("unconditional_every", 1.5, "unconditional_every must be"),
    ("prefix_every", -1, "prefix_every must be 1-64, got -1"),
    ("prefix_every", math.nan, "prefix_every must be"),
    ("split_lines", 1, "split_lines must be true or false, got 1"),
    ("exact_length", "yes", "exact_length must be True or False, got 'yes'"),
    ("exact_length", True, "exact_length needs a duration"),
    ("denoise", "no", "denoise must be True or False, got 'no'"),
    ("pad_seconds", -1, "pad_seconds must be 0-10, got -1"),
    ("t_shift", 0, "t_shift must be 0.01-10, got 0"),
    ("chunking", "words", "chunking must be one of sentences, upstream, got 'words'"),
    ("steps", True, "steps must"),
    ("steps", "32", "steps must"),
    ("guidance", 25, "guidance must be 0-10, got 25"),
    ("guidance", math.nan, "guidance must"),
    ("guidance", "nan", "guidance must"),
    ("speed", 0, "speed must"),
    ("speed", -1.0, "speed must"),
    ("speed", 1e308, "speed must"),
    ("speed", 5e-324, "speed must"),
    ("duration", -1, "duration must"),
    ("duration", math.nan, "duration must"),
    ("duration", 1e9, "duration must"),
    ("duration", False, "duration must"),
    ("duration", math.inf, "duration must"),
    ("text", {"a": 1}, "text must be a string"),
    ("text", "", "text"),
    ("text", "____", "text"),
    ("text", "a" * 200_001, "text must be at most 200000 characters"),
    ("language", 3, "language must be"),
    ("preset", "best", "preset must be one of quality, balanced, fast, draft, got 'best'"),
    ("preset", ["draft"], "preset must be"),
]


@pytest.mark.parametrize("name, value, message", BAD, ids=lambda v: repr(v)[:30])
def test_bad_value_is_refused_before_anything_runs(
    nodes: dict[str, type], model: object, host, name: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        speak(nodes, **{"model": model, "text": "Hello.", name: value})
    assert host.loads == [] and host.progress == []


@pytest.mark.parametrize("literal", LITERALS, ids=repr)
def test_literal_on_a_socket_is_refused(nodes: dict[str, type], model: object, host, literal: object) -> None:
    say, reference = nodes["OmniVoiceSynthesize"], nodes["OmniVoiceReferenceAudio"]
    for node, inputs in ((say, {"text": "Hello."}), (reference, {"audio": None, "transcript": ""})):
        with pytest.raises(ValueError, match="model must come from Load OmniVoice, got"):
            run(node, model=literal, **inputs)
    with pytest.raises(ValueError, match="voice must come from Reference Audio, Load Voice or another Synthesize, got"):
        run(say, model=model, text="Hello.", voice=literal)
    with pytest.raises(ValueError, match="design must come from Voice Design Attributes, got"):
        run(say, model=model, text="Hello.", design=literal)
    with pytest.raises(ValueError, match="settings must come from OmniVoice Settings, got"):
        run(say, model=model, text="Hello.", settings=literal)
    assert host.loads == []


@pytest.mark.parametrize("name", ["model", *SPEAK, "voice", "design", "settings"])
def test_none_over_a_link(nodes: dict[str, type], model: object, name: str) -> None:
    """An optional input counts as not connected; a required one is refused by its name."""
    inputs = {i.id: i for i in nodes["OmniVoiceSynthesize"].define_schema().inputs}
    given = {"model": model, "text": "Hello.", "seed": 0, "preset": "draft"}
    if not inputs[name].optional:
        with pytest.raises(ValueError, match=f"^{name} must .*, got None"):
            run(nodes["OmniVoiceSynthesize"], **{**given, name: None})
        return
    left_out = {key: value for key, value in given.items() if key != name}
    expected = run(nodes["OmniVoiceSynthesize"], **left_out)["waveform"]
    assert torch.equal(run(nodes["OmniVoiceSynthesize"], **{**given, name: None})["waveform"], expected)


@pytest.mark.parametrize("name", SETTINGS)
def test_none_over_a_link_of_settings(nodes: dict[str, type], name: str) -> None:
    assert run(nodes["OmniVoiceSettings"], **{name: None}) == run(nodes["OmniVoiceSettings"])


@pytest.mark.parametrize("transcript", [3, {"a": 1}, "a" * 2_001], ids=lambda v: repr(v)[:20])
def test_bad_transcript(nodes: dict[str, type], model: object, transcript: object) -> None:
    audio = {"waveform": torch.zeros(1, 1, 48_000), "sample_rate": 24_000}
    with pytest.raises(ValueError, match="transcript must be"):
        run(nodes["OmniVoiceReferenceAudio"], model=model, audio=audio, transcript=transcript)


def test_unusable_recording(nodes: dict[str, type], model: object) -> None:
    for samples in (torch.full((1, 1, 48_000), math.nan), torch.zeros(1, 1, 48_000), torch.zeros(1, 1, 0)):
        with pytest.raises(ValueError, match=r"recording|reference|audio"):
            run(nodes["OmniVoiceReferenceAudio"], model=model, audio={"waveform": samples, "sample_rate": 24_000})
