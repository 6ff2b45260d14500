"""Adapters, settings and what a training model leaves as it was."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from omnivoice.errors import InputError, LoraError, NumericError
from omnivoice.train.adapter import full_weights, start_from_lora, trained_lora
from omnivoice.train.batches import Cursor, label_counts
from omnivoice.train.build import base_fingerprint, build_trainer
from omnivoice.train.clips import Clip, Dataset, Rejected
from omnivoice.train.model import TrainingModel
from omnivoice.train.settings import LINEARS, PRESETS, Masking, TrainSettings, settings_from
from omnivoice.train.trainer import learning_rate
from omnivoice.weights.lora import Difference, LowRank, Replacement
from tests.unit.train.training_fixtures import CPU, SMALL, random_clips, tiny_model, tiny_tokenizer, tiny_trainer
from tests.unit.weights.lora_fixtures import with_lora


def loss_of(trainer: object) -> float:
    """Of one step's examples, without learning from them."""
    examples, _ = trainer.source.take(Cursor(), tokens=400, clips=8)  # type: ignore[attr-defined]
    trainer.model.eval()  # type: ignore[attr-defined]
    with torch.no_grad():
        return float(trainer.model(examples, label_counts(examples)))  # type: ignore[attr-defined]


def test_a_new_lora_changes_nothing() -> None:
    frozen = tiny_trainer(audio_modules="frozen", targets=("q_proj",))
    for changes in ({}, {"audio_modules": "lora"}, {"method": "full"}, {"gradient_checkpointing": True}):
        assert loss_of(tiny_trainer(**changes)) == pytest.approx(loss_of(frozen), abs=1e-6)


@pytest.mark.parametrize("modules", ["full", "lora", "frozen"])
def test_merged_is_applied(modules: str) -> None:
    """W + change gives the loss that the model in training has; half the strength halves the change."""
    trainer = tiny_trainer(audio_modules=modules, rslora=True, learning_rate=1e-2, dropout=0.2)
    for _ in range(4):
        trainer.step()
    lora = trained_lora(trainer.model, "x")
    assert {type(c) for c in lora.changes.values()} == ({LowRank, Difference} if modules == "full" else {LowRank})
    lm, text = tiny_model()
    tensors, half = (with_lora(lm.state_dict(), lora, strength) for strength in (1.0, 0.5))
    for name, base in lm.state_dict().items():
        torch.testing.assert_close(2 * (half[name] - base), tensors[name] - base, rtol=0, atol=1e-6)
    lm.load_state_dict(tensors)
    merged = TrainingModel(lm, text, SMALL, device=CPU, generator=torch.Generator())
    with torch.no_grad():
        for layer in merged.lora_layers().values():
            layer.up.zero_()
    examples, _ = trainer.source.take(Cursor(), tokens=400, clips=8)
    merged.eval()
    with torch.no_grad():
        assert float(merged(examples, label_counts(examples))) == pytest.approx(loss_of(trainer), abs=1e-5)


def test_whole_weights_leave_as_they_are_for_peft() -> None:
    trainer = tiny_trainer()
    trainer.step(), trainer.step()
    whole = trained_lora(trainer.model, "x", as_weights=True)
    assert isinstance(whole.changes["audio_heads"], Replacement)
    assert torch.equal(whole.changes["audio_heads"].values, trainer.trained["audio_heads.weight"])
    assert whole.changes["audio_heads"].values.data_ptr() != trainer.trained["audio_heads.weight"].data_ptr()


def test_a_full_fine_tuning_knows_every_weight() -> None:
    lm, _ = tiny_model()
    names = {*lm.state_dict(), "llm.embed_tokens.weight"}
    trainer = tiny_trainer(method="full")
    before = {name: weight.clone() for name, weight in full_weights(trainer.model).items()}
    assert before.keys() == names
    trainer.step(), trainer.step()
    after = full_weights(trainer.model)
    assert all(not torch.equal(before[name], after[name]) for name in names)


def test_the_base_is_never_changed() -> None:
    lm, text = tiny_model()
    before = {name: weight.clone() for name, weight in lm.state_dict().items()}
    given = dict(lm.state_dict())
    rows = text.weight.clone()
    trainer = build_trainer(lm, text, tiny_tokenizer(), Dataset(random_clips()), SMALL, device=CPU)
    for _ in range(3):
        trainer.step()
    assert all(torch.equal(before[name], given[name]) for name in before)
    assert torch.equal(text.weight, rows) and not text.weight.requires_grad


def test_offloading_computes_the_same() -> None:
    plain, offloaded = (tiny_trainer(gradient_checkpointing=True, offloading=off) for off in (False, True))
    for trainer in (plain, offloaded):
        trainer.step(), trainer.step()
    assert plain.losses == offloaded.losses


def test_training_starts_from_a_lora() -> None:
    first = tiny_trainer(dropout=0.0)
    first.step(), first.step()
    lora = trained_lora(first.model, "first.safetensors")
    second = tiny_trainer(dropout=0.0, alpha=8.0)  # another scale: the pairs are rescaled
    start_from_lora(second.model, lora, second.settings)
    assert loss_of(second) == pytest.approx(loss_of(first), abs=1e-6)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"rank": 3}, "has rank 2, this run 3: set rank to 2"),
        ({"audio_modules": "frozen"}, "changes audio_embeddings, which this run does not train in that way"),
        ({"targets": LINEARS[:2]}, "which this run does not train in that way"),
    ],
)
def test_a_lora_that_does_not_fit_is_refused(changes: dict, words: str) -> None:
    lora = trained_lora(tiny_trainer().model, "first.safetensors")
    other = tiny_trainer(**changes)
    with pytest.raises(LoraError, match=words):
        start_from_lora(other.model, lora, other.settings)


def test_a_lora_of_fewer_modules_is_refused() -> None:
    lora = trained_lora(tiny_trainer(targets=("q_proj",)).model, "small.safetensors")
    with pytest.raises(LoraError, match=r"small\.safetensors does not change llm\.layers\.0\.self_attn\.k_proj"):
        start_from_lora(tiny_trainer().model, lora, SMALL)


def test_a_loss_that_is_not_finite_teaches_nothing_and_ends_the_run() -> None:
    trainer = tiny_trainer(steps=50)
    trainer.step()
    before = {name: p.detach().clone() for name, p in trainer.trained.items()}
    with torch.no_grad():
        trainer.model.lm.llm.norm.weight[0] = math.nan
    reports = [trainer.step() for _ in range(4)]
    assert all(report.skipped and math.isnan(report.loss) for report in reports)
    assert all(torch.equal(before[name], p) for name, p in trainer.trained.items())
    with pytest.raises(NumericError, match=r"not finite in 5 steps in a row \(step 6\): lower the learning rate"):
        trainer.step()


@pytest.mark.parametrize(
    "codes, words",
    [
        (
            torch.zeros(4, 9, dtype=torch.int16),
            r"of a clip do not belong to this model \(4 codebooks, the model has 8\)",
        ),
        (torch.full((8, 9), 1024, dtype=torch.int16), "do not belong to this model"),
        (torch.full((8, 9), -1, dtype=torch.int16), "do not belong to this model"),
    ],
)
def test_clips_of_another_model_are_refused(codes: torch.Tensor, words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_trainer(*tiny_model(), tiny_tokenizer(), Dataset((Clip("a clip", codes, "Hi."),)), SMALL, device=CPU)


def test_an_empty_dataset_is_refused() -> None:
    empty = Dataset((), (Rejected("a.wav", "silent"),))
    with pytest.raises(InputError, match="the dataset has no usable clip"):
        build_trainer(*tiny_model(), tiny_tokenizer(), empty, SMALL, device=CPU)


def test_fingerprints_tell_models_and_clips_apart() -> None:
    lm, _ = tiny_model()
    first = base_fingerprint(lm)
    assert base_fingerprint(tiny_model()[0]) == first != base_fingerprint(tiny_model(torch.bfloat16)[0])
    with torch.no_grad():
        lm.audio_heads.weight[-1, 3] += 1
    assert base_fingerprint(lm) != first
    clips = random_clips()
    prints = {
        Dataset(clips).fingerprint(),
        Dataset(clips[::-1]).fingerprint(),
        Dataset((replace(clips[0], text="Else."), *clips[1:])).fingerprint(),
        Dataset((replace(clips[0], language="de"), *clips[1:])).fingerprint(),
    }
    assert len(prints) == 4
    assert Dataset((replace(clips[0], name="renamed"), *clips[1:])).fingerprint() in prints


@pytest.mark.parametrize("share, held", [(0, 0), (0.05, 0), (0.5, 3), (0.2, 1)])
def test_split(share: float, held: int) -> None:
    dataset = Dataset(random_clips(6))
    training, validation = dataset.split(share, 4)
    assert len(validation) == held and len(training) + held == 6
    assert {id(c) for c in (*training, *validation)} == {id(c) for c in dataset.clips}
    assert dataset.split(share, 4) == (training, validation)
    assert len(Dataset(random_clips(1)).split(0.5, 0)[0]) == 1 and Dataset(()).split(0.5, 0) == ((), ())
    assert len(Dataset(random_clips(10)).split(0.01, 0)[1]) == 1


def test_report_names_every_row() -> None:
    dataset = Dataset(random_clips(2), (Rejected("bad.wav", "silent: record it again"),), ("a note",))
    assert dataset.rows == 3
    assert dataset.report().splitlines() == [
        "2 of 3 clips, 1.1 s, languages: unspecified (1), en (1)",
        "a note",
        "rejected bad.wav: silent: record it again",
        "3 rows = 2 used + 1 not used",
    ]


@pytest.mark.parametrize(
    "table, words",
    [
        ({"rank": 0}, "rank must be 1-256, got 0"),
        ({"rank": 2.5}, "rank must be a whole number"),
        ({"learning_rate": math.nan}, "learning_rate must be"),
        ({"steps": 0}, "steps must be 1-1000000"),
        ({"dropout": 0.95}, "dropout must be 0-0.9"),
        ({"alpha": 0}, "alpha must be above 0"),
        ({"optimizer": "Lion"}, "optimizer must be one of AdamW, Adam, SGD, RMSprop, Muon, got 'Lion'"),
        ({"targets": ["lm_head"]}, "targets must be some of q_proj"),
        ({"rslora": 1}, "rslora must be true or false"),
        ({"offloading": True, "gradient_checkpointing": False}, "offloading needs gradient_checkpointing"),
        ({"offloading": True, "method": "full"}, "with method full no weight is frozen"),
        ({"targets": [], "audio_modules": "frozen"}, "nothing to train"),
        ({"sample_every": 5}, "sample_every needs a sample_text"),
        ({"patience": 2, "validation": 0}, "patience needs"),
        ({"lr": 1}, r"unknown setting lr: known are .*learning_rate"),
        ({"masking": {"text": 1}}, "masking.text"),
        ({"masking": {"prompt": [0.5, 0.2]}}, "prompt must be an ascending range"),
        ({"masking": {"mask": [0, 2]}}, "mask must be 0-1"),
        ({"masking": {"prompt": [0, 1]}}, "ends below 1"),
        ({"masking": 3}, "masking must be a table"),
        ({"masking": {"mask": 0.5}}, "mask must be two numbers"),
        ({"masking": {"language": 1.1}}, "language must be 0-1"),
    ],
)
def test_settings_that_cannot_be(table: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        settings_from(table)


def test_settings_travel_as_json() -> None:
    settings = TrainSettings(rank=4, targets=("up_proj", "q_proj"), masking=Masking(mask=(0.1, 0.9)))
    assert settings.targets == ("q_proj", "up_proj")
    assert settings_from(json.loads(json.dumps(settings.as_table()))) == settings
    assert settings_from({"rank": 8}, settings).targets == settings.targets


def test_presets() -> None:
    lengths = (1, 41.5, 50, 51, 200, 499, 4000)  # 41.5 s: what the preset was chosen on
    assert [PRESETS["voice"](seconds).steps for seconds in lengths] == [100, 100, 100, 102, 400, 998, 1000]
    assert [PRESETS[name](60).learning_rate for name in ("voice", "language")] == [2e-4, 1e-4]
    assert PRESETS["language"](36_000).steps == 5000
    assert TrainSettings(rank=16, alpha=32, rslora=True).scale == 8 and TrainSettings(rank=16, alpha=32).scale == 2


def test_schedule() -> None:
    """transformers 5.3.0 get_cosine_schedule_with_warmup, 2 of 10 steps; and the constant one."""
    cosine = TrainSettings(steps=10, warmup=0.2, learning_rate=1.0)
    shares = [learning_rate(cosine, step) for step in range(10)]
    assert shares[:3] == [0, 0.5, 1]
    assert (shares[6], shares[9]) == (pytest.approx(0.5), pytest.approx(0.0380602, rel=1e-5))
    constant = replace(cosine, schedule="constant")
    assert [learning_rate(constant, step) for step in range(5)] == [0, 0.5, 1, 1, 1]


def test_a_lora_that_could_not_be_read_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnivoice.train.build.MAX_TENSORS_BYTES", 3 << 20)
    with pytest.raises(InputError, match=r"a LoRA of rank 256 would take [\d.]+ MB, at most [\d.]+ MB are allowed"):
        build_trainer(*tiny_model(), tiny_tokenizer(), Dataset(random_clips()), replace(SMALL, rank=256), device=CPU)
