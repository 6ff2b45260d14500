"""The judge of the demo voice: word errors, pitch and voices. Its listening is tested in test_demo_voice.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from demo_voice.making import judge


@pytest.mark.parametrize(
    ("said", "heard", "wrong"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a c", 1),
        ("a b c", "a x c", 1),
        ("a b c", "z a b c", 1),
        ("a b c", "", 3),
        ("a b", "b a", 2),
    ],
)
def test_errors_are_the_word_edit_distance(said: str, heard: str, wrong: int) -> None:
    assert judge.errors(said, heard) == wrong


def test_accuracy_counts_all_words_and_sentences_without_an_error() -> None:
    words, sentences = judge.accuracy(["a b c", "d"], ["a b c", "e"])
    assert (words, sentences) == (0.75, 0.5)


def test_every_mel_band_has_weight_one_for_every_window_in_use() -> None:
    for window, bands in ((2048, 80), (1024, 80), (512, 64)):
        bank = judge.mel_bank(bands, window)
        assert bank.shape == (bands, window // 2 + 1)
        torch.testing.assert_close(bank.sum(dim=1), torch.ones(bands))


@pytest.mark.parametrize("hz", [110, 150, 220])
def test_pitch_of_a_buzz(hz: int) -> None:
    assert judge.pitch_hz(_buzz(hz, 3)) == pytest.approx(hz, rel=0.02)


def test_noise_has_no_pitch() -> None:
    assert judge.pitch_hz(torch.randn(24_000, generator=torch.Generator().manual_seed(0))) == 0


def test_voices_are_distinguished_by_spectrum_and_not_by_level() -> None:
    examples = {name: [_buzz(hz, tilt) for hz in (150, 160, 170)] for name, tilt in (("dull", 3), ("bright", 25))}
    voices = judge.VoiceJudge(examples)
    assert voices.voice(0.1 * _buzz(155, 3)) == "dull"
    assert voices.voice(3.0 * _buzz(155, 25)) == "bright"


def _buzz(hz: int, harmonics: int) -> Tensor:
    """Return one second of equally strong harmonics."""
    time = torch.arange(24_000) / 24_000
    tones = [torch.sin(2 * torch.pi * hz * h * time + h) for h in range(1, harmonics + 1)]
    return 0.1 * torch.stack(tones).sum(dim=0)
