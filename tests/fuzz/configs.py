"""The JSON files of models: config.json of model, codec and Whisper, omnivoice_nodes.json, and some tokenizer.json.

What is accepted must be within the limits. No model of these sizes is built: its weights would have to fit first. An
accepted tokenizer must encode a text, without the id of a control token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import cast

from omnivoice.config import CodecConfig, LMConfig, parse_codec_config, parse_model_config
from omnivoice.constants import HOP, SAMPLE_RATE
from omnivoice.errors import CheckpointError
from omnivoice.intake.limits import CONFIG_LIMITS, MAX_CODEBOOKS, MAX_CONFIG_ENTRIES, MAX_LAYERS
from omnivoice.intake.strict_json import parse_json
from omnivoice.intake.tables import load_table
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.weights.model_settings import MAX_LANGUAGES, MAX_TAGS, ModelSettings, parse_model_settings
from omnivoice.weights.whisper_size import check_whisper_size
from tests.fuzz.campaign import Campaign, Run
from tests.fuzz.mutations import JsonText, mutate, pick

_CHECKPOINT = Path(__file__).resolve().parents[1] / "assets" / "checkpoint"
_WHISPER = {
    "model_type": "whisper",
    "d_model": 384,
    "vocab_size": 51_865,
    "num_mel_bins": 80,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_ffn_dim": 1_536,
    "decoder_ffn_dim": 1_536,
    "max_source_positions": 1_500,
    "max_target_positions": 448,
    "quantization_config": None,
}
_SETTINGS = {
    "name": "my model",
    "tags": ["whisper", "door slams"],
    "text_as_written": True,
    "languages": ["tlh", "zz-x"],
    "recommended": {"steps": 40, "guidance": 2.5, "denoise": False, "language": "tlh", "speed": 1.1},
}
_TEXT = "Hello, world! <|text_end|><|im_end|> 42 \u4f60\u597d \U0001f600"
_TOKENIZERS = 0.03  # of all inputs; one of them takes as long as fifty others


def attack(run: Run) -> None:
    """Parse damaged files of every kind."""
    rng = run.rng
    known = cast("dict[str, list[str]]", load_table("config_keys.json"))
    model = (_CHECKPOINT / "config.json").read_bytes()
    codec = (_CHECKPOINT / "audio_tokenizer" / "config.json").read_bytes()
    tokenizer = (_CHECKPOINT / "tokenizer.json").read_bytes()
    (run.folder / "whisper").mkdir(exist_ok=True)
    kinds: list[tuple[JsonText, Callable[[bytes], str]]] = [
        (JsonText(model), lambda data: _model(parse_model_config(_object(data), known))),
        (JsonText(codec), lambda data: _codec(parse_codec_config(_object(data), known))),
        (JsonText(json.dumps(_SETTINGS).encode()), lambda data: _settings(parse_model_settings(data))),
        (JsonText(json.dumps(_WHISPER).encode()), lambda data: _whisper(run.folder / "whisper", data)),
    ]
    last = (JsonText(tokenizer), _tokenizer)
    while run.more():
        text, read = last if rng.random() < _TOKENIZERS else pick(rng, kinds)
        data = _mutant(rng, text)
        complaint = ""
        with run.input(data):
            complaint = read(data)
        run.tally("tokenizers", int(read is _tokenizer))
        if complaint:
            run.finding(data, complaint)


def _mutant(rng: Random, text: JsonText) -> bytes:
    return mutate(rng, b"".join(text.tokens)) if rng.random() < 0.1 else text.mutate(rng)


def _object(data: bytes) -> dict[str, object]:
    found = parse_json(data, "config.json")
    if not isinstance(found, dict):
        raise CheckpointError("config.json: expected a JSON object")
    return found


# Each returns what is wrong with an accepted file, or nothing.


def _model(config: LMConfig) -> str:
    sizes = (config.vocab_size, config.hidden_size, config.intermediate_size, config.audio_vocab_size, config.head_dim)
    inside = all(type(size) is int and 1 <= size <= max(CONFIG_LIMITS.values()) for size in sizes)
    inside = inside and 1 <= config.layers <= MAX_LAYERS and 1 <= config.codebooks <= MAX_CODEBOOKS
    return "" if inside and len(config.codebook_weights) <= MAX_CODEBOOKS else "accepted sizes beyond the limits"


def _codec(config: CodecConfig) -> str:
    rows = (config.acoustic.downsampling_ratios, config.acoustic.upsampling_ratios, config.semantic.conv_dim)
    inside = 1 <= config.codebooks <= MAX_CODEBOOKS and config.semantic_downsample >= 1 and config.frame_rate == 25
    inside = inside and config.hop_length == HOP and config.sample_rate == SAMPLE_RATE and config.hidden_size > 0
    return "" if inside and max(map(len, rows)) <= MAX_CONFIG_ENTRIES else "accepted another codec"


def _settings(settings: ModelSettings) -> str:
    if len(settings.tags) > MAX_TAGS or len(settings.languages) > MAX_LANGUAGES:
        return "accepted too many tags or languages"
    return "" if parse_model_settings(settings.as_json()) == settings else "settings change when they are written"


def _whisper(folder: Path, data: bytes) -> str:
    (folder / "config.json").write_bytes(data)
    check_whisper_size(folder)
    return ""


def _tokenizer(data: bytes) -> str:
    tokenizer = TextTokenizer.from_json(data)
    ids = tokenizer.encode(_TEXT)
    return "a text gave a control token" if set(ids) - tokenizer.used_ids else ""


CAMPAIGN = Campaign(name="configs", unit="configs and tokenizers", goal=500_000, share=1.5, attack=attack, suite=2_000)
