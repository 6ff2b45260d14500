"""Against upstream's processor, model, PEFT, AdamW and schedule, as tests/parity/record_training.py recorded them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from omnivoice.train.batches import Source
from omnivoice.train.clips import Clip
from omnivoice.train.masking import Example, make_example
from omnivoice.train.model import TrainingModel
from omnivoice.train.settings import Masking, TrainSettings
from omnivoice.train.trainer import Trainer
from tests.unit.train.training_fixtures import CPU, tiny_model, tiny_tokenizer

RECORDED = Path(__file__).resolve().parents[2] / "assets" / "training" / "recorded.safetensors"


@pytest.fixture(scope="module")
def record() -> dict[str, Tensor]:
    with safe_open(RECORDED, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def about() -> dict:
    with safe_open(RECORDED, "pt") as file:
        return json.loads(file.metadata()["about"])


@pytest.fixture(scope="module")
def clips(record: dict[str, Tensor], about: dict) -> list[Clip]:
    return [
        Clip(
            str(i),
            record[f"codes/{i}"],
            label["text"],
            label.get("language_id"),
            label.get("instruct"),
            label.get("text_pinyin"),
            label.get("clean_start_token_idx"),
        )
        for i, label in enumerate(about["labels"])
    ]


@pytest.fixture(scope="module")
def examples(clips: list[Clip], about: dict) -> list[Example]:
    tokenizer = tiny_tokenizer()
    return [
        make_example(
            clips[number % len(clips)],
            tokenizer,
            Masking(),
            1024,
            random.Random(number),
            torch.Generator().manual_seed(number),
        )
        for number in range(about["steps"] * about["per_step"])
    ]


def test_documents_equal_upstreams(record: dict[str, Tensor], examples: list[Example]) -> None:
    """With the same seeds: every id, every mask, every label."""
    for number, example in enumerate(examples):
        ids, labels = record[f"documents/{number}/ids"].long(), record[f"documents/{number}/labels"].long()
        prompt = int(record[f"documents/{number}/prompt"])
        assert list(example.prompt_ids) == ids[0, :prompt].tolist()
        assert torch.equal(example.codes, ids[:, prompt:])
        assert torch.equal(example.labels, labels[:, prompt:])
        assert (labels[:, :prompt] == -100).all()
    assert any(not example.prompt_ids for example in examples), "a condition was dropped"
    assert any(example.prompt_frames for example in examples)


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kind", ["lora", "full"])
def test_twenty_steps_equal_upstreams(
    record: dict[str, Tensor], about: dict, clips: list[Clip], examples: list[Example], kind: str, checkpointing: bool
) -> None:
    settings = TrainSettings(
        method=kind,
        rank=about["rank"],
        alpha=about["alpha"],
        dropout=0.0,
        steps=about["steps"],
        learning_rate=about["rates"][kind],
        warmup=about["warmup"],
        weight_decay=about["decay"],
        max_grad_norm=about["clip"],
        gradient_checkpointing=checkpointing,
    )
    lm, text = tiny_model()
    model = TrainingModel(lm, text, settings, device=CPU, generator=torch.Generator())
    with torch.no_grad():
        for name, parameter in model.trained().items():
            if f"{kind}/initial/{name}" in record:
                parameter.copy_(record[f"{kind}/initial/{name}"])
    trainer = Trainer(model, Source(tuple(clips), tiny_tokenizer(), Masking(), 1024, 0), settings)
    per_step = about["per_step"]
    losses, norms = [], []
    for step in range(about["steps"]):
        loss, norm = trainer.learn(examples[step * per_step : (step + 1) * per_step])
        trainer.step_count += 1
        losses.append(loss)
        norms.append(norm)
    difference = torch.tensor(losses, dtype=torch.float64) - record[f"{kind}/losses"]
    assert float((difference / record[f"{kind}/losses"]).abs().max()) < 1e-6
    torch.testing.assert_close(torch.tensor(norms, dtype=torch.float64), record[f"{kind}/norms"], rtol=2e-5, atol=0)
    trained = model.trained()
    assert {f"{kind}/final/{name}" for name in trained} == {name for name in record if name.startswith(f"{kind}/final")}
    worst = max(
        float((parameter.detach().flatten()[:: about["every"]] - record[f"{kind}/final/{name}"]).abs().max())
        for name, parameter in trained.items()
    )
    assert worst < 1e-5
    assert losses[-1] < losses[0]
