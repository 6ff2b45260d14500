"""A config.json that contradicts itself is refused, with the names of the keys, before anything is built from it."""

import copy
import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnivoice.codec import CodecDecoder, CodecEncoder
from omnivoice.config import parse_codec_config, parse_model_config
from omnivoice.errors import CheckpointError
from omnivoice.intake.limits import CONFIG_LIMITS
from omnivoice.intake.tables import load_table
from omnivoice.lm import OmniVoiceLM
from omnivoice.ops import TORCH_OPS

IGNORED = load_table("config_keys.json")


@pytest.fixture
def codec(checkpoint):
    return json.loads((checkpoint / "audio_tokenizer" / "config.json").read_text(encoding="utf-8"))


SPOILS = {
    "float stride": (lambda c: c.update(strides=[1.5, 1]), "strides must hold whole numbers from 1 to 1024, got 1.5"),
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
    "zero": (lambda c: c.update(codebook_dim=0), "codebook_dim must be a whole number from 1 to 65536, got 0"),
    "layers": (
        lambda c: c["semantic_model_config"].update(num_hidden_layers=257),
        "num_hidden_layers must be a whole number from 1 to 256, got 257",
    ),
    "long list": (lambda c: c.update(strides=[1] * 9), "strides must have at most 8 entries, got 9"),
    "many codebooks": (lambda c: c.update(target_bandwidths=[1e6]), "target_bandwidths contradict"),
    "more codebooks": (lambda c: c.update(target_bandwidths=[1e11]), "target_bandwidths contradict"),
    "absurd ratios": (
        lambda c: c["acoustic_model_config"].update(downsampling_ratios=[10**7] * 1000),
        "downsampling_ratios must have at most 8 entries, got 1000",
    ),
    "absurd ratio": (
        lambda c: c["acoustic_model_config"].update(downsampling_ratios=[10**18]),
        "downsampling_ratios must hold whole numbers from 1 to 1024, got 1000000000000000000",
    ),
    "ratios of one": (
        lambda c: c["acoustic_model_config"].update(downsampling_ratios=[8, 5, 4, 6, *[1] * 996]),
        "downsampling_ratios must have at most 8 entries",
    ),
    "a list for a number": (lambda c: c.update(codebook_dim=[1] * 10**5), "from 1 to 65536, got list$"),
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
    with pytest.raises(CheckpointError, match="num_hidden_layers must be a whole number from 1 to 256, got 10000000"):
        parse_model_config(raw, IGNORED)


NUMBERS = st.one_of(
    st.sampled_from(
        [0, 1, 2, 3, 8, 64, 65, 1_024, 65_536, 10**6, 2**31, 2**63, 10**19, 0.5, 1e11, True, None, "8", [], {}]
    ),
    st.sampled_from([*CONFIG_LIMITS.values()]).flatmap(lambda limit: st.sampled_from([limit, limit + 1])),
    st.integers(-(10**19), 10**19),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.one_of(NUMBERS, st.lists(NUMBERS, max_size=9), st.integers(9, 5_000).map(lambda size: [1] * size))


def sections(raw):
    """The object itself, and every object inside it that has an entry."""
    return [raw, *(value for value in raw.values() if isinstance(value, dict) and value)]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("kind", ["codec", "model"])
def test_any_config_is_refused_or_can_be_built(checkpoint, data, kind) -> None:
    """On the meta device, which gives no memory to a layer of any size, and fails only where a size overflows."""
    file = {"codec": "audio_tokenizer/config.json", "model": "config.json"}[kind]
    raw = json.loads((checkpoint / file).read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 3))):
        section = data.draw(st.sampled_from(sections(raw)))
        section[data.draw(st.sampled_from(sorted(section)))] = data.draw(VALUES)
    parse = {"codec": parse_codec_config, "model": parse_model_config}[kind]
    parts = {"codec": (CodecEncoder, CodecDecoder), "model": (OmniVoiceLM,)}[kind]
    try:
        config = parse(raw, IGNORED)
    except CheckpointError as error:
        assert len(str(error)) < 400
        return
    for part in parts:
        part(config, ops=TORCH_OPS, device="meta", dtype=torch.float32)


@pytest.mark.parametrize("count", [65, 1_000, 10**7])
def test_codebooks_are_limited(checkpoint, count: int) -> None:
    raw = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    message = f"num_audio_codebook must be a whole number from 1 to 64, got {count}"
    with pytest.raises(CheckpointError, match=message):
        parse_model_config({**raw, "num_audio_codebook": count}, IGNORED)
