"""The models that `bench` measures: random weights of the published sizes, or a loaded one; and their variants.

Unusual: nothing is downloaded or read but a table of sizes. Speed does not depend on what the weights are, as long as
results stay finite, so they are drawn from a seed. A model made otherwise (linears not fused, plain layers) shares its
weights with the first instead of copying them. Nothing is measured here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from ..codec import CodecDecoder, CodecEncoder
from ..config import Json, parse_codec_config, parse_model_config
from ..engine import Engine, codec_device
from ..generate.graphs import StepGraphs
from ..generate.sample import Sampler
from ..intake.tables import load_table
from ..lm import OmniVoiceLM, TextEmbedding
from ..lm.fused import fused_rows
from ..ops import PLAIN_OPS, TORCH_OPS
from ..text.tokenizer import LAYOUT_TOKENS, SPLIT_PATTERN, TextTokenizer
from ..types import Speedups

SIZES = ("full", "tiny")
WORD = "a"  # one token, alone and after a space, in the published tokenizer and in the one here
MADE = ("fused_linears", "fast_linear")  # the speed-ups that are decided when a model is made
LOGIT_SPREAD = 3.0  # so that the best token is no near tie


def random_engine(size: str, device: torch.device, dtype: torch.dtype, *, seed: int = 0) -> Engine:
    """An engine of the published sizes (or "tiny") with random weights; the codec is float32, as always."""
    table = cast("dict[str, dict[str, Json]]", load_table("commands/bench_sizes.json"))[size]
    ignored = cast("dict[str, list[str]]", load_table("config_keys.json"))
    lm_config, codec_config = parse_model_config(table["model"], ignored), parse_codec_config(table["codec"], ignored)
    generator = torch.Generator().manual_seed(seed)
    lm = OmniVoiceLM(lm_config, ops=TORCH_OPS, device=device, dtype=dtype)
    fill(lm, generator)
    text = TextEmbedding(torch.empty(lm_config.vocab_size, lm_config.hidden_size, dtype=dtype))
    randomize(text.weight, 1.0, generator)
    place = codec_device(device)
    decoder = CodecDecoder(codec_config, ops=TORCH_OPS, device=place, dtype=torch.float32)
    encoder = CodecEncoder(codec_config, ops=TORCH_OPS, device=place, dtype=torch.float32)
    fill(decoder, generator)
    fill(encoder, generator)
    sampler = Sampler(lm, text, device, Speedups(), StepGraphs())
    return Engine(sampler, decoder, lambda: encoder, codec_config, byte_tokenizer(), place)


@torch.no_grad()
def fill(module: nn.Module, generator: torch.Generator) -> None:
    """Random weights that keep the size of what flows through: variance 1 / fan-in; norms and alphas 1, biases 0."""
    for name, parameter in module.named_parameters():
        if name.endswith("alpha") or (parameter.ndim == 1 and name.endswith("weight")):
            parameter.fill_(1.0)
        elif parameter.ndim == 1:
            parameter.zero_()
        else:
            randomize(parameter, LOGIT_SPREAD if name.startswith("audio_heads") else 1.0, generator)
    module.eval().requires_grad_(False)


@torch.no_grad()
def randomize(weight: Tensor, scale: float, generator: torch.Generator) -> None:
    """Normal numbers of deviation scale / sqrt(fan-in), in place; drawn on the CPU, the same for every device."""
    deviation = scale / weight[0].numel() ** 0.5
    weight.copy_(torch.empty(weight.shape).normal_(0.0, deviation, generator=generator))


def byte_tokenizer() -> TextTokenizer:
    """A tokenizer of single bytes and of `WORD` after a space, in the form of the published one."""
    shown = [chr(b) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else "" for b in range(256)]
    spare = iter(range(256, 512))  # the bytes that do not show are written as the letters from here on
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
        )
    )


def variant(sampler: Sampler, speedups: Speedups) -> Sampler:
    """The same weights, shared, sampled with `speedups` and nothing else."""
    graphs = StepGraphs(mode="auto" if speedups.graphs else "off")
    return replace(sampler, lm=remade(sampler.lm, speedups), speedups=speedups, graphs=graphs)


def remade(lm: OmniVoiceLM, speedups: Speedups) -> OmniVoiceLM:
    """`lm` itself, or the same weights in a model made without what `speedups` leaves out."""
    if all(getattr(speedups, name) for name in MADE):
        return lm
    ops = TORCH_OPS if speedups.fast_linear else PLAIN_OPS
    made = OmniVoiceLM(
        lm.config, ops=ops, device=torch.device("meta"), dtype=lm.get_dtype(), fused=speedups.fused_linears
    )
    weights = lm.state_dict() if speedups.fused_linears else unfused(lm)
    made.load_state_dict(weights, assign=True)
    return made.eval().requires_grad_(False)


def unfused(lm: OmniVoiceLM) -> dict[str, Tensor]:
    """The weights under the checkpoint's names: rows of the fused ones, not copies."""
    weights = lm.state_dict()
    parts = {
        name: weights[target][start : start + rows] for name, (target, start, rows) in fused_rows(lm.config).items()
    }
    return {name: w for name, w in weights.items() if ".qkv_proj." not in name and ".gate_up_proj." not in name} | parts


def weight_bytes(engine: Engine) -> int:
    """Bytes of all weights, the encoder's and the text embedding's included."""
    modules = (engine.lm, engine.decoder, engine.encoder)
    weights = [engine.sampler.text.weight, *(p for module in modules for p in module.parameters())]
    return sum(w.numel() * w.element_size() for w in weights)
