"""What the tests of training share: the tiny model ready to be trained, and clips of random codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from omnivoice.lm import OmniVoiceLM, TextEmbedding
from omnivoice.ops import PLAIN_OPS
from omnivoice.text.tokenizer import TextTokenizer
from omnivoice.train.batches import Source
from omnivoice.train.clips import Clip
from omnivoice.train.model import TrainingModel
from omnivoice.train.settings import TrainSettings
from omnivoice.train.trainer import Trainer
from omnivoice.train.world import SINGLE, World
from omnivoice.weights import load_lm, locate_checkpoint

CHECKPOINT = Path(__file__).resolve().parents[2] / "assets" / "checkpoint"
CPU = torch.device("cpu")
SMALL = TrainSettings(
    steps=6,
    rank=2,
    alpha=4,
    dropout=0.1,
    learning_rate=1e-3,
    batch_tokens=128,
    validation=0.25,
    save_every=2,
    gradient_checkpointing=False,
)
# The fewest weights, for tests of the files of a run and not of what is learnt.
FEW_WEIGHTS: dict[str, object] = {"audio_modules": "frozen", "targets": ("o_proj",)}


def tiny_tokenizer() -> TextTokenizer:
    return TextTokenizer.from_json((CHECKPOINT / "tokenizer.json").read_bytes())


def tiny_model(dtype: torch.dtype = torch.float32) -> tuple[OmniVoiceLM, TextEmbedding]:
    """The tiny checkpoint's language model, unfused."""
    files = locate_checkpoint(CHECKPOINT)
    return load_lm(
        files.lm_config,
        files.lm_weights,
        ops=PLAIN_OPS,
        device=CPU,
        dtype=dtype,
        used_ids=tiny_tokenizer().used_ids,
        fused=False,
    )


def random_clips(count: int = 6, seed: int = 1) -> tuple[Clip, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        Clip(
            f"clip {i}",
            torch.randint(0, 1024, (8, 12 + 4 * i), generator=generator).to(torch.int16),
            f"This is sentence number {i}.",
            "en" if i % 2 else None,
        )
        for i in range(count)
    )


def tiny_trainer(
    settings: TrainSettings = SMALL, *, world: World = SINGLE, dtype: torch.dtype = torch.float32, **changes: object
) -> Trainer:
    settings = replace(settings, **changes)
    lm, text = tiny_model(dtype)
    generator = torch.Generator().manual_seed(settings.seed)
    model = TrainingModel(lm, text, settings, device=CPU, generator=generator)
    tokenizer, mask = tiny_tokenizer(), lm.config.audio_mask_id
    first, second = (
        Source(clips, tokenizer, settings.masking, mask, settings.seed)
        for clips in (random_clips(), random_clips(2, 9))
    )
    return Trainer(model, first, settings, validation=second, world=world)
