"""What an adapter does: PEFT's own results (recorded by tests/parity/record_lora.py), and the arithmetic."""

import json

import pytest
import torch
from safetensors.torch import load_file, safe_open

from omnivoice import Engine, GenerationRequest, Sampling
from omnivoice.errors import LoraError
from omnivoice.generate.pack import Item, pack_items
from omnivoice.weights.lora import Difference, LoRA, LowRank, Replacement, lora_targets, merged, placed, relative_size
from omnivoice.weights.lora_read import read_lora
from tests.unit.weights.lora_fixtures import with_lora

CASES = ["base", "plain", "saved", "patterns", "llm_only", "rslora"]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def loras(root):
    return root / "tests" / "assets" / "lora"


@pytest.fixture(scope="module")
def recorded(loras):
    with safe_open(loras / "recorded.safetensors", framework="pt") as file:
        about = json.loads(file.metadata()["about"])
    return about, load_file(loras / "recorded.safetensors")


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


@pytest.fixture
def weights(checkpoint):
    return load_file(checkpoint / "model.safetensors")


def apply_in_place(engine, lora):
    """What a host's patches do: every change is added to its rows of the module's weight."""
    state = engine.lm.state_dict()
    for _, name, rows, change in placed(lora, engine.lm.config, fused=engine.sampler.speedups.fused_linears):
        weight = state[name] if rows is None else state[name].narrow(0, *rows)
        weight.add_(change.change(weight))


@pytest.mark.parametrize("name", CASES)
def test_tokens_and_logits_equal_pefts(checkpoint, loras, recorded, name):
    about, tensors = recorded
    engine = Engine.load(checkpoint)
    if name != "base":
        apply_in_place(engine, read_lora(loras / name, engine.lm.config))
    request = GenerationRequest(
        text=about["text"], seed=about["seed"], duration=about["seconds"], sampling=Sampling(steps=about["steps"])
    )
    assert torch.equal(engine.generate([request])[0].codes[0], tensors[f"{name}/tokens"].long())
    targets = tensors[f"{name}/logits"].shape[0]
    ids = torch.arange(about["prompt"] + targets) * 37 % 1000
    item = Item(tuple(ids[: about["prompt"]].tolist()), None, targets)
    packed = pack_items(engine.lm, engine.sampler.text, [item], guided=False, device=CPU)
    codes = ids[about["prompt"] :].expand(8, -1)
    logits = engine.lm(packed.rows(engine.lm, codes, packed.base), packed.layout)[..., :: about["every"]]
    torch.testing.assert_close(logits, tensors[f"{name}/logits"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CASES[1:])
def test_merging_equals_patching(checkpoint, loras, weights, name):
    engine = Engine.load(checkpoint)
    lora = read_lora(loras / name, engine.lm.config)
    weights = with_lora({key: tensor.float() for key, tensor in weights.items()}, lora, 1.0)
    apply_in_place(engine, lora)
    state = engine.lm.state_dict()
    for module, patched, rows, _ in placed(lora, engine.lm.config, fused=True):
        part = state[patched] if rows is None else state[patched].narrow(0, *rows)
        torch.testing.assert_close(part, weights[f"{module}.weight"], atol=1e-6, rtol=0)


def test_merging_is_the_formula_in_float32(engine, loras, weights):
    lora = read_lora(loras / "plain", engine.lm.config)
    result = with_lora(weights, lora, -0.7)
    down, up = (
        load_file(loras / "plain" / "adapter_model.safetensors")[
            f"base_model.model.llm.layers.2.mlp.up_proj.lora_{side}.weight"
        ]
        for side in "AB"
    )
    name = "llm.layers.2.mlp.up_proj.weight"
    assert torch.equal(result[name], (weights[name].float() + -0.7 * (8 / 4 * (up @ down))).half())
    changed = {key for key in weights if not torch.equal(result[key], weights[key])}
    assert changed == {f"{module}.weight" for module in lora.changes} and len(changed) == 21


def test_a_whole_weight_at_strength_1_is_that_weight():
    base, other = torch.randn(5, 4), torch.randn(5, 4)
    for strength, expected in ((1.0, other), (0.5, (base + other) / 2)):
        result = merged(base, [(Replacement(other), strength)], "m.weight", torch.float32)
        torch.testing.assert_close(result, expected, atol=1e-6, rtol=0)


def test_overflow_is_refused_by_name():
    changes = [(Difference(torch.full((2, 2), 5e4)), 2.0)]
    with pytest.raises(LoraError, match=r"m\.weight overflows in fp16 with this LoRA: lower its strength"):
        merged(torch.ones(2, 2), changes, "m.weight", torch.float16)


def test_relative_size_needs_no_product():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(30, 20, generator=generator)
    changes = {
        "a": LowRank(torch.randn(3, 20, generator=generator), torch.randn(30, 3, generator=generator), 0.5),
        "b": Difference(torch.randn(30, 20, generator=generator)),
        "c": Replacement(torch.randn(30, 20, generator=generator)),
    }
    whole = sum(float(change.change(weight).double().pow(2).sum()) for change in changes.values()) ** 0.5
    expected = 2 * whole / (3 * float(weight.double().pow(2).sum())) ** 0.5
    assert relative_size(LoRA("x", changes), lambda _: weight, -2) == pytest.approx(expected, rel=1e-5)
    in_8_bits = weight.to(torch.float8_e4m3fn)
    assert relative_size(LoRA("x", changes), lambda _: in_8_bits, -2) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("fused", [True, False])
def test_every_target_is_a_weight_of_the_module(checkpoint, engine, weights, fused):
    """Names and shapes of the table are the checkpoint's, and together with fusing the module's own."""
    targets = lora_targets(engine.lm.config)
    linears = {name.removesuffix(".weight") for name, t in weights.items() if t.ndim == 2} - {"llm.embed_tokens"}
    assert set(targets) == linears
    assert all(tuple(weights[f"{module}.weight"].shape) == shape for module, shape in targets.items())
    lora = LoRA("x", {module: Difference(torch.zeros(shape)) for module, shape in targets.items()})
    places = list(placed(lora, engine.lm.config, fused=fused))
    if fused:
        assert {name for _, name, _, _ in places} <= set(engine.lm.state_dict())
        assert all(rows is None or rows[1] == targets[module][0] for module, _, rows, _ in places)
    else:
        assert all(name == f"{module}.weight" and rows is None for module, name, rows, _ in places)
