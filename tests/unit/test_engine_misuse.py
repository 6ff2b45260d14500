"""The engine's Python surface in odd hands: wrong types, and results that are used further."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

from omnivoice import (
    AudioError,
    CheckpointError,
    Engine,
    FileError,
    GenerationRequest,
    InputError,
    Sampling,
    TextError,
    VoicePrompt,
    Waveform,
)
from omnivoice.commands import models
from omnivoice.intake import paths

FAST = Sampling(steps=2)


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


def request(**fields):
    return GenerationRequest(**{"text": "Hello there, friend.", "seed": 7, "sampling": FAST, **fields})


def test_results_are_ordinary_tensors(engine):
    """A caller may scale the audio in place and train on it; inference tensors would allow neither."""
    voice = engine.encode_voice(Waveform(torch.rand(30_000) - 0.5, 24_000), "Some words.")
    speech = engine.generate([request(voice=voice)])[0]
    speech.waveform.samples.mul_(0.5)
    weight = torch.ones(1, requires_grad=True)
    (speech.waveform.samples * weight).sum().backward()
    table = torch.ones(1024, 2, requires_grad=True)
    torch.nn.functional.embedding(voice.codes, table).sum().backward()
    torch.nn.functional.embedding(speech.codes[0], table).sum().backward()
    assert weight.grad is not None and float(table.grad.sum()) == 2 * (voice.codes.numel() + speech.codes[0].numel())
    assert not speech.waveform.samples.requires_grad


@pytest.mark.parametrize("generator", [0, 7, False, "seed"])
def test_a_generator_that_is_none_is_refused(engine, generator):
    with pytest.raises(
        InputError, match=r"generator must be a torch\.Generator on the CPU, got .*for a seed, use seed"
    ):
        engine.generate([request()], generator=generator)


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        ([request(text="Good day. " * 20_000)] * 3, "must be at most 500000 characters, got 600000"),
        ([request(duration=600.0)] * 30, r"at most 4 hours of speech, and the first 25 texts .* last 4\.17 hours"),
    ],
)
def test_more_than_a_run_can_make_is_refused(engine, requests, reason):
    with pytest.raises(TextError, match=reason):
        engine.plan(requests)
    with pytest.raises(TextError, match="at most 4 hours"):
        engine.generate_plans(engine.plan([request(duration=600.0)]) * 25)


def test_one_request_without_a_list(engine):
    with pytest.raises(InputError, match=r"a list of requests, got one GenerationRequest: put it in \[ \]"):
        engine.generate(request())


def test_what_is_no_waveform(engine):
    with pytest.raises(AudioError, match=r"the reference must be a Waveform, got Tensor: Waveform\(samples"):
        engine.encode_voice(torch.rand(24_000), "Some words.")


def test_samples_by_channels_are_refused(engine):
    with pytest.raises(AudioError, match=r"samples must be \[channels, samples\], got \[30000, 2\]: transpose them"):
        engine.encode_voice(Waveform(torch.rand(30_000, 2), 24_000), "Some words.")


def test_numpys_whole_numbers_are_sample_rates():
    assert type(Waveform(torch.rand(9), np.int64(8_000)).sample_rate) is int
    for rate in (True, 8_000.0, 0, "8000", None):
        with pytest.raises(AudioError, match="sample_rate must be a whole number of Hz >= 1, got"):
            Waveform(torch.rand(9), rate)


def test_levels_of_voices():
    codes = torch.zeros(8, 5, dtype=torch.long)
    assert type(VoicePrompt(codes, "a", np.float32(0.25)).rms) is float
    for rms in (True, "1", float("nan"), -1, None):
        with pytest.raises(InputError, match="voice rms must be a finite number >= 0, got"):
            VoicePrompt(codes, "a", rms)


def test_a_voice_beyond_the_caps_of_voice_files_is_refused(engine):
    with pytest.raises(InputError, match="a voice must be at most 1500 frames long, got 1501"):
        engine.plan([request(voice=VoicePrompt(torch.zeros(8, 1501, dtype=torch.long), "a", 0.1))])
    with pytest.raises(TextError, match="voice text must be at most 2000 characters, got 2001"):
        engine.plan([request(voice=VoicePrompt(torch.zeros(8, 9, dtype=torch.long), "a" * 2001, 0.1))])


@pytest.mark.parametrize("path", [None, 5, b"x"])
def test_what_is_no_path(path):
    with pytest.raises(FileError, match="a path must be a string or a Path, got"):
        VoicePrompt.load(path)


@pytest.mark.parametrize("dtype", [torch.int8, "float32", torch.float8_e4m3fn])
def test_what_is_no_dtype_to_compute_in(checkpoint, dtype):
    with pytest.raises(InputError, match=r"dtype must be torch\.float32, .*got"):
        Engine.load(checkpoint, dtype=dtype)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"codebook_size": 512},
            "codec has 8 codebooks of 512 codes, the model 8 of 1024",
        ),  # and 12 codebooks' bandwidth
        ({"target_bandwidths": [0.5]}, "codec has 2 codebooks of 1024 codes, the model 8 of 1024"),
    ],
)
def test_another_models_codec_is_refused_before_weights_are_read(checkpoint, tmp_path, monkeypatch, change, message):
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    config = folder / "audio_tokenizer" / "config.json"
    if "codebook_size" in change:
        change = {**change, "target_bandwidths": [1.8]}  # 8 codebooks of 9 bits at 25 frames a second
    config.write_text(json.dumps({**json.loads(config.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    monkeypatch.setattr("omnivoice.weights.read.open_tensors", lambda path: pytest.fail("weights were read"))
    with pytest.raises(CheckpointError, match=f"{message}: they belong to different models"):
        Engine.load(folder)


def test_a_folder_that_may_not_be_read_is_refused_by_name(checkpoint, monkeypatch):
    """Tests may run as root, who may read everything: the system's answer is replaced."""
    monkeypatch.setattr(paths.os, "access", lambda path, mode: False)
    with pytest.raises(CheckpointError, match=r"model folder checkpoint cannot be read: change its permissions"):
        Engine.load(checkpoint)


def test_an_unreadable_models_folder_holds_no_model(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIVOICE_MODEL", raising=False)
    monkeypatch.setattr("pathlib.Path.iterdir", refuse)
    with pytest.raises(CheckpointError, match="no OmniVoice model found"):
        models.find_model(None)


def test_surrogates_in_an_argument_are_read_as_the_bytes_they_stand_for():
    from omnivoice.commands.text_input import text_argument

    assert text_argument("caf\u00e9", "the text") == "caf\u00e9"
    if sys.platform != "win32":
        assert text_argument("caf\udcc3\udca9", "the text") == "caf\u00e9"
    for text in ("caf\udce9", "a\ud800"):
        with pytest.raises(TextError, match="the text is not UTF-8: check the terminal's encoding"):
            text_argument(text, "the text")
