"""The demo voice's training: which parts learn in which phase, and that a resumed run gives the same result."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from demo_voice.making import codec_model, codec_train, decoder_fit, language_model
from demo_voice.making.base_model import make_base
from demo_voice.making.codec_model import DemoCodec
from demo_voice.making.codec_pack import pack_codec
from demo_voice.making.codec_train import POLISH_STEPS, STEPS, WARM_STEPS, Spectra, learning_rate, losses, train_codec
from demo_voice.making.make import same_settings
from demo_voice.making.speech import HOP, write_lines
from omnivoice.train.model import TrainingModel
from omnivoice.train.settings import TrainSettings


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than these tests."""
    plain = (codec_model._snake_forward, codec_model._snake_backward)
    monkeypatch.setattr(codec_model, "_fused", lambda: plain)


@pytest.mark.parametrize(("step", "encoder_learns", "books_move"), [(0, 1, 0), (WARM_STEPS, 1, 1), (STEPS, 0, 0)])
def test_which_parts_learn_in_which_phase(step: int, encoder_learns: bool, books_move: bool) -> None:
    codec, noise = DemoCodec(), torch.Generator().manual_seed(0)
    codec.start(0)
    codec.books.start(torch.randn(600, codec_model.WIDTH, generator=noise), noise, rounds=1)
    before = codec.books.vectors.clone()
    loss, _ = losses(codec, Spectra(), 0.1 * torch.randn(2, 1, 4 * HOP, generator=noise), step, noise)
    loss.backward()
    assert codec.acoustic_decoder.conv1.weight.grad is not None
    assert (codec.acoustic_encoder.conv1.weight.grad is not None) == encoder_learns
    assert (not torch.equal(codec.books.vectors, before)) == books_move


def test_spectra_of_equal_audio_are_equal_and_of_louder_audio_differ() -> None:
    audio = 0.1 * torch.randn(1, 9600, generator=torch.Generator().manual_seed(0))
    assert [float(part) for part in Spectra()(audio, audio)] == [0, 0, 0]
    mel, linear, relative = (float(part) for part in Spectra()(2 * audio, audio))
    assert relative == pytest.approx(1, abs=0.01)
    assert 0.6 < mel < 0.7 and 0.6 < linear < 0.7  # the logarithm of 2, reduced by the floor


def test_learning_rate_falls_twice_and_jumps_only_in_between() -> None:
    rates = [learning_rate(step) for step in range(STEPS + POLISH_STEPS)]
    jumps = [step for step, (a, b) in enumerate(pairwise(rates), start=1) if abs(a - b) > 3e-5]
    assert jumps == [STEPS]
    assert rates[STEPS - 1] < 3e-5 and rates[-1] < 3e-5 and max(rates) == codec_train.RATE_TOP


def test_a_resumed_run_gives_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        "STEPS": 3,
        "WARM_STEPS": 1,
        "POLISH_STEPS": 1,
        "EXAMPLES": 1,
        "FRAMES": 6,
        "SHARDS": 1,
        "SAVE_SECONDS": -1,
    }
    for name, value in small.items():
        monkeypatch.setattr(codec_train, name, value)
    noise = np.random.default_rng(0).normal(0, 3000, 40 * HOP).astype(np.int16)
    np.save(tmp_path / "000.npy", noise)
    write_lines(tmp_path / "000.jsonl", [{"split": "train", "shard": 0, "start": 0, "samples": len(noise)}])
    whole = train_codec(tmp_path, tmp_path / "whole", seed=1)

    def stop(codec: DemoCodec, spectra: Spectra, audio: torch.Tensor, step: int, noise: torch.Generator) -> object:
        if step == 2:
            raise KeyboardInterrupt
        return losses(codec, spectra, audio, step, noise)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(codec_train, "losses", stop)
        train_codec(tmp_path, tmp_path / "stopped", seed=1)
    resumed = train_codec(tmp_path, tmp_path / "stopped", seed=1)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_other_settings_are_refused(tmp_path: Path) -> None:
    same_settings(tmp_path / "speech", {"seed": 1})
    same_settings(tmp_path / "speech", {"seed": 1})
    with pytest.raises(SystemExit, match="was made with other settings: remove it, or give another folder"):
        same_settings(tmp_path / "speech", {"seed": 2})


def test_fitting_changes_only_the_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SENTENCES": 3, "STEPS": 1, "EXAMPLES": 2, "FRAMES": 8, "AT_ONCE": 2, "TRUE": (1, 2)}.items():
        monkeypatch.setattr(decoder_fit, name, value)
    codec, noise = DemoCodec(), torch.Generator().manual_seed(0)
    codec.start(0)
    codec.books.start(torch.randn(600, codec_model.WIDTH, generator=noise), noise, rounds=1)
    (tmp_path / "codec").mkdir()
    torch.save({"codec": codec.state_dict()}, tmp_path / "codec" / "state.pt")
    pack_codec(codec, tmp_path / "tokenizer")
    make_base(tmp_path / "tokenizer", tmp_path / "model", seed=1)
    frames, rows = 20, []
    for number, split in enumerate(("test", "train", "train", "train")):
        rows.append(
            {
                "id": number,
                "split": split,
                "words": "my cat slept",
                "text": "My cat slept.",
                "voice": "f2",
                "frame": number * frames,
                "frames": frames,
                "shard": 0,
                "start": number * frames * HOP,
                "samples": frames * HOP,
            }
        )
    for folder in ("speech", "codes"):
        (tmp_path / folder).mkdir()
        write_lines(tmp_path / folder / "index.jsonl", rows)
    audio = np.random.default_rng(0).normal(0, 3000, 4 * frames * HOP).astype(np.int16)
    np.save(tmp_path / "speech" / "000.npy", audio)
    true = torch.randint(64, (8, 4 * frames), generator=noise).to(torch.uint8)
    save_file({"codes": true}, tmp_path / "codes" / "codes.safetensors")
    fitted = decoder_fit.fit_decoder(tmp_path, seed=1)
    guessed, own = load_file(tmp_path / "fit" / "codes.safetensors")["codes"], true[:, frames:]
    assert torch.equal(guessed[0], own[0]) and not torch.equal(guessed[2:], own[2:])
    second = [torch.equal(guessed[1, a : a + frames], own[1, a : a + frames]) for a in range(0, 3 * frames, frames)]
    assert second == [False, True, False], "TRUE is used in turn"
    for name, tensor in fitted.state_dict().items():
        learns = name.startswith("acoustic_decoder.")
        assert torch.equal(tensor, codec.state_dict()[name]) != learns, name


def test_loss_weights_change_after_a_share_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after an interruption."""
    codec = DemoCodec()
    codec.start(0)
    pack_codec(codec, tmp_path / "tokenizer")
    make_base(tmp_path / "tokenizer", tmp_path / "base", seed=1)
    rows = [
        {"id": n, "split": "train", "text": "My cat slept.", "voice": "f2", "frame": 20 * n, "frames": 20}
        for n in range(4)
    ]
    (tmp_path / "codes").mkdir()
    write_lines(tmp_path / "codes" / "index.jsonl", rows)
    save_file({"codes": torch.zeros(8, 80, dtype=torch.uint8)}, tmp_path / "codes" / "codes.safetensors")
    plain, forward, seen = language_model.settings, TrainingModel.forward, []

    def short(world_size: int = 1, steps: int = 4) -> TrainSettings:
        optimizer = "Muon" if hasattr(torch.optim, "Muon") else "AdamW"  # before torch 2.9
        return replace(plain(world_size, steps), batch_tokens=60, save_every=1, optimizer=optimizer)

    def watched(model: TrainingModel, *given: object) -> torch.Tensor:
        seen.append(model.codebook_weights[0])
        if len(seen) == 4:
            raise KeyboardInterrupt
        return forward(model, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(language_model, "settings", short)
    monkeypatch.setattr(TrainingModel, "forward", watched)
    with pytest.raises(KeyboardInterrupt):
        language_model.train_language_model(tmp_path)
    language_model.train_language_model(tmp_path)
    early, late = 20 / 41, 6 / 35
    assert seen == pytest.approx([early, early, early, late, late])
    assert (tmp_path / "model" / "model.safetensors").is_file()
