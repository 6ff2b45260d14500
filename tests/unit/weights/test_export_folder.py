"""A model written as a folder for upstream's package: everything the original has, merged or replaced, or nothing.

That upstream loads it and says the same is checked by tests/parity/check_peft.py.
"""

import json
import shutil
from collections import namedtuple

import pytest
import torch
from safetensors.torch import load_file, safe_open, save_file

from omnivoice import CheckpointError, Engine, FileError, GenerationRequest, InputError, Sampling
from omnivoice.errors import LoraError
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.lora import Difference, LoRA
from omnivoice.weights.lora_read import read_lora
from tests.unit.weights.lora_fixtures import with_lora

NORM, TEXT, HEADS = "llm.layers.1.self_attn.q_norm.weight", "llm.embed_tokens.weight", "audio_heads.weight"
CODEC = "audio_tokenizer"


@pytest.fixture(scope="module")
def files(checkpoint):
    return locate_checkpoint(checkpoint)


@pytest.fixture(scope="module")
def original(checkpoint):
    return load_file(checkpoint / "model.safetensors")


@pytest.fixture(scope="module")
def single(files, tmp_path_factory):
    return export_checkpoint(files, tmp_path_factory.mktemp("single") / "m.safetensors")


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def spoken(place):
    request = GenerationRequest(text="Hello there.", seed=3, sampling=Sampling(steps=4))
    speech = Engine.load(place).generate([request])[0]
    return speech.codes[0], speech.waveform.samples


def same(left, right):
    assert left.keys() == right.keys()
    return all(torch.equal(tensor, right[name]) and tensor.dtype == right[name].dtype for name, tensor in left.items())


def test_a_copy_is_the_original(checkpoint, files, original, tmp_path):
    place = export_folder(files, tmp_path / "new" / "copy")
    assert names(place) == names(checkpoint)
    for name in set(names(place)) - {"model.safetensors"}:
        assert (place / name).read_bytes() == (checkpoint / name).read_bytes(), name
    assert same(load_file(place / "model.safetensors"), original)
    with safe_open(place / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}  # transformers refuses other formats
    assert original["codebook_layer_offsets"].dtype == torch.int64


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_precision_and_config_go_together(files, original, tmp_path, dtype):
    place = export_folder(files, tmp_path / "m", dtype=dtype)
    got = load_file(place / "model.safetensors")
    offsets = got.pop("codebook_layer_offsets")
    assert torch.equal(offsets, original["codebook_layer_offsets"])
    assert {tensor.dtype for tensor in got.values()} == {dtype}
    assert all(torch.equal(tensor, original[name].to(dtype)) for name, tensor in got.items())
    config, before = (json.loads(path.read_text()) for path in (place / "config.json", files.folder / "config.json"))
    assert config.pop("dtype") == str(dtype).removeprefix("torch.") and before.pop("dtype") == "float16"
    assert config == before  # the inner dtype is null there


@pytest.mark.parametrize("keys", [{"torch_dtype": "float16"}, {}, {"dtype": "float16", "torch_dtype": "float16"}])
def test_whichever_key_names_the_precision(checkpoint, tmp_path, keys):
    source = shutil.copytree(checkpoint, tmp_path / "source")
    raw = json.loads((source / "config.json").read_text())
    del raw["dtype"]
    raw["llm_config"]["dtype"] = "float16"
    (source / "config.json").write_text(json.dumps(raw | keys))
    place = export_folder(locate_checkpoint(source), tmp_path / "m", dtype=torch.float32)
    got = json.loads((place / "config.json").read_text())
    assert {key: got[key] for key in ("dtype", "torch_dtype") if key in got} == dict.fromkeys(
        keys or ["dtype"], "float32"
    )
    assert got["llm_config"]["dtype"] == "float32"


def test_of_a_single_file(checkpoint, files, single, original, tmp_path):
    (single.parent / "config.json").write_text("{}")  # of something else that lies beside it
    (single.parent / "LICENSE").write_text("of something else")
    place = export_folder(locate_checkpoint(single), tmp_path / "m")
    assert names(place) == names(checkpoint)
    assert same(load_file(place / "model.safetensors"), original)
    codec, before = load_file(place / CODEC / "model.safetensors"), load_file(checkpoint / CODEC / "model.safetensors")
    assert codec.keys() < before.keys() and same(codec, {name: before[name] for name in codec})
    feature = "audio_tokenizer/preprocessor_config.json"
    assert json.loads((place / feature).read_text()) == json.loads((checkpoint / feature).read_text())
    made = json.loads((place / "tokenizer_config.json").read_text())
    assert made["eos_token"] == "<|im_end|>" and made["tokenizer_class"] == "TokenizersBackend"
    assert all(torch.equal(a, b) for a, b in zip(spoken(place), spoken(checkpoint)))


def test_of_shards_with_the_codec_elsewhere(checkpoint, files, original, tmp_path):
    source, codec = tmp_path / "tune", tmp_path / "codec"
    source.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(checkpoint / name, source)
    shutil.copytree(checkpoint / CODEC, codec)
    shard(codec)
    (source / "chat_template.jinja").write_text("x")
    (source / "LICENSE").write_text("mine")
    (source / "optimizer.bin").write_text("large")
    shutil.copy(checkpoint / "model.safetensors", source)
    shard(source)
    place = export_folder(locate_checkpoint(source, codec), tmp_path / "m")
    assert {"chat_template.jinja", "LICENSE", "tokenizer_config.json"} <= set(names(place))
    assert "optimizer.bin" not in names(place)
    assert same(load_file(place / "model.safetensors"), original)
    assert names(place / CODEC) == names(codec) and "model.safetensors.index.json" in names(codec)
    assert all(torch.equal(a, b) for a, b in zip(spoken(place), spoken(checkpoint)))


def shard(folder):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    table = {}
    for number in range(2):
        part = dict(sorted(tensors.items())[number::2])
        save_file(part, folder / f"model-{number}.safetensors", metadata={"format": "pt"})
        table |= dict.fromkeys(part, f"model-{number}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))


# ---------------------------------------------------------------- merged and replaced


def test_loras_add_up_in_either_form(files, root, original, tmp_path):
    loras = [
        (read_lora(root / "tests/assets/lora" / name, files.lm_config), s)
        for name, s in (("plain", 0.5), ("saved", -1.5), ("llm_only", 0))
    ]
    place = export_folder(files, tmp_path / "m", dtype=torch.float32, loras=loras)
    one = export_checkpoint(files, tmp_path / "m.safetensors", dtype=torch.float32, loras=loras)
    base = {name: tensor.float() for name, tensor in original.items()}
    expected = dict(base)
    for lora, strength in loras[:2]:
        for module, change in lora.changes.items():
            name = f"{module}.weight"
            expected[name] = expected[name] + strength * change.change(base[name])
    got, both = load_file(place / "model.safetensors"), load_file(one)
    assert all(torch.equal(tensor.float(), expected[name]) for name, tensor in got.items())
    assert all(torch.equal(both[name], got[name]) for name in got.keys() & both.keys() - {"codebook_layer_offsets"})
    assert all(torch.equal(a, b) for a, b in zip(spoken(place), spoken(one)))


def test_one_lora(files, root, original, tmp_path):
    lora = read_lora(root / "tests/assets/lora/saved", files.lm_config)
    expected = with_lora(original, lora, 0.5)
    assert same(load_file(export_folder(files, tmp_path / "m", loras=[(lora, 0.5)]) / "model.safetensors"), expected)


@pytest.mark.parametrize("form", ["folder", "file"])
def test_a_full_fine_tune(files, original, tmp_path, form):
    new = {name: original[name].float() * 1.5 for name in (NORM, TEXT, HEADS)}
    lora = LoRA("x", {"audio_heads": Difference(torch.ones(8200, 40))})
    if form == "folder":
        path = export_folder(files, tmp_path / "m", dtype=torch.float32, tensors=new) / "model.safetensors"
        both = export_folder(files, tmp_path / "n", tensors=new, loras=[(lora, 2.0)]) / "model.safetensors"
    else:
        path = export_checkpoint(files, tmp_path / "m.safetensors", dtype=torch.float32, tensors=new)
        both = export_checkpoint(files, tmp_path / "n.safetensors", tensors=new, loras=[(lora, 2.0)])
    got, other = load_file(path), load_file(both)
    for name in original.keys() & got.keys() - {"codebook_layer_offsets"}:
        assert torch.equal(got[name], new.get(name, original[name].float())), name
    assert torch.equal(other[HEADS], (new[HEADS] + 2).half()) and torch.equal(other[NORM], new[NORM].half())


Case = namedtuple("Case", "name tensor message")
REPLACED = [
    Case("llm.x.weight", torch.ones(1), "llm.x.weight is not a tensor of this model, so it cannot be replaced"),
    Case("codebook_layer_offsets", torch.ones(8), "is not a tensor of this model"),
    Case(NORM, torch.ones(17), r"must have shape \(16,\) and a float type, got \(17,\) torch.float32"),
    Case(NORM, torch.ones(16, dtype=torch.int64), r"and a float type, got \(16,\) torch.int64"),
    Case(NORM, torch.full((16,), 1e6), r"q_norm\.weight holds NaN or Inf in fp16: use an earlier checkpoint"),
]


@pytest.mark.parametrize("case", REPLACED, ids=lambda case: case.message[:30])
def test_weights_that_do_not_fit(files, tmp_path, case):
    for export, path in ((export_folder, tmp_path / "m"), (export_checkpoint, tmp_path / "m.safetensors")):
        with pytest.raises(CheckpointError, match=case.message):
            export(files, path, tensors={case.name: case.tensor})
    assert list(tmp_path.iterdir()) == []


def test_failures_leave_nothing(files, tmp_path, monkeypatch):
    heads = LoRA("x", {"audio_heads": Difference(torch.full((8200, 40), 6e4))})
    with pytest.raises(LoraError, match=r"audio_heads\.weight overflows in fp16"):
        export_folder(files, tmp_path / "m", loras=[(heads, 5.0)])
    with pytest.raises(InputError, match="strength must be -10 to 10, got 11"):
        export_folder(files, tmp_path / "m", loras=[(heads, 11)])
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(4_000_000))
    with pytest.raises(
        FileError, match=r"has 4 MB free, 3\.2 MB are to be written and 3\.2 MB must stay free: make room"
    ):
        export_folder(files, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_anything_is_refused_before_work(files, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match="exists and holds 1 entries: choose another, or empty it"):
        export_folder(files, tmp_path)
    assert names(tmp_path) == ["notes.txt"]
