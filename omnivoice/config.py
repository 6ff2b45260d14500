"""The two configurations of a checkpoint: language model (config.json) and codec (audio_tokenizer/config.json).

An unknown key is refused, because it may change what the weights mean. `config_keys.json` lists the keys that are read
and the many that do not matter here. Settings that would change the computation (rope scaling, sliding windows, biases)
are accepted only with the value that is implemented. Defaults are those of transformers 5.3.0
(configuration_higgs_audio_v2_tokenizer.py, configuration_hubert.py, configuration_dac.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .constants import HOP, SAMPLE_RATE
from .errors import CheckpointError
from .intake.limits import CONFIG_LIMITS, MAX_CODEBOOKS, MAX_CONFIG_ENTRIES, MAX_CONFIG_NUMBER, MAX_LAYERS, shown

CODEBOOK_WEIGHTS = (8.0, 8.0, 6.0, 6.0, 4.0, 4.0, 2.0, 2.0)  # of the training loss, upstream models/omnivoice.py:262
LM_SIZES = {name: name for name in ("vocab_size", "hidden_size", "intermediate_size", "head_dim")} | {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
}

Json = dict[str, object]
T = TypeVar("T")


@dataclass(frozen=True)
class LMConfig:
    """Sizes of the language model: Qwen3 body, audio embeddings and heads. codebook_weights: of the training loss."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    codebooks: int
    audio_vocab_size: int
    audio_mask_id: int
    codebook_weights: tuple[float, ...] = CODEBOOK_WEIGHTS


@dataclass(frozen=True)
class AcousticConfig:
    """DAC encoder and decoder: channel widths and the strides between them."""

    encoder_hidden_size: int = 64
    decoder_hidden_size: int = 1024
    hidden_size: int = 256
    downsampling_ratios: tuple[int, ...] = (8, 5, 4, 2)
    upsampling_ratios: tuple[int, ...] = (8, 5, 4, 2)


@dataclass(frozen=True)
class SemanticConfig:
    """HuBERT: convolutional feature extractor and transformer."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    conv_dim: tuple[int, ...] = (512,) * 7
    conv_kernel: tuple[int, ...] = (10, 3, 3, 3, 3, 2, 2)
    conv_stride: tuple[int, ...] = (5, 2, 2, 2, 2, 2, 2)
    conv_bias: bool = False
    num_conv_pos_embeddings: int = 128
    num_conv_pos_embedding_groups: int = 16
    feat_proj_layer_norm: bool = True
    layer_norm_eps: float = 1e-5


@dataclass(frozen=True)
class CodecConfig:
    """HiggsAudio v2: acoustic and semantic halves, their fusion and the residual quantizer."""

    acoustic: AcousticConfig
    semantic: SemanticConfig
    sample_rate: int = SAMPLE_RATE
    semantic_sample_rate: int = 16000
    downsample_factor: int = 320
    codebook_size: int = 1024
    codebook_dim: int = 64
    kernel_size: int = 3
    unit_kernel_size: int = 3
    channel_ratios: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    block_dilations: tuple[int, ...] = (1, 1)
    target_bandwidths: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0)

    @property
    def hop_length(self) -> int:
        """Samples per audio frame at `sample_rate`."""
        return math.prod(self.acoustic.downsampling_ratios)

    @property
    def frame_rate(self) -> int:
        """Audio frames per second."""
        return math.ceil(self.sample_rate / self.hop_length)

    @property
    def codebooks(self) -> int:
        """Quantizers in use: as many as the highest target bandwidth (kbit/s) allows."""
        bits = math.ceil(math.log2(self.codebook_size))
        return int(1000 * self.target_bandwidths[-1] // (self.frame_rate * bits))

    @property
    def hidden_size(self) -> int:
        """Width of the fused features."""
        return self.acoustic.hidden_size + self.semantic.hidden_size

    @property
    def semantic_downsample(self) -> int:
        """HuBERT frames per audio frame."""
        return int(self.hop_length / (self.sample_rate / self.semantic_sample_rate) / self.downsample_factor)


def parse_model_config(raw: Json, keys: dict[str, list[str]]) -> LMConfig:
    """Turn config.json into an LMConfig. keys: the table of known keys (`config_keys.json`).

    Raises CheckpointError for another model type, an unknown key, a missing size or an unsupported setting.
    """
    where = "config.json"
    _require(raw, where, "model_type", "omnivoice")
    llm = _section(raw, where, "llm_config")
    place = f"{where}: llm_config"
    _require(llm, place, "model_type", "qwen3")
    _supported(llm, place, hidden_act="silu", attention_bias=False, use_sliding_window=False, tie_word_embeddings=True)
    _refuse_unknown(raw, where, keys["model"] + keys["model_read"])
    _refuse_unknown(llm, place, keys["model"] + keys["qwen3"] + keys["qwen3_read"])
    if any(kind != "full_attention" for kind in _list(llm.get("layer_types") or [], place, "layer_types", MAX_LAYERS)):
        raise CheckpointError(f"{place}: layer_types must all be full_attention; this is not an OmniVoice model")
    sizes = {field: _whole(llm, place, key) for field, key in LM_SIZES.items()}
    if "vocab_size" in raw:  # where transformers' resize_token_embeddings writes it, called on the whole model
        sizes["vocab_size"] = _whole(raw, where, "vocab_size")
    config = LMConfig(
        **sizes,
        rms_norm_eps=_number(llm.get("rms_norm_eps", 1e-6), place, "rms_norm_eps"),
        rope_theta=_rope_theta(llm, place),
        codebooks=_whole(raw, where, "num_audio_codebook", 8),
        audio_vocab_size=_whole(raw, where, "audio_vocab_size", 1025),
        audio_mask_id=_whole(raw, where, "audio_mask_id", 1024),
        codebook_weights=_codebook_weights(raw, where),
    )
    if config.audio_mask_id >= config.audio_vocab_size or config.heads % config.kv_heads or config.head_dim % 2:
        raise CheckpointError(f"{where}: audio_mask_id, head counts or head_dim contradict each other")
    return config


def parse_codec_config(raw: Json, keys: dict[str, list[str]]) -> CodecConfig:
    """Turn audio_tokenizer/config.json into a CodecConfig. Raises CheckpointError as `parse_model_config` does."""
    where = "audio_tokenizer/config.json"
    _require(raw, where, "model_type", "higgs_audio_v2_tokenizer")
    acoustic = _section(raw, where, "acoustic_model_config")
    semantic = _section(raw, where, "semantic_model_config")
    _supported(
        semantic,
        f"{where}: semantic_model_config",
        hidden_act="gelu",
        feat_extract_activation="gelu",
        feat_extract_norm="group",
        do_stable_layer_norm=False,
        conv_pos_batch_norm=False,
    )
    config = CodecConfig(
        acoustic=AcousticConfig(**_values(AcousticConfig, acoustic, f"{where}: acoustic_model_config", keys["dac"])),
        semantic=SemanticConfig(**_values(SemanticConfig, semantic, f"{where}: semantic_model_config", keys["hubert"])),
        **_values(CodecConfig, raw, where, [*keys["codec"], "acoustic_model_config", "semantic_model_config"]),
    )
    _check_codec(config, where)
    return config


def _check_codec(config: CodecConfig, where: str) -> None:
    """Refuse sizes that contradict each other, and the rates of another codec."""
    acoustic, semantic = config.acoustic, config.semantic
    if config.sample_rate != SAMPLE_RATE or config.hop_length != HOP:
        raise CheckpointError(
            f"{where}: expected {SAMPLE_RATE} Hz and {HOP} samples a frame, got {config.sample_rate} Hz and "
            f"{config.hop_length}; this is not the HiggsAudio v2 codec that OmniVoice uses"
        )
    consistent = {
        "codebook_size": config.codebook_size >= 2,
        "target_bandwidths": config.codebook_size >= 2
        and config.target_bandwidths
        and 1 <= config.codebooks <= MAX_CODEBOOKS,
        "upsampling_ratios": math.prod(acoustic.upsampling_ratios) == config.hop_length,
        "decoder_hidden_size": acoustic.decoder_hidden_size >= 2 ** len(acoustic.upsampling_ratios),
        "channel_ratios": len(config.strides) == len(config.channel_ratios) and config.channel_ratios[-1:] == (1,),
        "semantic_sample_rate": config.semantic_downsample >= 1,
        "unit_kernel_size": config.unit_kernel_size % 2 == 1,
        "conv_kernel": len(semantic.conv_dim) == len(semantic.conv_kernel) == len(semantic.conv_stride) > 0,
        "num_attention_heads": semantic.hidden_size % semantic.num_attention_heads == 0,
        "num_conv_pos_embedding_groups": semantic.hidden_size % semantic.num_conv_pos_embedding_groups == 0,
    }
    contradictory = [name for name, holds in consistent.items() if not holds]
    if contradictory:
        raise CheckpointError(f"{where}: {', '.join(contradictory)} contradict the other sizes of this codec")


def _values(cls: type, raw: Json, where: str, ignored: list[str]) -> dict[str, Any]:
    """Return the values in `raw` of the fields of `cls`, checked by the type of the defaults; lists become tuples."""
    known = {f.name: f.default for f in fields(cls) if f.name not in ("acoustic", "semantic")}
    _refuse_unknown(raw, where, [*known, *ignored])
    values: dict[str, Any] = {}
    for key, default in known.items():
        if key not in raw:
            continue
        value = raw[key]
        if isinstance(default, tuple):
            whole = isinstance(default[0], int)
            given = _list(value, where, key, MAX_CONFIG_ENTRIES)
            values[key] = tuple(_entry(item, where, key) if whole else _number(item, where, key) for item in given)
        elif isinstance(default, bool):
            if not isinstance(value, bool):
                raise CheckpointError(f"{where}: {key} must be true or false, got {shown(value)}")
            values[key] = value
        elif isinstance(default, int):
            values[key] = _whole(raw, where, key)
        else:
            values[key] = _number(value, where, key)
    return values


def _refuse_unknown(raw: Json, where: str, known: list[str]) -> None:
    unknown = sorted(set(raw) - set(known))
    if unknown:
        names = ", ".join(shown(name)[1:-1] for name in unknown[:5])
        raise CheckpointError(f"{where}: unknown keys {names}; this model may need a newer version of the node pack")


def _require(raw: Json, where: str, key: str, value: str) -> None:
    if raw.get(key) != value:
        raise CheckpointError(
            f"{where}: {key} must be {value!r}, got {shown(raw.get(key))}; this is not an OmniVoice model"
        )


def _supported(raw: Json, where: str, **values: object) -> None:
    for key, value in values.items():
        if raw.get(key, value) != value:
            raise CheckpointError(f"{where}: {key} = {shown(raw[key])} is not supported, only {value!r}")


def _section(raw: Json, where: str, key: str) -> Json:
    value = raw.get(key)
    if not isinstance(value, dict):
        raise CheckpointError(f"{where}: {key} is missing")
    return value


def _list(value: object, where: str, key: str, limit: int) -> list[object]:
    if not isinstance(value, list):
        raise CheckpointError(f"{where}: {key} must be a list, got {shown(value)}")
    if len(value) > limit:
        raise CheckpointError(f"{where}: {key} must have at most {limit} entries, got {len(value)}")
    return value


def _whole(raw: Json, where: str, key: str, default: int | None = None) -> int:
    return _checked(raw.get(key, default), f"{where}: {key} must be a whole number", key)


def _entry(value: object, where: str, key: str) -> int:
    return _checked(value, f"{where}: {key} must hold whole numbers", key)


def _checked(value: object, must_be: str, key: str) -> int:
    limit = CONFIG_LIMITS.get(key, MAX_CONFIG_NUMBER)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
        raise CheckpointError(f"{must_be} from 1 to {limit}, got {shown(value)}")
    return value


def _number(value: object, where: str, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e12:
        raise CheckpointError(f"{where}: {key} must be a number above 0, got {shown(value)}")
    return value


def _codebook_weights(raw: Json, where: str) -> tuple[float, ...]:
    key = "audio_codebook_weights"
    given = raw.get(key)
    return (
        CODEBOOK_WEIGHTS
        if given is None
        else tuple(_number(v, where, key) for v in _list(given, where, key, MAX_CODEBOOKS))
    )


def _rope_theta(llm: Json, where: str) -> float:
    """Return theta: transformers 5 writes `rope_parameters`, 4 wrote `rope_theta` and `rope_scaling`."""
    if llm.get("rope_scaling") is not None:
        raise CheckpointError(f"{where}: rope_scaling is not supported, only the default rotary embedding")
    parameters = llm.get("rope_parameters")
    if not isinstance(parameters, dict):
        return _number(llm.get("rope_theta"), where, "rope_theta")
    if parameters.get("rope_type", "default") != "default":
        raise CheckpointError(f"{where}: rope_type {shown(parameters['rope_type'])} is not supported, only 'default'")
    return _number(parameters.get("rope_theta"), where, "rope_theta")
