"""A voice remembers its codec, and a model with another codec refuses it."""

import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from omnivoice import Engine, GenerationRequest, InputError, Sampling, VoicePrompt, Waveform
from omnivoice.codec.quantizer import codebook_fingerprint
from omnivoice.generate.voices import UNKNOWN_CODEC
from omnivoice.types import VoiceDesign
from omnivoice.voice import consent_kind

TRANSCRIPT = "Good morning everyone."


@pytest.fixture(scope="module")
def engine(checkpoint):
    return Engine.load(checkpoint)


@pytest.fixture(scope="module")
def voice(engine):
    noise = torch.randn(1, 36_000, generator=torch.Generator().manual_seed(0)) * 0.1
    return engine.encode_voice(Waveform(noise, 24_000), TRANSCRIPT)


@pytest.fixture(scope="module")
def other(checkpoint, tmp_path_factory):
    """The same model with another codec: same shapes, one value of one codebook changed."""
    folder = shutil.copytree(checkpoint, tmp_path_factory.mktemp("other") / "model")
    file = folder / "audio_tokenizer" / "model.safetensors"
    tensors = load_file(file)
    tensors["quantizer.quantizers.7.codebook.embed"][-1, -1] += 1
    save_file(tensors, file)
    return Engine.load(folder)


def request(**fields):
    return GenerationRequest(text="Hello there.", seed=1, sampling=Sampling(steps=1), **fields)


def test_encoded_generated_and_saved_voices_remember_the_codec(engine, voice, tmp_path):
    assert len(engine.codec_fingerprint) == 16 and voice.codec == engine.codec_fingerprint
    assert engine.generate([request()])[0].voice.codec == engine.codec_fingerprint
    assert engine.generate([request(voice=voice)])[0].voice is voice
    voice.save(tmp_path / "v.safetensors")
    assert VoicePrompt.load(tmp_path / "v.safetensors").codec == engine.codec_fingerprint


def test_another_codec_refuses_the_voice_before_any_work(engine, voice, other, monkeypatch):
    assert other.codec_fingerprint != engine.codec_fingerprint
    monkeypatch.setattr(other.lm, "forward", lambda *a, **k: pytest.fail("the model ran"))
    monkeypatch.setattr(other.codec.decoder, "decode", lambda *a, **k: pytest.fail("the codec ran"))
    calls = [
        lambda: other.plan([request(voice=voice)]),
        lambda: other.generate([request(), request(voice=voice)]),
        lambda: other.decode_voice(voice),
        lambda: other.estimate_decode_bytes(voice),
    ]
    for call in calls:
        with pytest.raises(InputError, match="another model's codec") as refused:
            call()
        assert engine.codec_fingerprint in str(refused.value) and other.codec_fingerprint in str(refused.value)
        assert "make the voice again" in str(refused.value)


def test_a_voice_of_an_unknown_codec_is_accepted_with_a_warning(engine, voice):
    (known,) = engine.generate([request(voice=voice)])
    (unknown,) = engine.generate([request(voice=replace(voice, codec=""))])
    assert UNKNOWN_CODEC not in known.warnings and UNKNOWN_CODEC in unknown.warnings
    assert torch.equal(known.codes[0], unknown.codes[0])
    assert UNKNOWN_CODEC not in engine.generate([request()])[0].warnings


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_fingerprint_does_not_depend_on_the_dtype(checkpoint, engine, dtype):
    again = Engine.load(checkpoint)
    assert again.codec_fingerprint == engine.codec_fingerprint
    assert codebook_fingerprint(again.codec.decoder.quantizer.to(dtype)) == engine.codec_fingerprint


def test_the_fingerprint_of_both_halves_is_the_same(engine):
    assert codebook_fingerprint(engine.codec.encoder.quantizer) == engine.codec_fingerprint


@pytest.mark.parametrize("codec", ["x", "0" * 15, "0" * 17, "G" * 16, None, 5])
def test_what_is_no_fingerprint_is_refused(codec):
    with pytest.raises(InputError, match="voice codec must be 16 hex digits"):
        VoicePrompt(torch.zeros(8, 5, dtype=torch.long), "a", 0.1, codec=codec)


@pytest.mark.parametrize(
    "fields, note",
    [
        ({"design": "female"}, "designed: female"),
        ({"design": VoiceDesign(("male", "british accent"))}, "designed: male, british accent"),
        ({}, ""),
    ],
)
def test_a_described_voice_says_that_it_was_designed(engine, tmp_path, monkeypatch, fields, note):
    voice = engine.generate([request(**fields)])[0].voice
    assert voice.consent == note and consent_kind(voice.consent) == ("designed" if note else "unknown")
    voice.save(tmp_path / "v.safetensors")
    assert VoicePrompt.load(tmp_path / "v.safetensors").consent == note
    monkeypatch.setattr(engine, "has_loras", True)
    assert engine.generate([request(**fields)])[0].voice.consent == ""


def test_a_recorded_voice_keeps_its_note_whatever_is_described(engine, voice):
    noted = replace(voice, consent="permission: Anna")
    assert engine.generate([request(voice=noted, design="female")])[0].voice.consent == "permission: Anna"
    assert engine.generate([request(voice=voice, design="female")])[0].voice.consent == ""


def test_an_engine_knows_whether_loras_were_merged_in(checkpoint, root):
    assert not Engine.load(checkpoint).has_loras
    assert Engine.load(checkpoint, loras=[(root / "tests" / "assets" / "lora" / "saved", 1.0)]).has_loras


def test_a_voice_of_speech_keeps_a_language_of_ones_own(engine):
    voice = engine.generate([request(language="id:la")])[0].voice
    assert voice.language == "id:la"
    assert engine.generate([request(voice=voice, language=voice.language)])[0].warnings[0].startswith("la: not")


@pytest.mark.parametrize(
    "typed", ["Good morning every\u00adone.", "Good <b>morning</b> every-\none.", "Good&nbsp;morning everyone&#46;"]
)
def test_a_transcript_is_read_as_a_text_is(engine, voice, typed):
    noise = torch.randn(1, 36_000, generator=torch.Generator().manual_seed(0)) * 0.1
    again = engine.encode_voice(Waveform(noise, 24_000), typed)
    assert again.text == voice.text == TRANSCRIPT
    assert any("removed from the transcript: <b>" in warning for warning in again.warnings) is ("<b>" in typed)
