"""Reading adapters: every spelling that is taken, and what is refused, by name and with what to do."""

import json
import math
import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from omnivoice import FileError
from omnivoice.errors import LoraError
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora import Difference, LowRank, Replacement
from omnivoice.weights.lora_peft import parse_settings
from omnivoice.weights.lora_read import is_adapter_folder, lora_from_tensors, read_lora

Q = "llm.layers.0.self_attn.q_proj"  # [96, 40] in the test checkpoint
MODEL, SETTINGS = "adapter_model.safetensors", "adapter_config.json"


@pytest.fixture(scope="module")
def config(checkpoint):
    return locate_checkpoint(checkpoint).lm_config


@pytest.fixture
def folder(tmp_path, root):
    """A private copy of a PEFT adapter, to be spoilt."""
    return shutil.copytree(root / "tests" / "assets" / "lora" / "saved", tmp_path / "my adapter")


def pair(rank=2, out=96, width=40):
    return torch.randn(rank, width), torch.randn(out, rank)


def edit(folder, **values):
    raw = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps(raw | values))


def rewrite(folder, change):
    tensors = load_file(folder / MODEL)
    change(tensors)
    save_file(tensors, folder / "new")  # not over the file, which `tensors` may map
    (folder / "new").replace(folder / MODEL)


SPELLINGS = [
    (f"{prefix}{module}", down, up)
    for prefix, module in (
        ("", Q),
        ("", Q.removeprefix("llm.")),
        ("diffusion_model.", Q),
        ("base_model.model.", Q),
        ("base_model.model.", Q.removeprefix("llm.")),
    )
    for down, up in (
        ("lora_A.weight", "lora_B.weight"),
        ("lora_A.default.weight", "lora_B.default.weight"),
        ("lora_A", "lora_B"),
        ("lora_down.weight", "lora_up.weight"),
    )
]


@pytest.mark.parametrize(("module", "down", "up"), SPELLINGS)
def test_every_spelling_of_a_pair(config, tmp_path, module, down, up):
    A, B = pair()
    tensors = {f"{module}.{down}": A, f"{module}.{up}": B, f"{module}.alpha": torch.tensor(6.0)}
    save_file(tensors, tmp_path / "x.safetensors")
    for lora in (lora_from_tensors(tensors, config), read_lora(tmp_path / "x.safetensors", config)):
        ((name, change),) = lora.changes.items()
        assert (name, change.scale, change.rank) == (Q, 3.0, 2)
        torch.testing.assert_close(change.change(torch.zeros(96, 40)), 3.0 * B @ A)


def test_without_alpha_the_scale_is_1_but_not_for_pefts(config):
    A, B = pair()
    assert lora_from_tensors({f"{Q}.lora_A.weight": A, f"{Q}.lora_B.weight": B}, config).changes[Q].scale == 1
    names = {f"base_model.model.{Q}.lora_A.weight": A, f"base_model.model.{Q}.lora_B.weight": B}
    with pytest.raises(LoraError, match=r"its scale is in the adapter_config\.json that belongs to it: put both"):
        lora_from_tensors(names, config)


def test_whole_differences_and_whole_weights(config):
    rows = torch.randn(8200, 40)
    lora = lora_from_tensors({"audio_heads.diff": rows, "audio_embeddings.set_weight": rows}, config)
    assert isinstance(lora.changes["audio_heads"], Difference)
    assert isinstance(lora.changes["audio_embeddings"], Replacement)


@pytest.mark.parametrize("spelled", ["audio_heads.weight", "audio_heads.modules_to_save.default.weight"])
def test_saved_modules_in_both_spellings(config, folder, spelled):
    def respell(tensors):
        tensors[f"base_model.model.{spelled}"] = tensors.pop("base_model.model.audio_heads.weight")

    expected = load_file(folder / MODEL)["base_model.model.audio_heads.weight"]
    rewrite(folder, respell)
    assert torch.equal(read_lora(folder, config).changes["audio_heads"].values, expected)


def test_an_adapter_file_beside_its_settings_is_the_folder(config, folder):
    assert is_adapter_folder(folder)
    assert read_lora(folder / MODEL, config).describe() == read_lora(folder, config).describe()


def test_pefts_copy_of_the_text_embedding_is_left_out_and_named(config, folder):
    name = "base_model.model.llm.embed_tokens.base_layer.weight"
    rewrite(folder, lambda tensors: tensors.update({name: torch.zeros(1300, 40)}))
    assert read_lora(folder, config).unused == (name,)


CANNOT = r"{}, which stays on the CPU and cannot be patched: .* merge the LoRA .* \(merge_and_unload in PEFT\)"


@pytest.mark.parametrize("prefix", ["base_model.model.llm.", "base_model.model."])
@pytest.mark.parametrize(
    "name",
    [
        "embed_tokens.lora_embedding_A",
        "embed_tokens.weight",  # modules_to_save, and what save_embedding_layers adds
        "embed_tokens.modules_to_save.default.weight",
        "embed_tokens.token_adapter.trainable_tokens_delta",
    ],
)
def test_a_trained_text_embedding_is_refused(config, folder, prefix, name):
    rewrite(folder, lambda tensors: tensors.update({f"{prefix}{name}": torch.zeros(2, 1300)}))
    with pytest.raises(LoraError, match=CANNOT.format(rf"changes the text embedding \('[\w.]*{name[-20:]}'\)")):
        read_lora(folder, config)


@pytest.mark.parametrize("rows", [[5, 6], {"embed_tokens": [430, 431, 432]}], ids=["list", "by module"])
def test_trained_rows_of_the_text_embedding_are_refused(config, folder, rows):
    edit(folder, trainable_token_indices=rows)
    with pytest.raises(LoraError, match=CANNOT.format(r"rows of the text embedding \(trainable_token_indices\)")):
        read_lora(folder, config)


@pytest.mark.parametrize(
    "name",
    ["llm.norm.weight", "norm.weight", "layers.0.input_layernorm.weight", "llm.layers.1.self_attn.q_norm.weight"],
)
def test_trained_norms_are_refused(config, folder, name):
    rewrite(folder, lambda tensors: tensors.update({f"base_model.model.{name}": torch.ones(40)}))
    with pytest.raises(
        LoraError, match=rf"changes norms \('base_model\.model\.{name}'\), which is not supported: merge"
    ):
        read_lora(folder, config)


def test_the_codecs_pairs_are_left_out_while_they_are_untrained(config, folder):
    stem = "base_model.model.audio_tokenizer.semantic_model.encoder.layers.0.attention.q_proj"
    zero = {f"{stem}.lora_A.weight": torch.randn(2, 24), f"{stem}.lora_B.weight": torch.zeros(24, 2)}
    rewrite(folder, lambda tensors: tensors.update(zero))
    assert set(read_lora(folder, config).unused) == set(zero)
    rewrite(folder, lambda tensors: tensors.update({f"{stem}.lora_B.weight": torch.ones(24, 2)}))
    with pytest.raises(LoraError, match=r"1 tensors that do not belong .*attention\.q_proj"):
        read_lora(folder, config)


FOREIGN = [
    ({"module.x.lora_A.weight": 1}, "is a training run's wrapped state .* use the folder with adapter_model"),
    ({f"base_model.model.{Q}.base_layer.weight": 1, f"base_model.model.{Q}.lora_A.default.weight": 1}, "wrapped state"),
    ({"llm.embed_tokens.weight": 1, f"{Q}.weight": 1}, "is a full model, not a LoRA: put it into models/omnivoice"),
    ({f"{Q}.lora_A.weight": 1, f"{Q}.lora_magnitude_vector": 1}, "is a DoRA .* not supported"),
    ({f"{Q}.dora_scale": 1}, "is a DoRA"),
    ({f"{Q}.lokr_w1": 1}, r"is a LyCORIS \(LoHa, LoKr, OFT, GLoRA\)"),
    ({f"{Q}.lora_B.bias": 1}, "is a LoRA with biases"),
    ({"lora_unet_down_blocks_0.lora_up.weight": 1}, "is not an OmniVoice LoRA: none of its tensors belongs"),
    ({"model.diffusion_model.x.weight": 1}, "is not an OmniVoice LoRA"),
    ({}, "holds no tensors: it is not a LoRA"),
    ({f"{Q}.lora_A.weight": 1}, f"has lora_A of '{Q}': a pair is lora_A and lora_B"),
    ({f"{Q}.alpha": 1}, "has alpha of"),
    ({f"{Q}.lora_A.weight": 1, f"{Q}.diff": 1}, "has diff, lora_A of"),
    ({f"{Q}.lora_A.weight": 1, f"layers{Q[10:]}.lora_A.weight": 1}, "twice, in two spellings"),
    ({f"{Q}.lora_embedding_A": 1}, "has lora_embedding_A of"),
    ({"llm.layers.0.input_layernorm.diff": 1}, "is not an OmniVoice LoRA: none"),
    ({"llm.layers.3.self_attn.q_proj.lora_A.weight": 1}, "is not an OmniVoice LoRA: none"),
]


@pytest.mark.parametrize(("names", "message"), FOREIGN, ids=lambda value: str(value)[:40])
def test_foreign_files_are_refused_by_name(config, names, message):
    with pytest.raises(LoraError, match=message):
        lora_from_tensors({name: torch.ones(2, 40) for name in names}, config)


def test_an_unknown_name_among_known_ones(config):
    A, B = pair()
    tensors = {f"{Q}.lora_A.weight": A, f"{Q}.lora_B.weight": B, f"{Q}.lora_C.weight": A}
    with pytest.raises(LoraError, match=r"1 tensors that do not belong to this model or LoRA: .*lora_C"):
        lora_from_tensors(tensors, config)


VALUES = [
    (torch.randn(2, 41), torch.randn(96, 2), None, r"shape \(2, 41\), this model needs \(2, 40\): .*another model"),
    (torch.randn(2, 40), torch.randn(96, 3), None, r"shape \(96, 3\), this model needs \(96, 2\)"),
    (torch.randn(0, 40), torch.randn(96, 0), None, "rank .* must be 1-256, got 0"),
    (torch.randn(257, 40), torch.randn(96, 257), None, "must be 1-256, got 257"),
    (torch.randn(()), torch.randn(96, 2), None, "must be 1-256, got 0"),
    (torch.full((2, 40), math.nan), torch.randn(96, 2), None, "holds NaN or Inf"),
    (torch.randn(2, 40), torch.full((96, 2), math.inf), None, "holds NaN or Inf"),
    (torch.ones(2, 40, dtype=torch.int64), torch.randn(96, 2), None, "is torch.int64, allowed are float32"),
    (torch.zeros(2, 40, dtype=torch.float64), torch.randn(96, 2), None, "is torch.float64, allowed are"),
    (torch.randn(2, 40), torch.randn(96, 2), torch.tensor(math.nan), "alpha .* must be from 2e-30 to 20000"),
    (torch.randn(2, 40), torch.randn(96, 2), torch.tensor(0.0), "alpha .* must be from 2e-30 to 20000"),
    (torch.randn(2, 40), torch.randn(96, 2), torch.tensor(1e38), "alpha .* must be from 2e-30 to 20000"),
    (torch.randn(2, 40), torch.randn(96, 2), torch.ones(3), r"alpha .* must be one number, got \(3,\)"),
]


@pytest.mark.parametrize(("A", "B", "alpha", "message"), VALUES, ids=[value[3][:30] for value in VALUES])
def test_unsound_values(config, A, B, alpha, message):
    tensors = {f"{Q}.lora_A.weight": A, f"{Q}.lora_B.weight": B}
    with pytest.raises(LoraError, match=message):
        lora_from_tensors(tensors if alpha is None else tensors | {f"{Q}.alpha": alpha}, config)


@pytest.mark.parametrize(
    "forged",
    [None, 3, "x", [1], {1: torch.ones(1)}, {"a": [1.0]}, {"a" * 300: torch.ones(1)}, {"a": torch.ones(1).to_sparse()}],
    ids=repr,
)
def test_forged_sockets(config, forged):
    with pytest.raises(LoraError, match=r"the lora input"):
        lora_from_tensors(forged, config)


def test_a_socket_of_endless_size_costs_nothing(config):
    huge = torch.zeros(1).expand(1 << 40)
    with pytest.raises(LoraError, match="must be at most 536870912 bytes"):
        lora_from_tensors({f"{Q}.lora_A.weight": huge}, config)
    with pytest.raises(LoraError, match="at most 4096 tensors, got 5000"):
        lora_from_tensors({str(i): torch.ones(1) for i in range(5000)}, config)


def test_the_sockets_tensors_stay_as_they_are(config):
    A, B = (tensor.requires_grad_() for tensor in pair())
    before = A.detach().clone(), B.detach().clone()
    change = lora_from_tensors({f"{Q}.lora_A.weight": A, f"{Q}.lora_B.weight": B}, config).changes[Q]
    assert isinstance(change, LowRank) and not change.down.requires_grad
    assert torch.equal(A, before[0]) and torch.equal(B, before[1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"use_dora": True}, "is a DoRA"),
        ({"peft_type": "IA3"}, "peft_type must be LORA, got 'IA3'"),
        (
            {"init_lora_weights": "pissa_niter_4"},
            "initialised by init_lora_weights 'pissa_niter_4', which changes the base",
        ),
        ({"alora_invocation_tokens": [1]}, "'alora_invocation_tokens' is not supported"),
        ({"fan_in_fan_out": True}, "'fan_in_fan_out' is not supported"),
        ({"something_new": 1}, "'something_new' is not supported"),
        ({"r": 4}, r"has rank 2, adapter_config\.json says 4: the two files belong to different LoRAs"),
        ({"r": "2"}, "'r' must be a whole number, got '2'"),
        ({"r": True}, "'r' must be a whole number, got True"),
        ({"lora_alpha": None}, "'lora_alpha' must be a number, got None"),
        ({"lora_alpha": 0}, "alpha .* must be from 2e-30 to 20000"),
        ({"lora_alpha": 5e-324}, "alpha .* must be from 2e-30 to 20000"),
        ({"lora_alpha": 1.9e-30}, "alpha .* must be from 2e-30 to 20000"),
        ({"lora_alpha": 14_200, "use_rslora": True}, "alpha .* must be from 1.41421e-30 to 14142.1"),
        ({"lora_alpha": 1e300}, "alpha .* must be from 2e-30 to 20000"),
        ({"rank_pattern": {"(a+)+$": 2}}, r"rank_pattern has a pattern that is not supported, '\(a\+\)\+\$'"),
        ({"rank_pattern": {".*.*": 2}}, "pattern that is not supported"),
        ({"alpha_pattern": {"x" * 201: 2}}, "pattern that is not supported"),
        ({"alpha_pattern": [1]}, "alpha_pattern must be an object of at most 512 patterns"),
        ({"modules_to_save": "audio_heads"}, "modules_to_save must be a list of names"),
        (
            {"modules_to_save": ["audio_heads", "audio_embeddings"]},
            "lists 'audio_embeddings' in modules_to_save, but does not hold",
        ),
    ],
)
def test_settings_that_are_refused(config, folder, values, message):
    edit(folder, **values)
    with pytest.raises(LoraError, match=message):
        read_lora(folder, config)


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ({"lora_alpha": 3}, 1.5),
        ({"lora_alpha": 3, "use_rslora": True}, 3 / math.sqrt(2)),
        ({"lora_alpha": 3, "alpha_pattern": {"q_proj": 8}}, 4.0),
        ({"lora_alpha": 3, "alpha_pattern": {r"layers\.\d+\.self_attn\.q_proj": 8, "q_proj": 2}}, 4.0),
        ({"lora_alpha": 3, "alpha_pattern": {"^llm.layers.0.*": 8}}, 4.0),
        ({"lora_alpha": 3, "alpha_pattern": {"^layers.0.*": 8, "_proj": 8, "proj": 8, "layers.0": 8}}, 1.5),
        ({"r": 9, "rank_pattern": {"q_proj": 2, "v_proj": 2}, "lora_alpha": 2}, 1.0),
        ({"init_lora_weights": "gaussian", "lora_dropout": 0.5, "bias": "none", "target_modules": ".*"}, 1.0),
    ],
)
def test_settings_give_the_scale(config, folder, values, scale):
    edit(folder, **values)
    assert read_lora(folder, config).changes[Q].scale == pytest.approx(scale)


def test_folders_and_files_that_are_none(config, folder, checkpoint, tmp_path):
    with pytest.raises(
        LoraError, match=r"missing adapter_model\.safetensors and adapter_config\.json; it is a model fo"
    ):
        read_lora(checkpoint, config)
    (folder / MODEL).rename(folder / "adapter_model.bin")
    assert not is_adapter_folder(folder)
    with pytest.raises(LoraError, match=r"adapter_model\.bin is a pickle: save the adapter again as safetensors"):
        read_lora(folder, config)
    torch.save({"a": torch.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(FileError, match="a zip or a PyTorch pickle, not safetensors"):
        read_lora(tmp_path / "x.safetensors", config)
    with pytest.raises(FileError, match="does not exist"):
        read_lora(tmp_path / "absent.safetensors", config)
    (folder / "adapter_model.bin").rename(folder / MODEL)
    (folder / SETTINGS).write_text("[]")
    with pytest.raises(LoraError, match="expected a JSON object, got list"):
        read_lora(folder, config)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "r",
    "lora_alpha",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
    "modules_to_save",
    "init_lora_weights",
    "bias",
]


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
@settings(max_examples=150, deadline=None)
def test_hostile_settings_raise_our_error_and_nothing_else(values):
    try:
        settings_ = parse_settings({"peft_type": "LORA", "r": 2, "lora_alpha": 2} | values)
        assert settings_.scale(Q, settings_.rank) > 0
    except LoraError as error:
        assert len(str(error)) < 400
