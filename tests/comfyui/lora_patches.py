"""Run by ComfyUI's python in its tree: what its real patchers do with our patches, told as JSON on the last line.

usage: python lora_patches.py PACK MODEL LORAS      (test_lora_server.py runs it)
"""

import importlib
import importlib.util
import json
import logging
import os
import sys
import tempfile
from pathlib import Path

PACK, MODEL, LORAS = map(Path, sys.argv[1:4])
sys.argv = ["main.py", "--cpu"]
sys.path.insert(0, os.getcwd())
import comfy.options  # noqa: E402
import utils.install_util  # noqa: E402, F401  (ComfyUI's own, before another `utils` is found)

comfy.options.enable_args_parsing()
import comfy.lora  # noqa: E402
import comfy.model_management as mm  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402


def load_pack():
    spec = importlib.util.spec_from_file_location(
        "pack-dev", PACK / "__init__.py", submodule_search_locations=[str(PACK)]
    )
    sys.modules["pack-dev"] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return {
        name.rpartition(".")[2]: importlib.import_module(f"pack-dev.{name}")
        for name in ("nodes.host", "omnivoice.types", "omnivoice.weights.lora", "omnivoice.weights.lora_write")
    }


def request(types):
    return types.GenerationRequest(
        text="Good morning everyone.", seed=11, duration=1.0, sampling=types.Sampling(steps=6)
    )


def same_bits(module, before):
    return all(torch.equal(weight, before[key]) for key, weight in module.state_dict().items())


def one_adapter(p, base, name, before, recorded):
    """Applied, removed, and applied while weights stay where they are (low VRAM)."""
    found = {}
    host, lora = p["host"], p["host"].lora
    model = lora.apply_lora(base, name, None, 1.0).model
    tokens = recorded[f"{name}/tokens"].long()
    found["tokens"] = torch.equal(host.speech.speak(model, {"": request(p["types"])})[""].codes[0], tokens)
    found["patched"] = not same_bits(base.engine.lm, before)
    found["base_after"] = torch.equal(
        host.speech.speak(base, {"": request(p["types"])})[""].codes[0], recorded["base/tokens"].long()
    ) and same_bits(base.engine.lm, before)
    patcher = model.lm
    patcher.unpatch_model(patcher.offload_device)
    patcher.patch_model(torch.device("cpu"), lowvram_model_memory=1)  # nothing fits
    found["functions"] = sum(bool(getattr(m, "weight_function", None)) for m in base.engine.lm.modules())
    found["lowvram"] = torch.equal(model.engine.generate([request(p["types"])])[0].codes[0], tokens)
    patcher.detach()
    mm.unload_all_models()
    found["removed"] = same_bits(base.engine.lm, before)
    return found


def after_error(p, base, before, recorded):
    """A forward that fails while a LoRA is applied: what the failure was, and the base afterwards."""
    host, model = p["host"], p["host"].lora.apply_lora(base, "plain", None, 1.0).model
    calls = []

    def fail(*_):
        calls.append(not same_bits(base.engine.lm, before))
        if len(calls) == 3:
            raise RuntimeError("planted")

    hook = base.engine.lm.register_forward_pre_hook(fail)
    try:
        host.speech.speak(model, {"": request(p["types"])})
        error = ""
    except RuntimeError as raised:
        error = str(raised)
    finally:
        hook.remove()
    spoken = host.speech.speak(base, {"": request(p["types"])})[""]
    tokens = torch.equal(spoken.codes[0], recorded["base/tokens"].long())
    return {"error": error, "patched": calls, "tokens": tokens, "bits": same_bits(base.engine.lm, before)}


def stacked(p, base, weights):
    """Two adapters in a row against the formula, in the dtype of each weight."""
    lora, ours = p["host"].lora, p["lora"]
    first = lora.apply_lora(base, "plain", None, 0.5).model
    both = lora.apply_lora(first, "saved", None, -1.5)
    p["host"].speech.speak(both.model, {"": request(p["types"])})
    state = base.engine.lm.state_dict()
    dtypes = {key: state[key].dtype if key in state else base.engine.lm.get_dtype() for key in weights}  # or fused
    expected = {key: tensor.to(dtypes[key]).float() for key, tensor in weights.items()}
    changes = [(lora.read_lora(LORAS / n, base.engine.lm.config), s) for n, s in (("plain", 0.5), ("saved", -1.5))]
    sums = {key: tensor.clone() for key, tensor in expected.items()}
    for adapter, strength in changes:
        for module, change in adapter.changes.items():
            sums[f"{module}.weight"] += strength * change.change(expected[f"{module}.weight"])
    worst = 0.0
    for adapter, _ in changes:
        for module, name, rows, _ in ours.placed(adapter, base.engine.lm.config, fused=True):
            got = state[name] if rows is None else state[name].narrow(0, *rows)
            wanted = sums[f"{module}.weight"].to(got.dtype).float()
            worst = max(worst, float(((got.float() - wanted).abs() / wanted.abs().clamp(min=1e-3)).max()))
    return worst


class Said(logging.Handler):
    """What core says of tensors that it does not take."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def core_reads(p, config, name, weights):
    """What core makes of the file that our writer's tensors become in SaveLoRA: what it left over, and the largest
    distance of the weights that it makes of them from our merging."""
    lora = p["host"].lora.read_lora(LORAS / name, config)
    with tempfile.TemporaryDirectory() as folder:
        save_file(p["lora_write"].lora_tensors(lora), Path(folder) / "a.safetensors")
        tensors = load_file(Path(folder) / "a.safetensors") | {"stray.diff": torch.ones(1)}
        again = p["host"].lora.read_lora(Path(folder) / "a.safetensors", config)
    said = Said()
    logging.getLogger().addHandler(said)
    patches = comfy.lora.load_lora(tensors, {module: f"{module}.weight" for module in p["lora"].lora_targets(config)})
    logging.getLogger().removeHandler(said)
    worst = 0.0
    for module in lora.changes:
        key = f"{module}.weight"
        base = weights[key].float()
        got = comfy.lora.calculate_weight([(1.0, patches.pop(key), 1.0, None, None)], base.clone(), key)
        ours = p["lora"].merged(base, [(again.changes[module], 1.0)], module, torch.float32)
        worst = max(worst, float((got - ours).abs().max()))
    return {"left": [*patches, *said.lines], "worst": worst}


def main():
    torch.set_num_threads(1)
    p = load_pack()
    host, lora = p["host"], p["host"].lora
    host.models.model_folder = lambda name: MODEL
    lora.lora_paths = lambda: {path.name: path for path in LORAS.iterdir()}
    recorded = load_file(LORAS / "recorded.safetensors")
    found = {}
    with torch.inference_mode():  # as ComfyUI runs nodes
        base = host.models.load_model("model", "fp32", "auto")
        before = {key: weight.clone() for key, weight in base.engine.lm.state_dict().items()}
        for name in ("plain", "saved", "patterns", "llm_only", "rslora"):
            found[name] = one_adapter(p, base, name, before, recorded)
        found["error"] = after_error(p, base, before, recorded)
        weights = load_file(MODEL / "model.safetensors")
        found["core"] = [core_reads(p, base.engine.lm.config, name, weights) for name in ("plain", "saved", "patterns")]
        zero = lora.apply_lora(base, "saved", None, 0.0).model
        spoken = host.speech.speak(zero, {"": request(p["types"])})[""]
        found["zero"] = torch.equal(spoken.codes[0], recorded["base/tokens"].long())
        for dtype in ("fp32", "bf16", "fp16"):
            found[dtype] = stacked(
                p, host.models.load_model("model", dtype, "auto"), load_file(MODEL / "model.safetensors")
            )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
