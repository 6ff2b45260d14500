"""Makes the untrained model in the published format: random weights, a token for each word, and the trained codec.

    python -c "from demo_voice.making.base_model import make_base; make_base(codec, folder)"

The sizes are the demo voice's. The layout is the published one (config.json, tokenizer.json, tokenizer_config.json,
model.safetensors, audio_tokenizer/), so that upstream's package loads it too.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from demo_voice.making.grammar import words
from omnivoice.config import LMConfig
from omnivoice.text.tokenizer import LAYOUT_TOKENS, SPLIT_PATTERN
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.load import TEXT_EMBEDDING
from omnivoice.weights.lora import lora_targets

WIDTH, INNER, LAYERS, HEADS, HEAD_WIDTH = 160, 480, 6, 5, 32
CODEBOOKS, CODES = 8, 256
MAX_TOKENS = 4096  # more than the words need
SPREAD = 0.02  # standard deviation of the random weights: Qwen3's initializer_range
# The first codebook carries the words, so its loss is most of what a listener hears.
LOSS_WEIGHTS = [20.0, 10.0, 5.0, 3.0, 1.0, 1.0, 0.5, 0.5]


def make_base(codec: Path, folder: Path, seed: int = 0) -> None:
    """Write the model to `folder`. `codec` is an audio_tokenizer/ folder."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(codec, folder / "audio_tokenizer", dirs_exist_ok=True)
    _write_config(folder, _write_tokenizer(folder))
    save_file({"unused": torch.zeros(1)}, folder / "model.safetensors")  # so that the folder can be located
    config = locate_checkpoint(folder).lm_config
    generator = torch.Generator().manual_seed(seed)
    tensors = {name: torch.empty(shape).normal_(0, SPREAD, generator=generator) for name, shape in _shapes(config)}
    tensors |= {name: torch.ones(width) for name, width in _norms(config)}
    tensors["codebook_layer_offsets"] = torch.arange(CODEBOOKS) * config.audio_vocab_size
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _shapes(config: LMConfig) -> list[tuple[str, tuple[int, int]]]:
    linears = [(f"{module}.weight", shape) for module, shape in lora_targets(config).items()]
    return [*linears, (TEXT_EMBEDDING, (config.vocab_size, config.hidden_size))]


def _norms(config: LMConfig) -> list[tuple[str, int]]:
    names = [("llm.norm.weight", config.hidden_size)]
    for layer in range(config.layers):
        place = f"llm.layers.{layer}"
        names += [
            (f"{place}.{norm}.weight", config.hidden_size) for norm in ("input_layernorm", "post_attention_layernorm")
        ]
        names += [(f"{place}.self_attn.{norm}.weight", config.head_dim) for norm in ("q_norm", "k_norm")]
    return names


def _write_tokenizer(folder: Path) -> dict[str, int]:
    """Write a byte-level BPE tokenizer in which each known word is one token, and return the ids of all tokens.

    With one token per word, the model need not learn spelling. Other words are split into pieces.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False)  # type: ignore[call-arg]  # its stub lacks it
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=MAX_TOKENS, initial_alphabet=alphabet, show_progress=False)
    cased = [one for word in words() for one in (word, word.capitalize())]
    tokenizer.train_from_iterator([space + word for word in cased for space in ("", " ")], trainer)
    names = ("<|im_end|>", "<|endoftext|>", "<|im_start|>", *(f"<|{name}|>" for name in LAYOUT_TOKENS))
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {
        "backend": "tokenizers",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "extra_special_tokens": [*names[2:]],
        "model_max_length": 131072,
        "tokenizer_class": "TokenizersBackend",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about, indent=1))
    return tokenizer.get_vocab(with_added_tokens=True)


def _write_config(folder: Path, ids: dict[str, int]) -> None:
    llm = {
        "model_type": "qwen3",
        "vocab_size": len(ids),
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_WIDTH,
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": SPREAD,
        "max_position_embeddings": 40960,
        "max_window_layers": LAYERS,
        "layer_types": ["full_attention"] * LAYERS,
        "rms_norm_eps": 1e-6,
        "sliding_window": None,
        "use_sliding_window": False,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "tie_word_embeddings": True,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|endoftext|>"],
    }
    config = {
        "architectures": ["OmniVoice"],
        "model_type": "omnivoice",
        "dtype": "float32",
        "llm_config": llm,
        "num_audio_codebook": CODEBOOKS,
        "audio_vocab_size": CODES + 1,
        "audio_mask_id": CODES,
        "audio_codebook_weights": LOSS_WEIGHTS,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))
