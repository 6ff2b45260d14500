"""The demo voice says its words in the requested voice, with all kinds of settings; noise is not understood.

These tests measure quality: pocketsphinx listens with the grammar of the sentences.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from demo_voice.making import grammar
from demo_voice.making.language_model import INSTRUCTS
from omnivoice.__main__ import main
from omnivoice.engine import Engine
from omnivoice.generate.presets import PRESETS
from omnivoice.intake.audio_files import read_audio
from omnivoice.train.adapter import trained_lora
from omnivoice.train.build import build_trainer
from omnivoice.train.clips import Clip, Dataset
from omnivoice.train.settings import Masking, TrainSettings
from omnivoice.types import ALL_SPEEDUPS, GenerationRequest, Sampling, Speedups, VoicePrompt
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from omnivoice.weights.export_folder import export_folder
from omnivoice.weights.lora import Difference, LoRA
from tests.demo.demo_fixtures import (
    STEPS,
    asset,
    clips,
    engine,
    held_out,
    listener,
    requests,
    spoken,
    understood,
    voice_judge,
)

WELL, CLONED, CHANCE = 0.85, 0.7, 0.1  # goals for a few sentences; CARD.md has the figures of all 60


def test_size_and_words() -> None:
    assert asset().stat().st_size <= 12_000_000
    assert engine().words == frozenset(grammar.words()) and len(engine().words) > 250


def test_it_says_held_out_sentences() -> None:
    words = held_out()
    recordings = spoken(engine(), requests(words))
    assert understood(words, recordings) >= WELL
    assert understood(words[1:] + words[:1], recordings) <= CHANCE, "the judge can tell sentences apart"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"language": None}, id="no-language"),
        pytest.param({"steps": PRESETS["draft"].steps}, id="draft"),
        pytest.param({"sampling": Sampling(steps=STEPS, guidance=0)}, id="no-guidance"),
        pytest.param({"sampling": PRESETS["fast"].apply(Sampling())}, id="fast"),
        pytest.param({"post_process": True, "pad_seconds": 0.1, "fade_seconds": 0.1}, id="as-users-hear-it"),
    ],
)
def test_it_says_them_with_all_kinds_of_settings(asked: dict[str, object]) -> None:
    words = held_out(4)
    assert understood(words, spoken(engine(), requests(words, **asked))) >= WELL - 0.1


def test_a_sentence_is_the_same_alone_and_in_a_batch() -> None:
    asked = requests(held_out(4))
    together = spoken(engine(), asked)
    assert all(torch.equal(spoken(engine(), [one])[0], recording) for one, recording in zip(asked, together))


@pytest.mark.parametrize("voice", sorted(INSTRUCTS))
def test_a_described_voice_is_that_voice(voice: str) -> None:
    words = held_out(4)
    recordings = spoken(engine(), requests(words, design=INSTRUCTS[voice]))
    assert [voice_judge().voice(recording) for recording in recordings].count(voice) >= 3
    assert understood(words, recordings) >= WELL - 0.1


def test_noise_and_untrained_weights_are_not_understood() -> None:
    """Listening to noise takes seconds, so it is two sentences: none of their words may be heard by chance."""
    words = held_out(2)
    generator = torch.Generator().manual_seed(0)
    noise = [0.1 * torch.randn(40_000, generator=generator) for _ in words]
    assert understood(words, noise) <= CHANCE
    files = locate_checkpoint(asset())
    untrained = Engine.load(asset())
    with torch.no_grad():
        for parameter in untrained.lm.parameters():
            if parameter.ndim == 2:
                parameter.copy_(torch.empty_like(parameter).normal_(0, 0.02, generator=generator))
    assert files.words and understood(words, spoken(untrained, requests(words))) <= CHANCE


def test_a_cloned_voice_is_that_voice_and_says_the_words() -> None:
    words, right, heard = held_out(4), 0, []
    references = [clip for clip in clips() if clip.use == "reference"]
    for clip in references[::2]:
        asked = [one for one in words if one != clip.words]
        recordings = spoken(engine(), requests(asked, voice=clip.prompt()))
        right += sum(voice_judge().voice(recording) == clip.voice for recording in recordings)
        heard += zip(asked, recordings)
    assert understood(*zip(*heard)) >= CLONED
    assert right >= 0.9 * len(heard)


def test_a_saved_voice_speaks_alike(tmp_path: Path) -> None:
    clip = next(clip for clip in clips() if clip.use == "reference")
    clip.prompt().save(tmp_path / "voice.safetensors")
    (asked,) = requests(held_out(1), voice=clip.prompt())
    again = replace(asked, voice=VoicePrompt.load(tmp_path / "voice.safetensors"))
    assert torch.equal(*spoken(engine(), [asked, again]))


def test_a_text_of_several_sentences_is_said_in_chunks() -> None:
    words = held_out(3)
    text = " ".join(grammar.written(one) for one in words)
    request = GenerationRequest(
        text, language="en", seed=3, sampling=Sampling(steps=16), chunk_seconds=3, chunk_threshold_seconds=3
    )
    (speech,) = engine().generate([request])
    assert len(speech.codes) >= 2
    decoded = [engine().codec.decoder.decode(codes)[0] for codes in speech.codes]
    pieces = [" ".join(chunk.lower().replace(".", "").split()) for chunk in speech.chunks]
    assert understood(pieces, decoded) >= 0.7


def test_in_bfloat16_the_words_survive() -> None:
    words = held_out(4)
    assert understood(words, spoken(Engine.load(asset(), dtype=torch.bfloat16), requests(words))) >= WELL - 0.1


def test_every_exact_speedup_says_the_same(tmp_path: Path) -> None:
    asked = requests(held_out(1), steps=6)
    codes = [speech.codes[0] for speech in engine().generate(asked)]
    for name in (field.name for field in fields(Speedups)):
        other = Engine.load(asset(), speedups=replace(ALL_SPEEDUPS, **{name: False}))
        for ours, theirs in zip(codes, other.generate(asked)):
            assert torch.equal(ours, theirs.codes[0]), name


def test_merged_and_exported_it_says_the_same(tmp_path: Path) -> None:
    """A LoRA that changes nothing, merged into one file and into a folder; and the plain file, written again."""
    files, asked = locate_checkpoint(asset()), requests(held_out(2))
    nothing = LoRA("nothing", {"audio_heads": Difference(torch.zeros_like(engine().lm.audio_heads.weight))})
    models = [
        export_checkpoint(files, tmp_path / "again.safetensors"),
        export_checkpoint(files, tmp_path / "merged.safetensors", loras=[(nothing, 1.0)]),
        export_folder(files, tmp_path / "folder", loras=[(nothing, 0.5)]),
    ]
    first = spoken(engine(), asked)
    for model in models:
        assert all(map(torch.equal, first, spoken(Engine.load(model), asked)))


def test_a_lora_of_twenty_clips_brings_a_new_voice_and_keeps_the_words(tmp_path: Path) -> None:
    files, new = locate_checkpoint(asset()), [clip for clip in clips() if clip.use == "train"]
    assert len(new) == 20 and {clip.voice for clip in new}.isdisjoint({c.voice for c in clips() if c.use != "train"})
    dataset = Dataset(tuple(Clip(c.words, c.codes.to(torch.int16), c.text, "en") for c in new))
    speaker = Engine.load(asset(), speedups=replace(ALL_SPEEDUPS, fused_linears=False))
    settings = TrainSettings(
        rank=8,
        alpha=16,
        dropout=0.0,
        learning_rate=2e-3,
        steps=32,
        warmup=0.05,
        batch_tokens=1300,
        validation=0,
        gradient_checkpointing=False,
        masking=Masking(by_codebook=0.5, prompt=(0, 0), language=1.0),
    )
    trainer = build_trainer(
        speaker.lm, speaker.sampler.text, speaker.tokenizer, dataset, settings, device=torch.device("cpu")
    )
    while not trainer.finished:
        trainer.step()
    merged = export_checkpoint(files, tmp_path / "new.safetensors", loras=[(trained_lora(trainer.model, "new"), 1.0)])
    words = held_out(6)
    before = [voice_judge().voice(recording) for recording in spoken(engine(), requests(words))]
    recordings = spoken(Engine.load(merged), requests(words))
    after = [voice_judge().voice(recording) for recording in recordings]
    assert after.count(new[0].voice) >= 5 > 1 >= before.count(new[0].voice)
    assert understood(words, recordings) >= 0.8


def test_without_a_model_the_command_line_speaks_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMNIVOICE_MODEL", raising=False)
    text = "The weather is beautiful today."
    assert main(["speak", text, "--language", "en", "--seed", "1", "-o", "hello.wav"]) == 0
    said = capsys.readouterr()
    assert all(part in said.err for part in ("no model is installed", "demo voice", "python -m omnivoice download"))
    assert "warning" not in said.err
    heard = listener().hear(read_audio(tmp_path / "hello.wav").samples[0])
    assert heard == "the weather is beautiful today"
    assert main(["speak", "Hello penguin.", "--seed", "1", "-o", "other.wav"]) == 0
    told = capsys.readouterr().err
    assert "cannot say penguin;" in told and "demo_voice/CARD.md" in told
