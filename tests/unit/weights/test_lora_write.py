"""Adapters written and read back: the same changes in every form, what PEFT made of them, and what is refused."""

import getpass
import json
import math
import platform
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, safe_open, save_file

from omnivoice import Engine, FileError, InputError
from omnivoice.errors import LoraError
from omnivoice.generate.pack import Item, pack_items
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora import Difference, LoRA, LowRank, Replacement, lora_targets, placed
from omnivoice.weights.lora_peft import MAX_SCALE, MIN_SCALE
from omnivoice.weights.lora_read import lora_from_tensors, read_lora
from omnivoice.weights.lora_write import METADATA_KEYS, lora_tensors, peft_config, write_lora, write_peft
from tests.parity import own_adapters as own

MODEL, CONFIG = "adapter_model.safetensors", "adapter_config.json"
Q, E, H = "llm.layers.0.self_attn.q_proj", "audio_embeddings", "audio_heads"
ABOUT = {"name": "Ann's voice", "base": "OmniVoice", "data": "12 clips, 3 min", "settings": '{"rank": 4}', "steps": "9"}


@pytest.fixture(scope="module")
def config(checkpoint):
    return locate_checkpoint(checkpoint).lm_config


@pytest.fixture(scope="module")
def weights(checkpoint):
    return load_file(checkpoint / "model.safetensors")


@pytest.fixture(scope="module")
def loras(config, weights):
    return own.adapters(config, weights)


def small(**changes):
    """One pair of q_proj, unless told otherwise."""
    pair = LowRank(own.values(2, 40, seed=1), own.values(96, 2, seed=2), 1.5)
    return LoRA("x", {name.replace("__", "."): change for name, change in changes.items()} or {Q: pair})


def assert_same(got, wanted, tolerance=1e-6):
    assert got.changes.keys() == wanted.changes.keys() and got.unused == ()
    for module, change in wanted.changes.items():
        found = got.changes[module]
        assert type(found) is type(change)
        if isinstance(change, LowRank):
            assert torch.equal(found.down, change.down) and torch.equal(found.up, change.up)
            assert math.isclose(found.scale, change.scale, rel_tol=tolerance)
        else:
            assert torch.equal(found.values, change.values)


# ---------------------------------------------------------------- every form gives the changes back


@pytest.mark.parametrize("name", own.CASES)
def test_round_trips(config, loras, tmp_path, name):
    lora = loras[name]
    assert_same(lora_from_tensors(lora_tensors(lora), config), lora)
    assert_same(read_lora(write_lora(tmp_path / "a.safetensors", lora, ABOUT), config), lora)
    assert_same(read_lora(write_peft(tmp_path / "new" / "folder", lora, ABOUT, **own.CASES[name]), config), lora, 1e-11)


PARTS = ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj")
MODULES = st.sampled_from([*(f"llm.layers.{layer}.{part}" for layer in range(3) for part in PARTS), E, H])
USUAL_SCALES, EDGES = [0.5, 1.0, 2.0, 1 / 3, 7.77], [MIN_SCALE, 9_999.999_999, MAX_SCALE]
SCALES = st.sampled_from(USUAL_SCALES + EDGES) | st.floats(MIN_SCALE, MAX_SCALE)
PAIRS = st.dictionaries(MODULES, st.tuples(st.integers(1, 5), SCALES), min_size=1)


@given(pairs=PAIRS, saved=st.sets(st.sampled_from([E, H])), rslora=st.booleans(), dropout=st.sampled_from([0.0, 0.1]))
@settings(max_examples=60, deadline=None)
def test_any_mixture_of_ranks_scales_and_targets(config, tmp_path_factory, pairs, saved, rslora, dropout):
    targets = lora_targets(config)
    changes = {
        module: LowRank(
            own.values(rank, targets[module][1], seed=3), own.values(targets[module][0], rank, seed=4), scale
        )
        for module, (rank, scale) in pairs.items()
    }
    changes |= {module: Replacement(own.values(*targets[module], seed=5)) for module in saved}
    lora, folder = LoRA("x", changes), tmp_path_factory.mktemp("mixture")
    assert_same(read_lora(write_peft(folder, lora, rslora=rslora, dropout=dropout), config), lora, 1e-11)
    assert_same(lora_from_tensors(lora_tensors(lora), config), lora)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(config, loras, tmp_path, dtype):
    lora = loras["usual"]
    for path in (
        write_lora(tmp_path / "a.safetensors", lora, dtype=dtype),
        write_peft(tmp_path / "b", lora, dtype=dtype),
    ):
        got = read_lora(path, config).changes
        assert got[Q].scale == 2.0 and torch.equal(got[Q].up, lora.changes[Q].up.to(dtype))
        assert torch.equal(got[H].values, lora.changes[H].values.to(dtype))
    kinds = {name.rpartition(".")[2]: t.dtype for name, t in load_file(tmp_path / "a.safetensors").items()}
    assert kinds == {"alpha": torch.float32, "weight": dtype, "set_weight": dtype}


def test_a_file_that_core_saved_without_metadata_is_read(config, loras, tmp_path):
    """SaveLoRA hands the socket's dict to safetensors, which refuses shared memory and views."""
    save_file(lora_tensors(loras["embeddings"]), tmp_path / "core.safetensors")
    assert_same(read_lora(tmp_path / "core.safetensors", config), loras["embeddings"])


def test_tensors_are_copies_of_their_own(loras):
    shared = torch.ones(40, 96, requires_grad=True)
    lora = small(**{Q: LowRank(shared[:2, :40], shared.T[:, :2], 1.0), H: Difference(torch.ones(1).expand(8200, 40))})
    tensors = lora_tensors(lora)
    assert all(t.is_contiguous() and not t.requires_grad and t.device.type == "cpu" for t in tensors.values())
    assert len({t.untyped_storage().data_ptr() for t in tensors.values()}) == len(tensors)
    tensors[f"{Q}.lora_up.weight"].zero_()
    assert bool((shared == 1).all())


# ---------------------------------------------------------------- what the files say


def test_names_and_metadata_of_the_single_file(tmp_path):
    lora = small(**{Q: LowRank(torch.ones(2, 40), torch.ones(96, 2), 1.5), H: Difference(torch.ones(8200, 40))})
    with safe_open(write_lora(tmp_path / "a.safetensors", lora, ABOUT), framework="pt") as file:
        assert set(file.keys()) == {f"{Q}.lora_up.weight", f"{Q}.lora_down.weight", f"{Q}.alpha", f"{H}.diff"}
        assert file.metadata() == {"format": "omnivoice_lora", "format_version": "1", **ABOUT}
        assert file.get_tensor(f"{Q}.alpha") == torch.tensor(3.0)


def test_settings_of_the_peft_folder(loras, tmp_path):
    written = json.loads((write_peft(tmp_path / "a", loras["usual"], dropout=0.05) / CONFIG).read_text())
    assert sorted(written["target_modules"]) == sorted(own.LINEARS)
    assert (written["r"], written["lora_alpha"], written["lora_dropout"], written["use_rslora"]) == (4, 8, 0.05, False)
    assert written["modules_to_save"] == [E, H] and written["rank_pattern"] == written["alpha_pattern"] == {}
    written = peft_config(loras["embeddings"].changes, rslora=True)
    assert written["rank_pattern"] == {"audio_heads": 1, "down_proj": 3, "llm.layers.1.self_attn.q_proj": 5}
    assert written["alpha_pattern"] == {"audio_embeddings": 3, "llm.layers.0.self_attn.o_proj": 1}
    assert (written["r"], written["lora_alpha"]) == (2, 2)
    assert written["use_rslora"] is True and written["modules_to_save"] is None


def test_a_short_name_never_says_more_than_the_adapter_has(loras):
    """PEFT takes q_proj for that of every layer."""
    changes = loras["embeddings"].changes
    some = {name: change for name, change in changes.items() if name != Q and "layers.2" not in name and name != E}
    named = peft_config(some)["target_modules"]
    assert "q_proj" not in named and "llm.layers.1.self_attn.q_proj" in named and "k_proj" in named
    upper = {name: change for name, change in changes.items() if "layers.2" in name}
    assert set(peft_config(upper)["target_modules"]) == set(upper)


@pytest.mark.parametrize("name", own.CASES)
def test_peft_was_given_these_very_files(loras, root, tmp_path, name):
    """Else what it said of them, which the next test replays, is about others: run check_peft.py --record again."""
    with safe_open(root / "tests" / "assets" / "lora" / "ours.safetensors", framework="pt") as file:
        recorded = json.loads(file.metadata()["about"])
    assert own.digest(write_peft(tmp_path / name, loras[name], **own.CASES[name])) == recorded[name]


@pytest.mark.parametrize("name", own.CASES)
def test_logits_equal_those_of_peft_on_upstream(checkpoint, loras, root, name):
    engine = Engine.load(checkpoint)
    state = engine.lm.state_dict()
    for _, weight, rows, change in placed(loras[name], engine.lm.config, fused=True):
        part = state[weight] if rows is None else state[weight].narrow(0, *rows)
        part.add_(change.change(part))
    ids = own.input_ids()
    item = Item(tuple(ids[0, : own.PROMPT].tolist()), None, own.TARGETS)
    packed = pack_items(engine.lm, engine.sampler.text, [item], guided=False, device=torch.device("cpu"))
    with torch.no_grad():
        got = engine.lm(packed.rows(engine.lm, ids[:, own.PROMPT :], packed.base), packed.layout)[..., :: own.EVERY]
    wanted = load_file(root / "tests" / "assets" / "lora" / "ours.safetensors")[name]
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


def test_no_file_tells_of_this_machine(loras, tmp_path):
    write_lora(tmp_path / "a.safetensors", loras["usual"], ABOUT)
    write_peft(tmp_path / "b", loras["usual"], ABOUT)
    for path in (tmp_path / "a.safetensors", tmp_path / "b" / MODEL, tmp_path / "b" / CONFIG):
        text = path.read_bytes()[:200_000]
        length = int.from_bytes(text[:8], "little") if path.suffix == ".safetensors" else len(text)
        for secret in (str(Path.home()), str(tmp_path), platform.node(), f"/{getpass.getuser()}"):
            assert secret.encode() not in text[: 8 + length]


# ---------------------------------------------------------------- metadata


PATHS = [
    "/srv/ann",
    "see /opt/x",
    "~/data",
    r"C:\data",
    "d:/data",
    r"\\server\share",
    '{"data": "/mnt/a"}',
    "a=/etc",
    "file:///x",
    "hf_" + "a" * 34,
]


@pytest.mark.parametrize("value", PATHS)
@pytest.mark.parametrize("key", ["data", "settings"])
def test_paths_and_tokens_are_refused(tmp_path, key, value):
    for write, path in ((write_lora, tmp_path / "a.safetensors"), (write_peft, tmp_path / "b")):
        with pytest.raises(InputError, match=f"metadata {key} holds a path or a token"):
            write(path, small(), {key: value})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value", ["and/or", "a / b", "https://example.org/x", "1/2", "12:30", "lr: 1e-4", "Ann: yes", '{"a":[1,2]}', ""]
)
def test_plain_words_are_no_paths(tmp_path, value):
    with safe_open(write_lora(tmp_path / "a.safetensors", small(), {"data": value}), framework="pt") as file:
        assert file.metadata()["data"] == value


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"user": "x"}, r"may hold name, base, data, settings, steps, consent only, got 'user'"),
        ({"format": "x"}, "only, got 'format'"),
        ({"name": "x" * 2001}, "metadata name must be one line of at most 2000 printable characters"),
        ({"name": "a\nb"}, "one line"),
        ({"steps": 3}, "printable characters, got 3"),
    ],
)
def test_other_metadata_is_refused(tmp_path, metadata, message):
    with pytest.raises(InputError, match=message):
        write_lora(tmp_path / "a.safetensors", small(), metadata)
    assert len(METADATA_KEYS) + len(("format", "format_version")) == 8


# ---------------------------------------------------------------- what cannot be written, and what is not replaced


REFUSED = [
    (LoRA("x", {}), {}, LoraError, "x changes nothing: there is nothing to write"),
    (
        small(**{Q: LowRank(torch.ones(2, 40), torch.full((96, 2), 1e9), 1.0)}),
        {"dtype": torch.float16},
        LoraError,
        "q_proj holds NaN or Inf in fp16: write it in fp32",
    ),
    (small(**{Q: LowRank(torch.full((2, 40), math.nan), torch.ones(96, 2), 1.0)}), {}, LoraError, "holds NaN or Inf"),
    (
        small(**{Q: LowRank(torch.ones(2, 40), torch.ones(96, 2), -1.0)}),
        {},
        LoraError,
        "alpha .* must be from 2e-30 to 20000",
    ),
    (
        small(**{Q: LowRank(torch.ones(2, 40), torch.ones(96, 2), math.nan)}),
        {},
        LoraError,
        "alpha .* must be from 2e-30 to 20000",
    ),
    (small(**{Q: LowRank(torch.ones(257, 40), torch.ones(96, 257), 1.0)}), {}, LoraError, "must be 1-256, got 257"),
    (small(), {"dtype": torch.int8}, InputError, "written in bf16, fp16, fp32, got int8"),
]


@pytest.mark.parametrize(("lora", "options", "error", "message"), REFUSED, ids=[case[3][:25] for case in REFUSED])
def test_what_cannot_be_written(tmp_path, lora, options, error, message):
    for write, path in ((write_lora, tmp_path / "a.safetensors"), (write_peft, tmp_path / "b")):
        with pytest.raises(error, match=message):
            write(path, lora, **options)
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_too_large_to_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("omnivoice.weights.lora_write.MAX_TENSORS_BYTES", 1000)
    for write, path in ((write_lora, tmp_path / "a.safetensors"), (write_peft, tmp_path / "b")):
        with pytest.raises(LoraError, match=r"would be 10\d\d bytes large, at most 1000 .*: write it in bf16"):
            write(path, small())


def test_other_refusals(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.safetensors, got 'a\.pt'"):
        write_lora(tmp_path / "a.pt", small())
    with pytest.raises(InputError, match="dropout must be at least 0 and below 1, got 1"):
        write_peft(tmp_path / "b", small(), dropout=1)
    with pytest.raises(FileError, match="its folder does not exist: create it first"):
        write_lora(tmp_path / "absent" / "a.safetensors", small())


def test_a_difference_is_refused_for_peft(tmp_path):
    lora = small(**{H: Difference(own.values(8200, 40, seed=1))})
    with pytest.raises(LoraError, match="PEFT has no form for the difference of audio_heads: write one file"):
        write_peft(tmp_path / "a", lora)
    assert list(tmp_path.iterdir()) == []


def test_only_its_own_kind_is_replaced(config, root, tmp_path):
    one, folder = write_lora(tmp_path / "a.safetensors", small()), write_peft(tmp_path / "b", small())
    other = small(**{Q: LowRank(torch.ones(3, 40), torch.ones(96, 3), 1.0)})
    with pytest.raises(FileError, match="exists already"):
        write_lora(one, other)
    with pytest.raises(FileError, match="the folder b holds a LoRA already: choose another name"):
        write_peft(folder, other)
    (folder / "notes.txt").write_text("mine")
    assert_same(read_lora(write_lora(one, other, overwrite=True), config), other)
    assert_same(read_lora(write_peft(folder, other, overwrite=True), config), other)
    assert (folder / "notes.txt").read_text() == "mine"
    save_file({"a": torch.ones(1)}, tmp_path / "foreign.safetensors")
    with pytest.raises(FileError, match="is of another kind"):
        write_lora(tmp_path / "foreign.safetensors", other, overwrite=True)
    for held in ({MODEL: None}, {CONFIG: "{}"}, {MODEL: "x", CONFIG: "{}"}):
        place = tmp_path / f"foreign {len(list(tmp_path.iterdir()))}"
        place.mkdir()
        for name, text in held.items():
            if text is None:
                save_file({"a": torch.ones(1)}, place / name, metadata={"format": "pt"})
            else:
                (place / name).write_text(text)
        before = {path.name: path.read_bytes() for path in place.iterdir()}
        with pytest.raises(FileError):
            write_peft(place, other, overwrite=True)
        assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_settings_come_last(monkeypatch, tmp_path):
    """Without them the folder is no adapter, so weights are written only when they are on the disk."""

    def full(*_, **__):
        raise FileError("the disk is full")

    monkeypatch.setattr("omnivoice.weights.lora_write.write_atomic", full)
    with pytest.raises(FileError, match="the disk is full"):
        write_peft(tmp_path / "a", small())
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize(
    "note, read", [("", ""), ("permission: Anna, 2 May", "permission: Anna, 2 May"), ("x" * 900, "x" * 500)]
)
def test_the_note_of_consent_comes_back_from_both_formats(config, tmp_path: Path, note: str, read: str) -> None:
    about = {"consent": note} if note else {}
    write_lora(tmp_path / "a.safetensors", small(), about)
    write_peft(tmp_path / "peft", small(), about)
    for path in (tmp_path / "a.safetensors", tmp_path / "peft"):
        assert read_lora(path, config).consent == read


@pytest.mark.parametrize("note, read", [("a\nb\u202e", "a b"), ("\0" * 5, ""), ("\ud7ff" * 600, "\ud7ff" * 500)])
def test_no_note_of_a_stranger_blocks_a_lora(config, tmp_path: Path, note: str, read: str) -> None:
    save_file(lora_tensors(small()), tmp_path / "a.safetensors", {"consent": note})
    assert read_lora(tmp_path / "a.safetensors", config).consent == read
