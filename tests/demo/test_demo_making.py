"""The demo voice's training speech and its untrained model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from demo_voice.making import base_model, grammar, speech
from demo_voice.making.codec_model import DemoCodec
from demo_voice.making.codec_pack import pack_codec
from demo_voice.making.speech import HOP, RMS, VOICES, rows, say_in_time, stretched
from omnivoice.text.duration import estimate_frames
from omnivoice.weights import locate_checkpoint


def test_stretching_changes_only_the_length_and_the_pitch() -> None:
    tone = torch.sin(torch.arange(4800) * (2 * torch.pi * 50 / 4800))
    longer = stretched(tone, 5000)
    assert torch.allclose(longer, torch.sin(torch.arange(5000) * (2 * torch.pi * 50 / 5000)), atol=1e-4)


@pytest.mark.parametrize("factor", [0.93, 1.0, 1.1])
def test_a_sentence_lasts_the_estimate_in_whole_frames(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if espeak-ng does not speak at the exact speed, and if its pauses do not shrink."""
    speeds: list[int] = []

    def say(words: str, voice: speech.Voice, speed: int) -> torch.Tensor:
        speeds.append(speed)
        noise = torch.Generator().manual_seed(len(words))
        return torch.randn(round(4000 + len(words) * 24_000 * 12 / speed), generator=noise)

    monkeypatch.setattr(speech, "say", say)
    words = "my uncle is a very clever sailor"
    samples = say_in_time(words, VOICES[0], factor)
    assert len(samples) == round(estimate_frames(grammar.written(words)) * factor) * HOP
    assert float(samples.square().mean().sqrt()) == pytest.approx(RMS)
    assert 2 <= len(speeds) <= speech.TRIES
    assert abs(len(say(words, VOICES[0], speeds[-1])) / len(samples) - 1) < 0.02, "little is left to be stretched"


def test_voices_share_the_training_sentences_and_speak_all_held_out_ones() -> None:
    listed = rows(1, 100, 4)
    count = {(row["split"], row["voice"]): 0 for row in listed}
    for row in listed:
        count[row["split"], row["voice"]] += 1
    names = [voice.name for voice in VOICES]
    assert count == {(s, v): n for s, n in (("test", 4), ("valid", 4), ("train", 100 // len(names))) for v in names}
    assert [row["id"] for row in listed] == list(range(len(listed)))


def test_the_untrained_model_is_reproducible_and_has_a_token_for_each_word(tmp_path: Path) -> None:
    codec = DemoCodec()
    codec.start(0)
    pack_codec(codec, tmp_path / "codec")
    for name in ("one", "two"):
        base_model.make_base(tmp_path / "codec", tmp_path / name, seed=1)
    first, second = ((tmp_path / name) for name in ("one", "two"))
    for file in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (first / file).read_bytes() == (second / file).read_bytes()
    tokenizer = Tokenizer.from_file(str(first / "tokenizer.json"))
    forms = [f"{space}{form}" for word in grammar.words() for form in (word, word.capitalize()) for space in ("", " ")]
    assert all(len(tokenizer.encode(form).ids) == 1 for form in forms)
    assert len(tokenizer.encode("penguin").ids) > 1
    assert tokenizer.decode(tokenizer.encode("A p\u00e4nguin, \u4f60\u597d!").ids) == "A p\u00e4nguin, \u4f60\u597d!"
    config = locate_checkpoint(first).lm_config
    assert config.vocab_size == tokenizer.get_vocab_size()
    assert tokenizer.token_to_id("<|denoise|>") is not None
