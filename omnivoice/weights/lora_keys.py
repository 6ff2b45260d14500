"""How LoRA files spell their tensors, as `prefix.module.suffix`, and which other files the names give away.

There are two families. PEFT writes `base_model.model.llm.layers.0.self_attn.q_proj.lora_A.weight`, for the full model
or for its `llm` part. ComfyUI (comfy/weight_adapter/lora.py:160, comfy/lora.py:72) also has `.lora_up`, `.lora_down`
and an `.alpha` for each module. This module looks at names only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType

from ..errors import LoraError
from ..intake.limits import shown

PEFT_PREFIX = "base_model.model."
_PREFIXES = (PEFT_PREFIX, "diffusion_model.")
DOWN, UP, EMBEDDING_DOWN, EMBEDDING_UP = "lora_A", "lora_B", "lora_embedding_A", "lora_embedding_B"
ALPHA, DIFFERENCE, FULL, BASE_COPY = "alpha", "diff", "weight", "base_layer"
_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        **{f".{side}{end}": side for side in (DOWN, UP) for end in ("", ".weight", ".default.weight")},
        **{f".{side}{end}": side for side in (EMBEDDING_DOWN, EMBEDDING_UP) for end in ("", ".default")},
        ".lora_down.weight": DOWN,
        ".lora_up.weight": UP,
        ".alpha": ALPHA,
        ".diff": DIFFERENCE,
        ".set_weight": FULL,
        ".modules_to_save.default.weight": FULL,
        ".original_module.weight": BASE_COPY,
        ".base_layer.weight": BASE_COPY,
    }
)
_UNSUPPORTED = "({}), which is not supported: merge it into the model where it was trained"
EMBEDDING_ADVICE = (
    "which stays on the CPU and cannot be patched: train without embed_tokens, or merge the LoRA into the model where "
    "it was trained (merge_and_unload in PEFT), and use that model"
)
_LONGEST_FIRST = tuple(sorted(_SUFFIXES, key=len, reverse=True))
_FULL_MODEL = re.compile(r"(input_layernorm|embed_tokens)\.weight$")
_FOREIGN = (
    (
        re.compile(r"^(module|_orig_mod)\.|_proj\.(base_layer|original_module)\.weight$"),
        "is a training run's wrapped state (the base model with the LoRA inside), not a LoRA: use the folder "
        "with adapter_model.safetensors and adapter_config.json",
    ),
    (_FULL_MODEL, "is a full model, not a LoRA: put it into models/omnivoice and choose it in Load OmniVoice"),
    (re.compile(r"\.(lora_magnitude_vector|dora_scale)"), f"is a DoRA {_UNSUPPORTED}"),
    (
        re.compile(r"\.(hada_|lokr_|oft_|boft_|a1\.weight|lora_mid)"),
        f"is a LyCORIS (LoHa, LoKr, OFT, GLoRA) {_UNSUPPORTED}",
    ),
    (re.compile(r"\.(lora_[AB]\.bias|diff_b)$"), f"is a LoRA with biases {_UNSUPPORTED}"),
    (re.compile(r"embed_tokens(?!.*base_layer\.weight$)"), f"changes the text embedding ({{}}), {EMBEDDING_ADVICE}"),
    (
        re.compile(r"(layernorm|[qk]_norm|\bmodel\.(llm\.)?norm)\.(modules_to_save\.default\.)?weight$"),
        f"changes norms {_UNSUPPORTED}",
    ),
)


def shown_tensor(name: str) -> str:
    """Return a tensor's name for a message. A long one is cut at its start, which says less than its end."""
    return shown(name if len(name) <= 60 else f"...{name[-57:]}")


def split_name(name: str, *, peft: bool) -> tuple[str, str]:
    """Return (module as the file spells it, kind of tensor); the kind is "" for a name of neither family.

    peft: a plain `.weight` is a full weight, as PEFT writes it.
    """
    for suffix in _LONGEST_FIRST:
        if name.endswith(suffix):
            return name.removesuffix(suffix), _SUFFIXES[suffix]
    if peft and name.startswith(PEFT_PREFIX) and name.endswith(".weight"):
        return name.removesuffix(".weight"), FULL
    return name, ""


def module_of(spelled: str) -> str:
    """Return the checkpoint's name of a module from its spelling in a file."""
    bare = without_prefix(spelled)
    return f"llm.{bare}" if bare.startswith("layers.") else bare


def without_prefix(spelled: str) -> str:
    """Return the module without `base_model.model.` or `diffusion_model.`."""
    return next((spelled.removeprefix(prefix) for prefix in _PREFIXES if spelled.startswith(prefix)), spelled)


def check_names(names: Collection[str], source: str) -> None:
    """Raise LoraError for files that are not LoRAs, and for kinds of LoRA that are not supported."""
    if not names:
        raise LoraError(f"{source} holds no tensors: it is not a LoRA")
    has_pairs = any(split_name(name, peft=False)[1] for name in names)
    for pattern, message in _FOREIGN:
        found = next((name for name in names if pattern.search(name)), None)
        if found is not None and not (has_pairs and pattern is _FULL_MODEL):
            raise LoraError(f"{source} {message.format(shown_tensor(found))}")
