"""Loading: what is accepted in every form it comes, and what is refused by name."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from omnivoice import (
    CheckpointError,
    Engine,
    FileError,
    GenerationRequest,
    InputError,
    OmniVoiceError,
    Sampling,
    Waveform,
    devices,
)
from omnivoice.lm.fused import fused_rows
from omnivoice.ops import PLAIN_OPS
from omnivoice.types import ALL_SPEEDUPS
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.load import lm_tensors
from omnivoice.weights.read import read_tensors

ROOT = Path(__file__).resolve().parents[3]
LM, CODEC = "model.safetensors", "audio_tokenizer/model.safetensors"


@pytest.fixture
def folder(tmp_path, checkpoint):
    """A private copy of the test checkpoint, to be spoilt."""
    return shutil.copytree(checkpoint, tmp_path / "model with spaces")


def rewrite(path, change):
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path.with_suffix(".new"))  # not over `path`, which `tensors` and an engine may map
    path.with_suffix(".new").replace(path)


def edit_json(path, change):
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")


def codes(engine):
    request = GenerationRequest(text="Hello there.", seed=3, sampling=Sampling(steps=4))
    return engine.generate([request])[0].codes[0]


def test_sharded_checkpoint_equals_the_single_file(folder):
    expected = codes(Engine.load(folder))
    tensors = load_file(folder / LM)
    names = sorted(tensors)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, keys in parts.items():
        save_file({key: tensors[key] for key in keys}, folder / file)
    weight_map = {key: file for file, keys in parts.items() for key in keys}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / LM).unlink()
    assert torch.equal(codes(Engine.load(folder)), expected)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"1 of 2 shards are missing.*model-00002-of-00002"):
        Engine.load(folder)


def test_a_torch_that_is_too_old_is_refused_in_words(checkpoint, monkeypatch):
    monkeypatch.setattr(devices, "TORCH_VERSION", (2, 4))
    Engine.load(checkpoint)
    monkeypatch.setattr(devices, "TORCH_VERSION", (2, 3))
    with pytest.raises(OmniVoiceError, match=r"^OmniVoice needs torch 2\.4 or newer, this is torch .*: update ComfyUI"):
        Engine.load(checkpoint)


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("wanted", [torch.float32, torch.bfloat16, torch.float16])
def test_any_precision_on_disk_loads_into_any(folder, stored, wanted):
    def store(tensors):
        tensors.update({name: t.to(stored) for name, t in tensors.items() if t.is_floating_point()})

    rewrite(folder / LM, store)
    rewrite(folder / CODEC, store)
    engine = Engine.load(folder, dtype=wanted)
    exact = {name for name, p in engine.lm.named_parameters() if p.dtype == torch.float32}
    if wanted != torch.float32:  # on a CPU
        assert exact == {name for name in exact if "norm" in name} | {"audio_heads.weight"}
        assert {p.dtype for name, p in engine.lm.named_parameters() if name not in exact} == {wanted}
    assert {p.dtype for half in (engine.codec.encoder, engine.codec.decoder) for p in half.parameters()} == {
        torch.float32
    }
    loaded, parts = engine.lm.state_dict(), load_file(folder / LM)
    assert torch.equal(engine.sampler.text.weight, parts.pop("llm.embed_tokens.weight"))
    for name, (fused, start, rows) in fused_rows(engine.lm.config).items():
        part, weight = parts.pop(name), loaded[fused]
        assert torch.equal(weight[start : start + rows], part.to(weight.dtype).expand_as(weight[start : start + rows]))
    for name in set(parts) - {"codebook_layer_offsets"}:
        assert torch.equal(loaded[name], parts[name].to(loaded[name].dtype))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_only_what_is_used_as_stored_stays_mapped(folder, dtype):
    """What is converted leaves no mapping, and what is kept as stored is mapped, not copied."""
    name = "llm.layers.0.mlp.down_proj.weight"
    rewrite(folder / LM, lambda t: t.update({name: t[name].float()}))
    found = lm_tensors(locate_checkpoint(folder).lm_config, [folder / LM])
    weight = read_tensors({name: found[name]}, device=torch.device("cpu"), dtype=dtype)[name]
    assert weight.dtype == dtype
    assert (str(folder / LM) in Path("/proc/self/maps").read_text()) is (dtype == torch.float32)


def test_loading_imports_neither_the_compiler_nor_the_downloader(folder):
    """Filling an embedding on the meta device imports the compiler, which takes a second; downloads need the other."""
    code = (
        "import sys, omnivoice, omnivoice.weights.published; omnivoice.Engine.load(sys.argv[1]);"
        "print([name in sys.modules for name in ('torch._dynamo', 'huggingface_hub')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(folder)], check=True, cwd=ROOT, capture_output=True, text=True
    )
    assert ran.stdout == "[False, False]\n"


class CastingLinear(torch.nn.Linear):
    """As a host makes it: the weight is cast when the layer runs."""

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight.to(x.dtype), self.bias)


CASTING_OPS = dataclasses.replace(PLAIN_OPS, Linear=CastingLinear)


@pytest.mark.parametrize("fused", [True, False])
def test_the_matrices_of_the_body_can_be_stored_in_8_bits(checkpoint, fused):
    speedups = dataclasses.replace(ALL_SPEEDUPS, fused_linears=fused)
    small = Engine.load(checkpoint, ops=CASTING_OPS, body_dtype=torch.float8_e4m3fn, speedups=speedups)
    whole = Engine.load(checkpoint, speedups=speedups)
    stored, expected = small.lm.state_dict(), whole.lm.state_dict()
    assert {name for name, weight in stored.items() if weight.dtype == torch.float8_e4m3fn} == {
        name
        for name, weight in stored.items()
        if name.startswith("llm.layers.") and weight.ndim == 2 and "norm" not in name
    }
    assert small.lm.get_dtype() == torch.float32
    with torch.no_grad():
        for name, weight in whole.lm.named_parameters():
            weight.copy_(expected[name].to(stored[name].dtype))
            assert torch.equal(stored[name].float(), weight)
    assert torch.equal(codes(small), codes(whole))


def test_training_only_weights_are_not_loaded(folder):
    engine = Engine.load(folder)
    names = {*engine.codec.encoder.state_dict(), *engine.codec.decoder.state_dict()}
    assert not any("decoder_semantic" in name or name.startswith("fc1") or "embed_avg" in name for name in names)


def test_older_spelling_of_weight_norm_loads_the_same(folder):
    expected = Engine.load(folder).codec.encoder.state_dict()
    stem = "semantic_model.encoder.pos_conv_embed.conv"

    def respell(tensors):
        tensors[f"{stem}.weight_g"] = tensors.pop(f"{stem}.parametrizations.weight.original0")
        tensors[f"{stem}.weight_v"] = tensors.pop(f"{stem}.parametrizations.weight.original1")

    rewrite(folder / CODEC, respell)
    got = Engine.load(folder).codec.encoder.state_dict()
    assert all(torch.equal(got[name], expected[name]) for name in expected)


def test_fine_tune_without_codec_takes_a_named_one(folder, checkpoint):
    shutil.rmtree(folder / "audio_tokenizer")
    with pytest.raises(CheckpointError, match=r"config\.json.*copy the folder audio_tokenizer of the original"):
        Engine.load(folder)
    expected = codes(Engine.load(checkpoint))
    for codec in (checkpoint, checkpoint / "audio_tokenizer"):
        assert torch.equal(codes(Engine.load(folder, codec_folder=codec)), expected)


def test_everything_missing_is_named_at_once(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        Engine.load(tmp_path)
    for name in (
        "config.json",
        "tokenizer.json",
        "model.safetensors",
        "audio_tokenizer/config.json",
        "audio_tokenizer/model.safetensors",
        "python -m omnivoice download",
    ):
        assert name in str(caught.value)


def test_no_folder(tmp_path):
    with pytest.raises(FileError, match="nowhere"):
        Engine.load(tmp_path / "nowhere")


def test_pickled_weights_and_adapters_are_named(folder):
    (folder / LM).rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="pickled weights"):
        Engine.load(folder)
    (folder / "pytorch_model.bin").rename(folder / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match="LoRA adapter"):
        Engine.load(folder)


@pytest.mark.parametrize("file", [LM, CODEC])
@pytest.mark.parametrize("cut", [0, 4, 300, -1])
def test_truncated_file_is_refused(folder, file, cut):
    data = (folder / file).read_bytes()
    (folder / file).write_bytes(data[:cut])
    with pytest.raises(FileError, match=r"model\.safetensors"):
        Engine.load(folder)


SPOILS = {
    "missing": (
        LM,
        lambda t: t.pop("llm.layers.1.mlp.up_proj.weight"),
        r"1 missing: llm\.layers\.1\.mlp\.up_proj\.weight",
    ),
    "unknown": (LM, lambda t: t.update(extra=torch.ones(1)), "1 unknown: extra"),
    "wrapped": (
        LM,
        lambda t: t.update({f"module.{k}": t.pop(k) for k in list(t)}),
        "wrapped weights: export the plain",
    ),
    "lora": (LM, lambda t: t.update({"base_model.model.llm.x.lora_A.weight": torch.ones(1)}), "LoRA adapter"),
    "shape": (LM, lambda t: t.update({"llm.norm.weight": torch.ones(7)}), r"llm\.norm\.weight has shape \(7,\)"),
    "dtype": (
        LM,
        lambda t: t.update({"llm.norm.weight": torch.ones(40, dtype=torch.int32)}),
        r"is torch\.int32, allowed",
    ),
    "nan": (LM, lambda t: t["llm.norm.weight"].__setitem__(3, torch.nan), r"llm\.norm\.weight holds NaN or Inf"),
    "inf": (CODEC, lambda t: t["fc2.bias"].__setitem__(3, torch.inf), r"fc2\.bias holds NaN or Inf"),
    "zero rows": (LM, lambda t: t["llm.embed_tokens.weight"][100:110].zero_(), r"10 rows of llm\.embed_tokens.*\[100"),
    "zero audio rows": (LM, lambda t: t["audio_embeddings.weight"][5].zero_(), r"1 rows of audio_embeddings"),
    "codec missing": (CODEC, lambda t: t.pop("fc2.weight"), r"1 missing: fc2\.weight"),
    "codec missing, for encoding": (CODEC, lambda t: t.pop("fc.weight"), r"1 missing: fc\.weight"),
    "codec shape, for encoding": (CODEC, lambda t: t.update({"fc.bias": torch.ones(3)}), r"fc\.bias has shape \(3,\)"),
}


@pytest.mark.parametrize("name", SPOILS)
def test_spoilt_weights_are_refused_by_name(folder, name):
    file, spoil, message = SPOILS[name]
    rewrite(folder / file, spoil)
    with pytest.raises(CheckpointError, match=message):
        Engine.load(folder)


def test_the_encoder_is_read_when_something_is_encoded(folder):
    rewrite(folder / CODEC, lambda t: t["fc.bias"].__setitem__(3, torch.inf))
    engine = Engine.load(folder)
    codes(engine)
    with pytest.raises(CheckpointError, match=r"fc\.bias holds NaN or Inf"):
        engine.encode_voice(Waveform(torch.sin(torch.arange(48_000) * 0.05)[None] / 3, 24_000), "One, two, three.")


def test_a_codec_that_is_gone_when_it_is_needed_is_named(folder):
    engine = Engine.load(folder)
    (folder / CODEC).unlink()
    with pytest.raises(FileError, match=r"model\.safetensors"):
        _ = engine.codec.encoder


def test_the_encoder_is_made_once(folder):
    engine = Engine.load(folder)
    assert engine.codec.encoder is engine.codec.encoder


def test_zero_rows_of_ids_no_text_can_produce_are_fine(folder):
    rewrite(folder / LM, lambda t: t["llm.embed_tokens.weight"][1290:].zero_())
    Engine.load(folder)


def test_overflow_in_half_precision_is_not_called_damage(folder):
    def enlarge(tensors):
        name = "llm.layers.0.self_attn.o_proj.weight"
        tensors[name] = tensors[name].float().index_fill_(0, torch.tensor(0), 1e6)

    rewrite(folder / LM, enlarge)
    with pytest.raises(CheckpointError, match=r"overflows in fp16: load it as bf16 or fp32"):
        Engine.load(folder, dtype=torch.float16)
    Engine.load(folder, dtype=torch.bfloat16)
    with pytest.raises(CheckpointError, match=r"o_proj.weight overflows in float8_e4m3fn: load it as bf16 or fp32"):
        Engine.load(folder, dtype=torch.bfloat16, ops=CASTING_OPS, body_dtype=torch.float8_e4m3fn)
    with pytest.raises(InputError, match=r"body_dtype torch.float8_e4m3fn needs `ops` whose layers cast their weights"):
        Engine.load(folder, body_dtype=torch.float8_e4m3fn)


def test_vocabulary_that_does_not_fit_is_refused(folder):
    edit_json(folder / "config.json", lambda c: c["llm_config"].update(vocab_size=200))
    rewrite(folder / LM, lambda t: t.update({"llm.embed_tokens.weight": t["llm.embed_tokens.weight"][:200].clone()}))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json has ids up to \d+, but the model embeds only 200"):
        Engine.load(folder)


CONFIGS = {
    "other model": (lambda c: c.update(model_type="qwen3"), "model_type must be 'omnivoice', got 'qwen3'"),
    "unknown key": (lambda c: c["llm_config"].update(new_trick=1), "unknown keys new_trick"),
    "sliding": (
        lambda c: c["llm_config"].update(use_sliding_window=True),
        "use_sliding_window = True is not supported",
    ),
    "size": (
        lambda c: c["llm_config"].update(hidden_size=-3),
        "hidden_size must be a whole number from 1 to 65536, got -3",
    ),
    "bool": (lambda c: c["llm_config"].update(num_hidden_layers=True), "num_hidden_layers must be a whole number"),
    "rope": (
        lambda c: c["llm_config"]["rope_parameters"].update(rope_type="yarn"),
        "rope_type 'yarn' is not supported",
    ),
    "no llm": (lambda c: c.pop("llm_config"), "llm_config is missing"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_that_would_be_misread_is_refused(folder, name):
    change, message = CONFIGS[name]
    edit_json(folder / "config.json", change)
    with pytest.raises(CheckpointError, match=message):
        Engine.load(folder)


def test_config_of_transformers_4_is_read(folder):
    def older(config):
        llm = config["llm_config"]
        llm.update(rope_theta=llm.pop("rope_parameters")["rope_theta"], rope_scaling=None, torch_dtype="float32")

    expected = locate_checkpoint(folder).lm_config
    edit_json(folder / "config.json", older)
    assert locate_checkpoint(folder).lm_config == expected


def test_other_codec_is_refused(folder):
    edit_json(folder / "audio_tokenizer" / "config.json", lambda c: c.update(sample_rate=16000))
    with pytest.raises(CheckpointError, match="expected 24000 Hz"):
        Engine.load(folder)


def test_loading_uses_no_network(folder, monkeypatch):
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("network used")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    codes(Engine.load(folder))
