"""LoRAs of every format that is read: single files, PEFT folders with their settings, and dicts of a socket.

Some are damaged as bytes; others are well formed, with names, ranks, scales, shapes and values that do not belong
together. An accepted LoRA must fit the model, be finite, and come back the same from both writers.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from omnivoice.config import LMConfig
from omnivoice.errors import OmniVoiceError
from omnivoice.intake.tensor_header import LENGTH_BYTES
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.lora import LoRA, LowRank, lora_targets
from omnivoice.weights.lora_read import ADAPTER, ADAPTER_CONFIG, lora_from_tensors, read_lora
from omnivoice.weights.lora_write import write_lora
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.mutations import HOSTILE_INTEGERS, JsonText, below, mutate, pick

_ASSETS = Path(__file__).resolve().parents[1] / "assets"
_PREFIXES = ("", "", "diffusion_model.", "base_model.model.", "base_model.model.llm.", "module.", "model.")
_ENDINGS = (
    ("lora_A.weight", "lora_B.weight"),
    ("lora_A.default.weight", "lora_B.default.weight"),
    ("lora_A", "lora_B"),
    ("lora_down.weight", "lora_up.weight"),
    ("lora_embedding_A", "lora_embedding_B"),
    ("lora_A.weight", "lora_up.weight"),
)
_WHOLE = (
    "diff",
    "set_weight",
    "weight",
    "modules_to_save.default.weight",
    "original_module.weight",
    "base_layer.weight",
)
_ODD_NAMES = (
    "",
    ".",
    ".lora_A.weight",
    "llm.embed_tokens.weight",
    "llm.layers.0.self_attn.q_proj.dora_scale",
    "llm.layers.0.self_attn.q_proj.hada_w1_a",
    "llm.layers.0.self_attn.q_proj.lora_mid.weight",
    "llm.layers.0.input_layernorm.weight",
    "audio_tokenizer.semantic_model.q_proj.lora_A.weight",
    "audio_tokenizer.semantic_model.q_proj.lora_B.weight",
    "llm.layers.99.self_attn.q_proj.alpha",
    "\u202e\0\n",
    "x" * 256,
)
_ALPHAS = (1.0, 8.0, 0.0, -1.0, math.nan, math.inf, -math.inf, 1e38, 1e-38, 1e4, 16.0)
_SPOILERS = (math.nan, math.inf, -math.inf, 1e30, -1e30)
_DTYPES = (torch.float32,) * 6 + (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool)
_WRITTEN_AGAIN = 20  # one accepted LoRA in so many


def attack(run: Run) -> None:
    """Read damaged and forged LoRAs."""
    rng = run.rng
    config = locate_checkpoint(_ASSETS / "checkpoint").lm_config
    targets = lora_targets(config)
    folders = [folder for folder in sorted((_ASSETS / "lora").iterdir()) if folder.is_dir()]
    peft = [((folder / ADAPTER).read_bytes(), JsonText((folder / ADAPTER_CONFIG).read_bytes())) for folder in folders]
    single = (_ASSETS / "lora" / "ours.safetensors").read_bytes()
    tensors = [load_file(folder / ADAPTER) for folder in folders]
    folder, file = run.folder / "adapter", run.folder / "x.safetensors"
    folder.mkdir(exist_ok=True)
    while run.more():
        kind, found, data = rng.random(), None, b""
        if kind < 0.3:
            place = below(rng, len(peft))
            data, settings = _peft_mutant(rng, *peft[place], tensors[place])
            (folder / ADAPTER).write_bytes(data)
            (folder / ADAPTER_CONFIG).write_bytes(settings)
            with run.input(data + settings):
                found = read_lora(folder, config)
        elif kind < 0.45:
            data = _damaged(rng, single)
            file.write_bytes(data)
            with run.input(data):
                found = read_lora(file, config)
        else:
            forged = _forged(rng, targets)
            with run.input(repr({name: (tensor.shape, tensor.dtype) for name, tensor in forged.items()})):
                if kind < 0.75:
                    file.write_bytes(save(forged, {"consent": pick(rng, ("self", "x" * 600, "\0\u202e"))}))
                    found = read_lora(file, config)
                else:
                    found = lora_from_tensors(forged, config)
            data = repr(sorted(forged)).encode("utf-8", "backslashreplace")
        if found is not None:
            _check(run, data, found, targets, config)


def _check(run: Run, data: bytes, lora: LoRA, targets: dict[str, tuple[int, int]], config: LMConfig) -> None:
    for module, change in lora.changes.items():
        low = isinstance(change, LowRank)
        shape = (change.up.shape[0], change.down.shape[1]) if low else tuple(change.values.shape)
        numbers = (change.up, change.down) if low else (change.values,)
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in numbers)
        if shape != targets.get(module) or not finite or (low and not 0 < change.scale < math.inf):
            run.finding(data, "accepted a change that does not fit the model")
    if run.accepted % _WRITTEN_AGAIN:
        return
    run.tally("written again")
    path = run.folder / "again.safetensors"
    path.unlink(missing_ok=True)
    try:
        write_lora(path, lora)
        again = read_lora(path, config)
    except OmniVoiceError as error:
        run.finding(data, f"an accepted LoRA cannot be written again: {str(error)[:80]}")
        return
    if again.changes.keys() != lora.changes.keys():
        run.finding(data, "a LoRA changes when it is written and read")


def _peft_mutant(rng: Random, data: bytes, settings: JsonText, tensors: dict[str, Tensor]) -> tuple[bytes, bytes]:
    """Return the two files of a PEFT folder; mostly one of them is damaged."""
    kind = rng.random()
    text = b"".join(settings.tokens)
    if kind < 0.5:
        return data, settings.mutate(rng)
    if kind < 0.6:
        changed = json.loads(text)
        key = pick(rng, ("r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "modules_to_save", "new"))
        module = pick(rng, ("q_proj", ".*", "(a+)+$", "^llm.*q_proj", "[", "a" * 300, "layers.0.self_attn.q_proj", ""))
        number = pick(rng, (*HOSTILE_INTEGERS, 0.5, True, None))
        changed[key] = pick(rng, (number, {module: number}, [module], {module: {}}, module, []))
        return data, json.dumps(changed).encode()
    if kind < 0.8:
        return _damaged(rng, data), text
    spoiled = dict(tensors)
    _spoil(rng, spoiled)
    return save(spoiled), text


def _damaged(rng: Random, data: bytes) -> bytes:
    """Return a file with damaged bytes, or with an edited header of the right length."""
    end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    if rng.random() < 0.5:
        return mutate(rng, data[:end]) + data[end:] if rng.random() < 0.7 else mutate(rng, data)
    header = mutate(rng, data[LENGTH_BYTES:end])
    return len(header).to_bytes(LENGTH_BYTES, "little") + header + data[end:]


def _forged(rng: Random, targets: dict[str, tuple[int, int]]) -> dict[str, Tensor]:
    """Return the tensors of a LoRA of one to three modules, in any spelling, often with something wrong."""
    tensors: dict[str, Tensor] = {}
    prefix = pick(rng, _PREFIXES)
    down, up = pick(rng, _ENDINGS)
    for module in rng.sample(list(targets), 1 + below(rng, 3)):
        out, width = targets[module]
        rank = pick(rng, (1, 1, 2, 2, 4, 0, 256, 257))
        if rng.random() < 0.2:
            tensors[f"{prefix}{module}.{pick(rng, _WHOLE)}"] = torch.full((out, width), 0.01)
            continue
        if prefix.endswith("llm."):
            module = module.removeprefix("llm.")
        tensors[f"{prefix}{module}.{down}"] = torch.full((rank, width), 0.01)
        tensors[f"{prefix}{module}.{up}"] = torch.full((out, rank), 0.01)
        if rng.random() < 0.6:
            alpha = float(rank) if rng.random() < 0.6 else pick(rng, _ALPHAS)
            tensors[f"{prefix}{module}.alpha"] = torch.full(pick(rng, ((), (), (), (1,), (2,), (0,))), alpha)
    while rng.random() < 0.3:
        _spoil(rng, tensors)
    return tensors


def _spoil(rng: Random, tensors: dict[str, Tensor]) -> None:
    """Change one of the tensors: its name, dtype, shape or a value; or leave it out; or add a stranger."""
    if not tensors:
        return
    name, kind = pick(rng, list(tensors)), below(rng, 7)
    tensor = tensors[name]
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[pick(rng, _ODD_NAMES)] = torch.ones(pick(rng, ((), (0,), (1,), (2, 3), (1, 2, 3))))
    elif kind == 2:
        tensors[mutate(rng, name.encode()).decode("utf-8", "ignore")] = tensors.pop(name)
    elif kind == 3:
        tensors[name] = tensor.to(pick(rng, _DTYPES))
    elif kind == 4 and tensor.numel() and tensor.is_floating_point():
        tensors[name] = tensor.clone()
        tensors[name].view(-1)[below(rng, tensor.numel())] = pick(rng, _SPOILERS)
    elif kind == 5 and tensor.ndim == 2:
        tensors[name] = pick(rng, (tensor.T.contiguous(), tensor[:-1].clone(), tensor.flatten(), tensor[None]))
    else:
        tensors[name + pick(rng, (".weight", ".default.weight", "x"))] = tensor.clone()


CAMPAIGN = Campaign(name="LoRA files", unit="LoRA files", goal=150_000, share=2, attack=attack, suite=800)
