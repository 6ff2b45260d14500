"""LoRAs that PEFT trained on `model.llm` alone, with rsLoRA: every way to use one gives the weights computed by hand.

The values of the pairs are fractions of 64, so that every product is exact whatever the order of its sum.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from omnivoice import Engine, GenerationRequest, InputError, Sampling
from omnivoice.__main__ import main
from omnivoice.errors import LoraError
from omnivoice.lm.fused import fused_rows
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.lora import lora_targets
from omnivoice.weights.lora_read import lora_from_tensors, read_lora

Q, V, GATE = "layers.0.self_attn.q_proj", "layers.2.self_attn.v_proj", "layers.1.mlp.gate_proj"
MODULES = (Q, V, GATE)  # as PEFT names them, without `llm.`
REQUEST = GenerationRequest("Hello there.", seed=3, duration=0.5, sampling=Sampling(steps=4))
# (r, lora_alpha, use_rslora, alpha_pattern) -> the scale of each of MODULES
KINDS = {
    "rslora 32": ((32, 64, True, {}), [64 / math.sqrt(32)] * 3),
    "rslora 16": ((16, 32, True, {}), [8.0] * 3),
    "rslora 7": ((7, 0.5, True, {}), [0.5 / math.sqrt(7)] * 3),
    "plain 32": ((32, 64, False, {}), [2.0] * 3),
    "rslora 32, by module": ((32, 16, True, {Q: 4, r"^layers\.1.*": 2}), [a / math.sqrt(32) for a in (4, 16, 2)]),
}


def write_adapter(folder: Path, shapes: dict, r: int, alpha: float, rslora: bool, pattern: dict, dtype: torch.dtype):
    """What `get_peft_model(model.llm, LoraConfig(…)).save_pretrained(folder)` writes; returns the tensors."""
    tensors = {}
    for number, module in enumerate(MODULES):
        out, width = shapes[f"llm.{module}"]
        for side, shape in (("A", (r, width)), ("B", (out, r))):
            draw = torch.randint(-32, 32, shape, generator=torch.Generator().manual_seed(number + 10 * (side == "B")))
            tensors[f"base_model.model.{module}.lora_{side}.weight"] = (draw / 64).to(dtype)
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {"peft_type": "LORA", "r": r, "lora_alpha": alpha, "use_rslora": rslora, "alpha_pattern": pattern}
    settings |= {"target_modules": ["q_proj", "v_proj", "gate_proj"], "bias": "none", "task_type": None}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return tensors


def by_hand(base: dict, tensors: dict, scales: list[float], strength: float) -> dict[str, torch.Tensor]:
    """{weight: W + strength * scale * B A}, each operation in float32."""
    found = {}
    for module, scale in zip(MODULES, scales):
        A, B = (tensors[f"base_model.model.{module}.lora_{side}.weight"].double().numpy() for side in "AB")
        product = (B @ A).astype(np.float32)
        assert (product == B @ A).all(), "exact"
        change = np.float32(strength) * (np.float32(scale) * product)
        found[f"llm.{module}.weight"] = torch.from_numpy(base[f"llm.{module}.weight"].float().numpy() + change)
    return found


@pytest.fixture(scope="module")
def base(checkpoint: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoint / "model.safetensors")


@pytest.fixture(scope="module")
def shapes(checkpoint: Path) -> dict[str, tuple[int, int]]:
    return lora_targets(locate_checkpoint(checkpoint).lm_config)


def loaded_weights(engine: Engine, base: dict) -> dict[str, torch.Tensor]:
    """The engine's matrices by the checkpoint's names, cut out of the fused ones."""
    state, rows = engine.lm.state_dict(), fused_rows(engine.lm.config)
    found = {}
    for name in (name for name, weight in base.items() if weight.ndim == 2 and "embed_tokens" not in name):
        weight, *place = rows.get(name, (name,))
        found[name] = state[weight].narrow(0, place[0], place[1]) if place else state[weight]
    return found


@pytest.mark.parametrize("strength", [1.0, -0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["stored fp32", "stored bf16"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_gives_the_weights_by_hand(checkpoint, base, shapes, tmp_path, kind, dtype, strength) -> None:
    """Merged by the engine, into a file and into a folder: bit for bit, and no other weight changes."""
    (r, alpha, rslora, pattern), scales = KINDS[kind]
    tensors = write_adapter(tmp_path / "lora", shapes, r, alpha, rslora, pattern, dtype)
    expected = {name: tensor.float() for name, tensor in base.items() if tensor.is_floating_point()}
    expected |= by_hand(base, tensors, scales, strength)
    files = locate_checkpoint(checkpoint)
    loras = [(read_lora(tmp_path / "lora", files.lm_config), strength)]
    export_checkpoint(files, tmp_path / "one.safetensors", dtype=torch.float32, loras=loras)
    export_folder(files, tmp_path / "folder", dtype=torch.float32, loras=loras)
    engine = Engine.load(checkpoint, loras=[(tmp_path / "lora", strength)])
    ways = [load_file(tmp_path / "one.safetensors"), load_file(tmp_path / "folder" / "model.safetensors")]
    for got in (*ways, loaded_weights(engine, base)):
        assert all(torch.equal(got[name], tensor) for name, tensor in expected.items() if name in got)
        assert {f"llm.{module}.weight" for module in MODULES} <= got.keys()


def test_two_loras_add_up_and_strength_0_is_the_model(checkpoint, base, shapes, tmp_path) -> None:
    for name, alpha in (("a", 64), ("b", 8)):
        write_adapter(tmp_path / name, shapes, 32, alpha, True, {}, torch.float32)
    both = Engine.load(checkpoint, loras=[(tmp_path / "a", 0.5), (tmp_path / "b", -4.0)])
    untouched = Engine.load(checkpoint, loras=[(tmp_path / "a", 0.0)])
    for engine, tolerance in ((both, 1e-6), (untouched, 0)):  # 0.5 * 64 - 4 * 8 = 0, but for rounding
        for name, weight in loaded_weights(engine, base).items():
            torch.testing.assert_close(weight, base[name].float(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("spoken", [torch.float32, torch.bfloat16])
def test_the_files_weights_stay_as_they_are(checkpoint, loras, spoken) -> None:
    """A merged weight is a new tensor in the model's dtype; the next engine of the same file speaks as before."""
    before = Engine.load(checkpoint, dtype=spoken).generate([REQUEST])[0].codes[0]
    merged = Engine.load(checkpoint, dtype=spoken, loras=[(loras / "rslora", 1.0)])
    assert merged.lm.get_submodule("llm.layers.0.self_attn").qkv_proj.weight.dtype == spoken
    assert not torch.equal(merged.generate([REQUEST])[0].codes[0], before)
    assert torch.equal(Engine.load(checkpoint, dtype=spoken).generate([REQUEST])[0].codes[0], before)


@pytest.fixture(scope="module")
def loras(root: Path) -> Path:
    return root / "tests" / "assets" / "lora"


def test_the_command_line_speaks_with_it(checkpoint, loras, tmp_path, capsys) -> None:
    """`speak --lora` makes the recording that `speak` makes of the model that `merge` wrote."""

    def speak(model: Path, name: str, *options: str) -> bytes:
        text = ["speak", "Hello there.", "--duration", "0.5", "--seed", "3", "--steps", "4", "--model", str(model)]
        assert main([*text, *options, "-o", str(tmp_path / f"{name}.wav")]) == 0
        return (tmp_path / f"{name}.wav").read_bytes()

    adapter = str(loras / "rslora")
    merged = tmp_path / "merged.safetensors"
    assert main(["merge", "--model", str(checkpoint), "--lora", adapter, "--dtype", "fp32", "-o", str(merged)]) == 0
    assert "with 6 LoRA A/B pairs (rank 32, scale 0.3536) of rslora at strength 1" in capsys.readouterr().out
    plain = speak(checkpoint, "plain")
    assert speak(checkpoint, "with", "--lora", adapter) == speak(merged, "merged") != plain
    assert speak(checkpoint, "zero", "--lora", adapter, "--strength", "0") == plain


def test_the_command_line_refuses_what_does_not_go_together(checkpoint, loras, tmp_path, capsys) -> None:
    said = ["speak", "Hello.", "--model", str(checkpoint), "-o", str(tmp_path / "a.wav"), "--lora"]
    assert main([*said, str(loras / "rslora"), "--strength", "1", "--strength", "2"]) == 1
    assert "--strength must be given once for each of the 1 --lora, or not at all, got 2" in capsys.readouterr().err
    assert main([*said, str(loras / "rslora"), "--strength", "99"]) == 1
    assert "strength must be -10 to 10, got 99" in capsys.readouterr().err
    assert main([*said, str(checkpoint)]) == 1
    assert "is not a PEFT adapter" in capsys.readouterr().err
    assert not (tmp_path / "a.wav").exists()


def test_a_merge_that_overflows_names_the_weight(checkpoint, shapes, tmp_path) -> None:
    tensors = write_adapter(tmp_path / "lora", shapes, 1, 10_000, True, {}, torch.float32)
    tensors = {name: tensor.sign() * 1e4 for name, tensor in tensors.items()}
    save_file(tensors, tmp_path / "lora" / "adapter_model.safetensors")
    with pytest.raises(LoraError, match=r"llm\.layers\.\d\.\S+\.weight overflows in fp16 with this LoRA: lower its"):
        Engine.load(checkpoint, dtype=torch.float16, loras=[(tmp_path / "lora", 1.0)])


def test_eight_bit_weights_take_no_lora(checkpoint, loras) -> None:
    with pytest.raises(InputError, match="weights that are stored in body_dtype take no LoRA"):
        Engine.load(checkpoint, body_dtype=torch.float8_e4m3fn, loras=[(loras / "rslora", 1.0)])


def test_the_settings_file_is_needed(checkpoint, loras) -> None:
    """Without adapter_config.json nobody knows that it is an rsLoRA, so the file alone is refused."""
    tensors = load_file(loras / "rslora" / "adapter_model.safetensors")
    with pytest.raises(LoraError, match=r"its scale is in the adapter_config\.json that belongs to it"):
        lora_from_tensors(tensors, locate_checkpoint(checkpoint).lm_config)
