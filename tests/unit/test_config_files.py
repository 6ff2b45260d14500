"""A config.json that contradicts itself is refused, with the names of the keys, before anything is built from it."""

import copy
import json

import pytest

from omnivoice.config import parse_codec_config, parse_model_config
from omnivoice.errors import CheckpointError
from omnivoice.intake.tables import load_table

IGNORED = load_table("config_keys.json")


@pytest.fixture
def codec(checkpoint):
    return json.loads((checkpoint / "audio_tokenizer" / "config.json").read_text(encoding="utf-8"))


SPOILS = {
    "float stride": (lambda c: c.update(strides=[1.5, 1]), "strides must hold whole numbers, got 1.5"),
    "no bandwidth": (lambda c: c.update(target_bandwidths=[]), "target_bandwidths contradict"),
    "low bandwidth": (lambda c: c.update(target_bandwidths=[0.1]), "target_bandwidths contradict"),
    "ratios": (lambda c: c["acoustic_model_config"].update(upsampling_ratios=[8, 5, 4, 2]), "upsampling_ratios"),
    "hop": (lambda c: c["acoustic_model_config"].update(downsampling_ratios=[8, 5]), "960 samples a frame"),
    "width": (lambda c: c["acoustic_model_config"].update(decoder_hidden_size=20), "decoder_hidden_size"),
    "lengths": (lambda c: c.update(strides=[1]), "channel_ratios"),
    "last ratio": (lambda c: c.update(channel_ratios=[1, 2]), "channel_ratios"),
    "downsample": (lambda c: c.update(semantic_sample_rate=100), "semantic_sample_rate"),
    "even kernel": (lambda c: c.update(unit_kernel_size=4), "unit_kernel_size"),
    "kernel": (lambda c: c["semantic_model_config"].update(conv_kernel=[10]), "conv_kernel"),
    "heads": (lambda c: c["semantic_model_config"].update(num_attention_heads=5), "num_attention_heads"),
    "groups": (
        lambda c: c["semantic_model_config"].update(num_conv_pos_embedding_groups=5),
        "num_conv_pos_embedding_groups",
    ),
    "zero": (lambda c: c.update(codebook_dim=0), "codebook_dim must be a whole number of 1 or more, got 0"),
    "layers": (lambda c: c["semantic_model_config"].update(num_hidden_layers=10**7), "num_hidden_layers contradict"),
    "long list": (lambda c: c.update(strides=[1] * 1001), "strides must have at most 1000 entries, got 1001"),
    "one code": (lambda c: c.update(codebook_size=1), "codebook_size, target_bandwidths contradict"),
    "text": (lambda c: c.update(codebook_size="1024"), "codebook_size must be a whole number"),
    "norm": (lambda c: c["semantic_model_config"].update(feat_extract_norm="layer"), "feat_extract_norm = 'layer'"),
    "unknown": (lambda c: c["acoustic_model_config"].update(odd=1), "unknown keys odd"),
    "type": (lambda c: c.update(model_type="encodec"), "model_type must be 'higgs_audio_v2_tokenizer'"),
}


@pytest.mark.parametrize("name", SPOILS)
def test_contradictory_codec_is_refused(codec, name):
    parse_codec_config(copy.deepcopy(codec), IGNORED)
    spoil, message = SPOILS[name]
    spoil(codec)
    with pytest.raises(CheckpointError, match=message):
        parse_codec_config(codec, IGNORED)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"audio_mask_id": 1025}, "contradict each other"), ({"num_audio_codebook": 2.5}, "num_audio_codebook must be")],
)
def test_contradictory_model_is_refused(checkpoint, change, message):
    raw = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    parse_model_config(raw, IGNORED)
    with pytest.raises(CheckpointError, match=message):
        parse_model_config({**raw, **change}, IGNORED)
    raw["llm_config"]["num_hidden_layers"] = 10**7
    with pytest.raises(CheckpointError, match="num_hidden_layers must be at most 1000, got 10000000"):
        parse_model_config(raw, IGNORED)
