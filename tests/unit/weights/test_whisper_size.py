"""The config of a Whisper folder decides what transformers allocates, so it is checked against the weight files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from omnivoice.commands.recogniser import load_recogniser
from omnivoice.errors import CheckpointError, FileError, OmniVoiceError
from omnivoice.weights import whisper_size
from omnivoice.weights.whisper_size import check_whisper_size

# openai/whisper-large-v3-turbo
TURBO = {
    "d_model": 1280,
    "vocab_size": 51_866,
    "num_mel_bins": 128,
    "encoder_layers": 32,
    "decoder_layers": 4,
    "encoder_ffn_dim": 5120,
    "decoder_ffn_dim": 5120,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}


def folder(tmp_path: Path, config: object, preprocessor: object = None) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({} if preprocessor is None else preprocessor))
    save_file({"a": torch.zeros(10)}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"d_model": 30_000}, r"describes a model of \d+ weights, its files hold 10: they do not belong together"),
        ({"vocab_size": 1_000_000}, "describes a model of"),
        ({"encoder_layers": 256}, "describes a model of"),
        ({"decoder_ffn_dim": 262_144}, "describes a model of"),
        (TURBO, "describes a model of 8"),
        ({"d_model": 10**9}, "d_model must be a whole number from 1 to 65536, got 1000000000"),
        ({"encoder_layers": 10**6}, "encoder_layers must be a whole number from 1 to 256, got 1000000"),
        ({"vocab_size": -1}, "vocab_size must be a whole number"),
        ({"vocab_size": True}, "vocab_size must be a whole number"),
        ({"d_model": 384.0}, "d_model must be a whole number"),
        ({"d_model": None}, "d_model must be a whole number"),
        ({"quantization_config": {"load_in_8bit": True}}, "describes a quantized model"),
    ],
)
def test_a_config_that_asks_for_more_than_is_there(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    where = folder(tmp_path, {"model_type": "whisper", **change})
    with pytest.raises(CheckpointError, match=reason):
        check_whisper_size(where)
    with pytest.raises(CheckpointError, match=reason):  # before transformers is imported
        load_recogniser(where, torch.device("cpu"))


@pytest.mark.parametrize(
    "change",
    [{"n_fft": 10**9}, {"feature_size": 10**9}, {"chunk_length": 10**6}, {"sampling_rate": 10**9}, {"hop_length": 0}],
)
def test_a_feature_extractor_out_of_range(tmp_path: Path, change: dict[str, object]) -> None:
    (name,) = change
    with pytest.raises(CheckpointError, match=rf"^preprocessor_config\.json of .*: {name} must be a whole number"):
        check_whisper_size(folder(tmp_path, {}, change))


@pytest.mark.parametrize("config", [[], 3, "x"])
def test_a_config_that_is_no_object(tmp_path: Path, config: object) -> None:
    with pytest.raises(OmniVoiceError, match=r"config\.json"):
        check_whisper_size(folder(tmp_path, config))


def test_whole_models_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """809 million weights of the turbo model, of which this counts all but vectors and norms."""
    check_whisper_size(folder(tmp_path, {"model_type": "whisper"}))  # transformers' defaults, 38 million
    monkeypatch.setattr(whisper_size, "MAX_UNSTORED_WEIGHTS", 808_800_000)
    check_whisper_size(folder(tmp_path, TURBO))
    (tmp_path / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(FileError):
        check_whisper_size(tmp_path)
