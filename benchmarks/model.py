"""Engines with random weights of the published sizes, and variants of an engine with other speed-ups.

Nothing is downloaded. Speed does not depend on the values of the weights while results stay finite, so the weights are
drawn from a seed. A variant (linear layers not fused, or plain layers) shares its weights with the original.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from omnivoice.codec import CodecDecoder, CodecEncoder
from omnivoice.config import Json, parse_codec_config, parse_model_config
from omnivoice.devices import codec_device, heads_dtype
from omnivoice.engine import Engine
from omnivoice.generate.codec import Codec
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.sample import Sampler
from omnivoice.intake.tables import load_table
from omnivoice.lm import OmniVoiceLM, TextEmbedding
from omnivoice.lm.fused import fused_rows, unfused_part
from omnivoice.ops import PLAIN_OPS, TORCH_OPS
from omnivoice.text.tokenizer import LAYOUT_TOKENS, SPLIT_PATTERN, TextTokenizer
from omnivoice.types import Speedups

SIZES = ("full", "tiny")
WORD = "a"  # a single token, with or without a space before it, in the published tokenizer and in the one here
MADE = ("fused_linears", "fast_linear")  # the speed-ups that are chosen when a model is built
LOGIT_SPREAD = 3.0  # wide enough that the best token is rarely a near tie


def random_engine(size: str, device: torch.device, dtype: torch.dtype, *, seed: int = 0) -> Engine:
    """Return an engine with random weights, of the published sizes or "tiny". Its codec is float32, as always."""
    sizes = json.loads(Path(__file__).with_name("sizes.json").read_text(encoding="utf-8"))
    table = cast("dict[str, dict[str, Json]]", sizes)[size]
    ignored = cast("dict[str, list[str]]", load_table("config_keys.json"))
    lm_config, codec_config = parse_model_config(table["model"], ignored), parse_codec_config(table["codec"], ignored)
    generator = torch.Generator().manual_seed(seed)
    lm = OmniVoiceLM(lm_config, ops=TORCH_OPS, device=device, dtype=dtype, heads_dtype=heads_dtype(dtype, device))
    fill(lm, generator)
    text = TextEmbedding(torch.empty(lm_config.vocab_size, lm_config.hidden_size, dtype=dtype))
    randomize(text.weight, 1.0, generator)
    place = codec_device(device)
    decoder = CodecDecoder(codec_config, ops=TORCH_OPS, device=place, dtype=torch.float32)
    encoder = CodecEncoder(codec_config, ops=TORCH_OPS, device=place, dtype=torch.float32)
    fill(decoder, generator)
    fill(encoder, generator)
    sampler = Sampler(lm, text, device, Speedups(), StepGraphs())
    return Engine(sampler, Codec(codec_config, decoder, lambda: encoder, place), byte_tokenizer())


@torch.no_grad()
def fill(module: nn.Module, generator: torch.Generator) -> None:
    """Fill a module with random weights of variance 1 / fan-in; norms and Snake alphas are 1, biases 0."""
    for name, parameter in module.named_parameters():
        if name.endswith(("alpha", "norm.weight")) or (parameter.ndim == 1 and name.endswith("weight")):
            parameter.fill_(1.0)
        elif parameter.ndim == 1:
            parameter.zero_()
        else:
            randomize(parameter, LOGIT_SPREAD if name.startswith("audio_heads") else 1.0, generator)
    module.eval().requires_grad_(False)


@torch.no_grad()
def randomize(weight: Tensor, scale: float, generator: torch.Generator) -> None:
    """Fill a weight with normal numbers of deviation scale / sqrt(fan-in), drawn on the CPU for every device."""
    deviation = scale / weight[0].numel() ** 0.5
    weight.copy_(torch.empty(weight.shape).normal_(0.0, deviation, generator=generator))


def byte_tokenizer() -> TextTokenizer:
    """Return a tokenizer with a token for every byte and one for " " + `WORD`, in the published form."""
    shown = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else "" for b in range(256)]
    spare = iter(range(256, 512))  # bytes that are not printable are written as these letters
    alphabet = [letter or chr(next(spare)) for letter in shown]
    pair = [alphabet[ord(" ")], WORD]
    vocab = {token: i for i, token in enumerate([*alphabet, "".join(pair)])}
    added = [{"content": f"<|{name}|>", "id": len(vocab) + i} for i, name in enumerate(LAYOUT_TOKENS)]
    splitting = [
        {"type": "Split", "pattern": {"Regex": SPLIT_PATTERN}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
    ]
    return TextTokenizer.from_json(
        json.dumps(
            {
                "model": {"type": "BPE", "vocab": vocab, "merges": [pair]},
                "added_tokens": added,
                "normalizer": {"type": "NFC"},
                "pre_tokenizer": {"pretokenizers": splitting},
            }
        ).encode()
    )


def variant(sampler: Sampler, speedups: Speedups) -> Sampler:
    """Return a sampler that shares the weights and uses exactly `speedups`."""
    graphs = StepGraphs(enabled=speedups.graphs)
    return replace(sampler, lm=remade(sampler.lm, speedups), speedups=speedups, graphs=graphs)


def remade(lm: OmniVoiceLM, speedups: Speedups) -> OmniVoiceLM:
    """Return `lm`, or a model that shares its weights and is built without the speed-ups that are off."""
    if all(getattr(speedups, name) for name in MADE):
        return lm
    ops = TORCH_OPS if speedups.fast_linear else PLAIN_OPS
    made = OmniVoiceLM(
        lm.config,
        ops=ops,
        device=torch.device("meta"),
        dtype=lm.get_dtype(),
        heads_dtype=lm.llm.norm.dtype,
        fused=speedups.fused_linears,
    )
    weights = lm.state_dict() if speedups.fused_linears else unfused(lm)
    made.load_state_dict(weights, assign=True)
    return made.eval().requires_grad_(False)


def unfused(lm: OmniVoiceLM) -> dict[str, Tensor]:
    """Return the weights under the checkpoint's names; those of fused layers are views of their rows."""
    weights = lm.state_dict()
    rows = fused_rows(lm.config)
    parts = {name: unfused_part(name, weights[target], first, count) for name, (target, first, count) in rows.items()}
    fused = {target for target, _, _ in rows.values()}
    return {name: weight for name, weight in weights.items() if name not in fused} | parts


def weight_bytes(engine: Engine) -> int:
    """Return the bytes of all weights, including the encoder and the text embedding."""
    modules = (engine.lm, engine.codec.decoder, engine.codec.encoder)
    weights = [engine.sampler.text.weight, *(p for module in modules for p in module.parameters())]
    return sum(w.numel() * w.element_size() for w in weights)
