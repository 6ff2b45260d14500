"""Adapters whose every value is known, to be written by us and read by PEFT (check_peft.py) and in the tests.

The values are exact fractions, made without a random generator, so that the files are the same everywhere.
"""

import hashlib
import json
import math

import torch
from safetensors.torch import load_file

from omnivoice.weights.lora import LoRA, LowRank, Replacement, lora_targets

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
MODULES = ("audio_embeddings", "audio_heads")
PROMPT, TARGETS, EVERY = 7, 3, 8  # logits: text ids, audio frames, every so many entries of the audio vocabulary
# How each is written: write_peft's keywords.
CASES = {"usual": {"dropout": 0.05}, "embeddings": {"rslora": True}, "heads": {}}


def values(*shape, seed, size=0.5):
    """Of a uniform look in [-size, size), multiples of size / 4096."""
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    mixed = (index * 2654435761 + seed * 40503) % 4294967296
    mixed = (mixed ^ (mixed >> 15)) * 2246822519 % 4294967296
    return ((mixed ^ (mixed >> 13)) % 8192 - 4096).to(torch.float32).reshape(shape) * (size / 4096)


def adapters(config, weights):
    """{name: LoRA}: pairs on all linears with whole embeddings and heads, as upstream's recipe has it; pairs on the
    embeddings too, of several ranks and scales; whole heads alone. weights: the checkpoint's."""
    return {
        "usual": LoRA("usual", {**pairs(config, rank=lambda _: 4, scale=lambda _: 2.0), **whole(weights, MODULES)}),
        "embeddings": LoRA("embeddings", pairs(config, rank=several_ranks, scale=several_scales, every=True)),
        "heads": LoRA("heads", whole(weights, MODULES[1:])),
    }


def pairs(config, *, rank, scale, every=False):
    found = {}
    for number, (module, (out, width)) in enumerate(lora_targets(config).items()):
        if every or module not in MODULES:
            r = rank(module)
            down, up = values(r, width, seed=2 * number, size=0.2), values(out, r, seed=2 * number + 1, size=0.2)
            found[module] = LowRank(down, up, scale(module))
    return found


def several_ranks(module):
    """2, but 3 in every down_proj, 5 in one layer's q_proj, 1 in the heads."""
    if module == "llm.layers.1.self_attn.q_proj":
        return 5
    return 3 if module.endswith("down_proj") else 1 if module == "audio_heads" else 2


def several_scales(module):
    """alpha / sqrt(rank) with alpha 2; 1 in one o_proj, 3 in the embeddings."""
    alpha = 1 if module == "llm.layers.0.self_attn.o_proj" else 3 if module == "audio_embeddings" else 2
    return alpha / math.sqrt(several_ranks(module))


def whole(weights, modules):
    """Trained along: a little off the base, in float32."""
    return {
        module: Replacement(weights[f"{module}.weight"].float() + values(8200, 40, seed=90 + i, size=0.1))
        for i, module in enumerate(modules)
    }


def input_ids():
    """[K, PROMPT + TARGETS] of a document: text ids, then audio codes."""
    return torch.arange(PROMPT + TARGETS).expand(8, -1) * 37 % 1000


def digest(folder):
    """Of what the two files of an adapter say; headers and layout do not count."""
    tensors = load_file(folder / "adapter_model.safetensors")
    state = hashlib.sha256(
        json.dumps(json.loads((folder / "adapter_config.json").read_text()), sort_keys=True).encode()
    )
    for name, tensor in sorted(tensors.items()):
        state.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        state.update(tensor.contiguous().numpy().tobytes())
    return state.hexdigest()
