"""Apply LoRA against a stand-in for ComfyUI: the menu, what is patched, the report; tests/comfyui hears the result."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

NONE = "none (use the lora input)"


@pytest.fixture
def loras(pack: SimpleNamespace, host, root: Path) -> Path:
    """models/loras with a PEFT folder, a file in a subfolder, and what is no LoRA."""
    folder = host.folder.parent / "loras"
    shutil.copytree(root / "tests" / "assets" / "lora" / "saved", folder / "my peft")
    (folder / "sub").mkdir()
    save_file(pair(), folder / "sub" / "one.safetensors")
    save_file({"lora_unet_x.lora_up.weight": torch.ones(2, 2)}, folder / "image.safetensors")
    (folder / "old.pt").write_bytes(b"x")
    (folder / "empty").mkdir()
    host.table["loras"] = ([str(folder)], {".safetensors", ".pt"})
    return folder


@pytest.fixture
def apply(nodes: dict[str, type], loaded: object, loras: Path):
    def run(name: object = NONE, strength: object = 1.0, lora: object = None, model: object = loaded):
        return nodes["OmniVoiceApplyLoRA"].execute(model=model, lora_name=name, strength=strength, lora=lora).values

    return run


def pair(module: str = "llm.layers.1.self_attn.k_proj", out: int = 48) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    down, up = torch.randn(2, 40, generator=generator), torch.randn(out, 2, generator=generator)
    return {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up, f"{module}.alpha": torch.tensor(4.0)}


def test_menu_is_fresh_and_lists_adapters_only(nodes: dict[str, type], loras: Path) -> None:
    def menu() -> list[str]:
        return next(i for i in nodes["OmniVoiceApplyLoRA"].define_schema().inputs if i.id == "lora_name").options

    assert menu() == [NONE, "image.safetensors", "my peft", "sub/one.safetensors"]
    shutil.copytree(loras / "my peft", loras / "another")
    assert menu() == [NONE, "another", "image.safetensors", "my peft", "sub/one.safetensors"]
    shutil.rmtree(loras)
    assert menu() == [NONE]


def test_schema(nodes: dict[str, type]) -> None:
    schema = nodes["OmniVoiceApplyLoRA"].define_schema()
    assert [(i.id, i.kind, i.optional) for i in schema.inputs] == [
        ("model", "OMNIVOICE_MODEL", False),
        ("lora_name", "COMBO", False),
        ("strength", "FLOAT", False),
        ("lora", "LORA_MODEL", True),
    ]
    strength = schema.inputs[2]
    assert (strength.min, strength.max, strength.default) == (-10, 10, 1)
    assert [o.kind for o in schema.outputs] == ["OMNIVOICE_MODEL", "STRING"]


def test_a_pair_lands_on_its_rows_and_the_input_stays_as_it_is(apply, loaded: object) -> None:
    model, report = apply("sub/one.safetensors", 0.5)
    ((key, (kind, weights), strength),) = model.lm.patches
    assert key == ("llm.layers.1.self_attn.qkv_proj.weight", (0, 96, 48)) and (kind, strength) == ("lora", 0.5)
    up, down, alpha, *rest = weights
    tensors = pair()
    assert torch.equal(up, tensors["llm.layers.1.self_attn.k_proj.lora_B.weight"]) and rest == [None] * 3
    assert torch.equal(down, tensors["llm.layers.1.self_attn.k_proj.lora_A.weight"]) and alpha == 4
    assert loaded.lm.patches == [] and model.lm is not loaded.lm and model.engine is loaded.engine
    assert model.lm.callbacks == loaded.lm.callbacks
    change = 0.5 * 2 * up @ down
    weight = loaded.engine.lm.state_dict()[key[0]][96:144]
    assert report == (
        "LoRA one.safetensors: applied to 1 of 23 modules at strength 0.5; changes their weights by "
        f"{float(change.norm() / weight.norm()):.2%}; 1 LoRA A/B pair (rank 2, scale 2)"
    )


def test_a_whole_weight_becomes_its_distance_from_the_base(apply, loaded: object, loras: Path) -> None:
    model, report = apply("my peft")
    assert report.startswith("LoRA my peft: applied to 7 of 23 modules at strength 1; changes their weights by 34.")
    saved = load_file(loras / "my peft" / "adapter_model.safetensors")["base_model.model.audio_heads.weight"].float()
    patch = next(value for key, value, _ in model.lm.patches if key == "audio_heads.weight")
    base = loaded.engine.lm.state_dict()["audio_heads.weight"]
    assert patch[0] == "diff" and torch.equal(patch[1][0], saved - base)


def test_several_in_a_row(apply) -> None:
    first, _ = apply("sub/one.safetensors")
    both, _ = apply("my peft", model=first)
    assert len(first.lm.patches) == 1 and len(both.lm.patches) == 8


def test_the_socket(apply, host) -> None:
    model, report = apply(lora=pair())
    assert report.startswith("LoRA the lora input: applied to 1 of 23 modules") and len(model.lm.patches) == 1
    model, _ = apply(lora={key: tensor * (1000 if "_B" in key else 1) for key, tensor in pair().items()})
    assert "if speech breaks, lower its strength" in host.texts[-1][0]
    untrained = {key: tensor * (0 if "_B" in key else 1) for key, tensor in pair().items()}
    apply(lora=untrained)
    assert host.texts[-1][0] == "LoRA the lora input changes nothing: it was never trained"


def test_strength_0_is_the_very_same_model(apply, loaded: object) -> None:
    model, report = apply("my peft", 0)
    assert model is loaded and report == "LoRA my peft: strength 0, the model is unchanged"


BAD = [
    ({}, "no LoRA given: choose one in lora_name, or connect the lora input"),
    ({"name": "my peft", "lora": {}}, "two LoRAs given: disconnect the lora input, or set lora_name to 'none"),
    ({"name": "../loras/my peft"}, r"must be one of none .*, image\.safetensors, my peft, .* got '\.\./loras/my peft'"),
    ({"name": "/etc/passwd"}, "lora_name must be"),
    ({"name": "sub"}, "lora_name must be"),
    ({"name": "old.pt"}, "lora_name must be"),
    ({"name": None}, "lora_name must be one of .*, got None"),
    ({"name": ["my peft"]}, "lora_name must be"),
    ({"name": ""}, "lora_name must be"),
    ({"name": "my peft", "strength": 11}, "strength must be -10 to 10, got 11"),
    ({"name": "my peft", "strength": float("nan")}, "strength must be"),
    ({"name": "my peft", "strength": "1"}, "strength must be"),
    ({"name": "my peft", "strength": None}, "strength m"),
    ({"name": "image.safetensors"}, r"image\.safetensors is not an OmniVoice LoRA"),
    ({"lora": {}}, "the lora input holds no tensors"),
    ({"lora": "x"}, "the lora input must be a LORA_MODEL"),
    ({"lora": [[0.0]]}, "the lora input must be a LORA_MODEL"),
    ({"name": "my peft", "model": {"a": 1}}, "model must come from Load OmniVoice, got dict"),
    ({"name": "my peft", "model": None}, "model must come from Load OmniVoice, got None"),
]


@pytest.mark.parametrize(("inputs", "message"), BAD, ids=[str(case[0])[:40] for case in BAD])
def test_refusals(apply, pack: SimpleNamespace, inputs: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, pack.host.lora.LoraError), match=message):
        apply(**inputs)


def test_fingerprint_follows_the_files(nodes: dict[str, type], loras: Path) -> None:
    stamp = nodes["OmniVoiceApplyLoRA"].fingerprint_inputs
    peft, one = stamp(lora_name="my peft", strength=1), stamp(lora_name="sub/one.safetensors")
    assert peft and one and peft == stamp(lora_name="my peft")
    with (loras / "my peft" / "adapter_config.json").open("a") as file:
        file.write("\n")
    assert stamp(lora_name="my peft") != peft and stamp(lora_name="sub/one.safetensors") == one
    for gone in (NONE, "absent", "../x", None):
        assert stamp(lora_name=gone) == ""


def test_a_replaced_file_of_equal_size_and_time_is_noticed(nodes: dict[str, type], loras: Path) -> None:
    stamp, path = nodes["OmniVoiceApplyLoRA"].fingerprint_inputs, loras / "sub" / "one.safetensors"
    before, status, data = stamp(lora_name="sub/one.safetensors"), path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size and path.stat().st_mtime_ns == status.st_mtime_ns
    assert stamp(lora_name="sub/one.safetensors") != before


COMPOSED, DECOMPOSED = "voix é 小.safetensors", "voix e\u0301 小.safetensors"


@pytest.mark.parametrize("written", [COMPOSED, DECOMPOSED])
@pytest.mark.parametrize("asked", [COMPOSED, DECOMPOSED, COMPOSED.upper(), "Voix É 小.safetensors"])
def test_names_match_in_unicode_form_and_case(
    apply, nodes: dict[str, type], loras: Path, written: str, asked: str
) -> None:
    save_file(pair(), loras / written)
    node = nodes["OmniVoiceApplyLoRA"]
    assert node.validate_inputs(lora_name=asked) is True
    assert node.fingerprint_inputs(lora_name=asked) == node.fingerprint_inputs(lora_name=written) != ""
    assert "applied to 1 of 23 modules" in apply(asked)[1]
    assert "applied to 1 of 23 modules" in apply("SUB\\one.safetensors")[1]


def test_a_wrong_name_shows_its_characters_and_ten_choices(apply, nodes: dict[str, type], loras: Path) -> None:
    for number in range(20):
        save_file(pair(), loras / f"声{number:02}.safetensors")
    with pytest.raises(ValueError, match="lora_name must be one of") as caught:
        apply("小é")
    message = str(caught.value)
    assert message == nodes["OmniVoiceApplyLoRA"].validate_inputs(lora_name="小é")
    assert "got '小é'" in message and message.count(".safetensors") <= 10 and "and 14 more" in message
    shutil.rmtree(loras)
    with pytest.raises(ValueError, match=r"must be one of none .use the lora input., got '小é'"):
        apply("小é")


def test_a_linked_name_is_checked_when_the_node_runs(nodes: dict[str, type], loras: Path) -> None:
    assert nodes["OmniVoiceApplyLoRA"].validate_inputs(lora_name=None) is True


def test_a_single_file_model_is_in_the_menu(pack: SimpleNamespace, host, checkpoint: Path) -> None:
    from omnivoice.weights import locate_checkpoint
    from omnivoice.weights.export import export_checkpoint

    host.folder.mkdir(parents=True)
    path = export_checkpoint(locate_checkpoint(checkpoint), host.folder / "Small.safetensors")
    save_file(pair(), host.folder / "foreign.safetensors")
    assert pack.host.models.model_names() == ["Small.safetensors"]
    assert pack.host.models.model_folder("Small.safetensors") == path
    before = pack.load.LoadOmniVoice.fingerprint_inputs("Small.safetensors")
    assert before
    assert pack.host.models.load_model("Small.safetensors", "auto", "off").engine.lm.config.layers == 3
    path.touch()
    assert pack.load.LoadOmniVoice.fingerprint_inputs("Small.safetensors") != before


@pytest.mark.parametrize("note", ["", "permission: Anna, 2 May", "whatever a stranger wrote"])
def test_the_report_has_the_note_of_consent_and_nothing_is_blocked(apply, loras: Path, note: str) -> None:
    save_file(pair(), loras / "noted.safetensors", {"consent": note} if note else None)
    model, report = apply("noted.safetensors")
    assert len(model.lm.patches) == 1
    assert report.endswith(f"; consent: {note}") if note else "consent" not in report


def test_a_described_voice_says_so_but_not_with_a_lora(nodes: dict[str, type], apply, loaded: object) -> None:
    """With the LoRA of a person, a description may give that person's voice."""
    (design,) = nodes["OmniVoiceVoiceDesignAttributes"].execute(gender="female").values
    (settings,) = nodes["OmniVoiceSettings"].execute(steps=1).values
    inputs = {"text": ["Hello there."], "seed": [1], "design": [design], "settings": [settings]}
    patched = apply("sub/one.safetensors")[0]
    for model, note in ((loaded, "designed: female"), (patched, "")):
        ((voice,),) = nodes["OmniVoiceSynthesize"].execute(model=[model], **inputs).values[1:2]
        assert voice.consent == note
    noted = replace(voice, consent="permission: Anna")
    kept = nodes["OmniVoiceSynthesize"].execute(model=[patched], voice=[noted], **inputs).values[1]
    assert kept == [noted]
