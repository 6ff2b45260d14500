"""Training does what it is for: four recordings are learnt by heart, and spoken by a model with the adapter alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from omnivoice.commands.dataset import load_dataset
from omnivoice.engine import Engine
from omnivoice.generate.codec import Codec
from omnivoice.ops import TORCH_OPS
from omnivoice.train.adapter import trained_lora
from omnivoice.train.build import build_trainer
from omnivoice.train.clips import Clip, Dataset
from omnivoice.train.settings import Masking, TrainSettings
from omnivoice.train.trainer import Trainer
from omnivoice.types import GenerationRequest, Sampling
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.export import export_checkpoint
from tests.unit.train.training_fixtures import CHECKPOINT, CPU, tiny_model, tiny_tokenizer

CLIPS = CHECKPOINT.parent / "training" / "clips"
SETTINGS = TrainSettings(
    rank=16,
    alpha=32,
    dropout=0,
    learning_rate=1e-2,
    steps=180,
    warmup=0.02,
    weight_decay=0,
    batch_size=4,
    validation=0,
    gradient_checkpointing=False,
    masking=Masking(drop_condition=0, prompt=(0, 0), language=1),
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    whole = load_dataset(CLIPS, model=CHECKPOINT, device=CPU, language="en", cache=tmp_path_factory.mktemp("codes"))
    assert whole.rows == len(whole.clips) == 8
    return Dataset(whole.clips[:4])


@pytest.fixture(scope="module")
def learnt(dataset: Dataset) -> Iterator[Trainer]:
    trainer = build_trainer(*tiny_model(), tiny_tokenizer(), dataset, SETTINGS, device=CPU)
    while not trainer.finished:
        trainer.step()
    yield trainer


def spoken_right(engine: Engine, clip: Clip) -> float:
    """Share of the clip's codes that the engine says, asked for its text."""
    request = GenerationRequest(
        clip.text,
        language="en",
        seed=1,
        duration=clip.seconds,
        sampling=Sampling(steps=16, guidance=0, position_temperature=0),
    )
    (codes,) = engine.generate([request])[0].codes
    return float((codes == clip.codes).float().mean())


def test_the_loss_falls_below_a_tenth(learnt: Trainer) -> None:
    assert sum(learnt.losses[-10:]) / 10 < learnt.losses[0] / 10


def test_the_adapter_speaks_what_was_learnt(dataset: Dataset, learnt: Trainer, tmp_path: Path) -> None:
    lora = trained_lora(learnt.model, "learnt")
    merged = export_checkpoint(locate_checkpoint(CHECKPOINT), tmp_path / "merged.safetensors", loras=[(lora, 1.0)])
    with_it, without = Engine.load(merged), Engine.load(CHECKPOINT)
    for clip in dataset.clips[:3]:
        assert spoken_right(with_it, clip) >= 0.95
        assert spoken_right(without, clip) < 0.05


def test_a_sample_speaks_with_the_model_in_training(dataset: Dataset, learnt: Trainer) -> None:
    """As samples during a run do, without any merging."""
    learnt.model.eval()
    codec = Codec.load(locate_checkpoint(CHECKPOINT), ops=TORCH_OPS, device=CPU)
    engine = Engine.around(learnt.model.lm, learnt.model.text, CPU, codec, tiny_tokenizer())
    assert spoken_right(engine, dataset.clips[0]) >= 0.95
    assert all(parameter.grad is None for parameter in learnt.trained.values())


def test_in_bfloat16_it_learns_too(dataset: Dataset) -> None:
    """A frozen base in bfloat16, pairs and moments in float32."""
    lm, text = tiny_model(torch.bfloat16)
    settings = TrainSettings(**{**SETTINGS.__dict__, "steps": 40})
    trainer = build_trainer(lm, text, tiny_tokenizer(), dataset, settings, device=CPU)
    while not trainer.finished:
        trainer.step()
    assert sum(trainer.losses[-5:]) / 5 < trainer.losses[0] / 2
    assert {p.dtype for p in trainer.trained.values()} == {torch.float32}
    frozen = {p.dtype for p in trainer.model.parameters() if not p.requires_grad and p.ndim == 2}
    assert frozen == {torch.bfloat16}
