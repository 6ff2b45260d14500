"""Builds a trainer from a model, a dataset and settings, for the command line and for ComfyUI.

The trainer replaces the model's layers, so load an unfused model for it alone. Nothing here reads a file.
"""

from __future__ import annotations

import hashlib
import logging

import torch

from ..errors import InputError
from ..intake.limits import MAX_TENSORS_BYTES, MIB, shown_size
from ..lm import OmniVoiceLM, TextEmbedding
from ..text.tokenizer import TextTokenizer
from ..weights.lora import LoRA, LowRank, lora_targets
from .adapter import start_from_lora
from .batches import Source
from .clips import Dataset
from .masking import generators
from .model import TrainingModel
from .settings import TrainSettings
from .trainer import Trainer
from .world import SINGLE, World

_LOG = logging.getLogger("omnivoice_nodes")


def build_trainer(
    lm: OmniVoiceLM,
    text: TextEmbedding,
    tokenizer: TextTokenizer,
    dataset: Dataset,
    settings: TrainSettings,
    *,
    device: torch.device,
    world: World = SINGLE,
    lora: LoRA | None = None,
) -> Trainer:
    """Return a trainer at step 0.

    lm: unfused, on the CPU or the device; its layers are replaced. lora: a LoRA to start from. Raises InputError for a
    dataset, and LoraError for a LoRA, that does not fit the model.
    """
    _check_dataset(dataset, lm)
    if settings.offloading and world.size > 1:  # DistributedDataParallel takes no model on two kinds of devices
        raise InputError("offloading works in a single process only: switch it off, or train without torchrun")
    _check_size(lm, settings)
    _, generator = generators(settings.seed, "pairs")  # the word is part of the seed
    with torch.inference_mode(False):
        model = TrainingModel(lm, text, settings, device=device, generator=generator)
        if lora is not None:
            start_from_lora(model, lora, settings)
        training, held = dataset.split(settings.validation, settings.seed)
        for name in ("patience", "stop_words_points"):
            if getattr(settings, name) and not held:
                raise InputError(
                    f"{name} needs validation clips, but {settings.validation:g} of {len(training)} clips is less than "
                    f"one: raise validation, or set {name} to 0"
                )
        if settings.validation and settings.validate_every and not held and world.is_main:
            _LOG.warning("no validation: %g of %d clips is less than one", settings.validation, len(training))
        mask_id, seed = lm.config.audio_mask_id, settings.seed
        sources = [Source(clips, tokenizer, settings.masking, mask_id, seed) for clips in (training, held)]
        return Trainer(model, sources[0], settings, validation=sources[1], world=world)


def _check_size(lm: OmniVoiceLM, settings: TrainSettings) -> None:
    """Raise InputError, before any step, for a LoRA whose file would be too large to read."""
    values = 0
    for name, (out, into) in lora_targets(lm.config).items():
        part = name.rpartition(".")[2]
        if part in settings.lora_parts:
            values += settings.rank * (out + into)
        elif part in settings.full_parts:
            values += out * into
    if values * 4 > MAX_TENSORS_BYTES - MIB:
        raise InputError(
            f"a LoRA of rank {settings.rank} would take {shown_size(4 * values)}, at most "
            f"{shown_size(MAX_TENSORS_BYTES)} are allowed: lower the rank, or train fewer targets"
        )


def _check_dataset(dataset: Dataset, lm: OmniVoiceLM) -> None:
    """Raise InputError for a dataset without clips, or with codes that are not this model's."""
    if not dataset.clips:
        raise InputError("the dataset has no usable clip: see its report")
    codebooks, mask_id = lm.config.codebooks, lm.config.audio_mask_id
    for clip in dataset.clips:
        K, T = clip.codes.shape
        if codebooks != K or T < 1 or int(clip.codes.min()) < 0 or int(clip.codes.max()) >= mask_id:
            raise InputError(
                f"the codes of {clip.name} do not belong to this model ({K} codebooks, the model has {codebooks}): "
                "make the dataset with the model that you train"
            )


def base_fingerprint(lm: OmniVoiceLM, lora: LoRA | None = None) -> str:
    """Return a hash that identifies what training starts from: config, dtype, the first and last row of every weight,
    and the LoRA to start from."""
    digest = hashlib.sha256(repr((lm.config, lm.get_dtype())).encode())
    found = {name: parameter.detach()[[0, -1]] for name, parameter in lm.named_parameters()}
    if lora is not None:
        for name, change in lora.changes.items():
            parts = (change.down, change.up * change.scale) if isinstance(change, LowRank) else (change.values,)
            found |= {f"{name} {part}": tensor for part, tensor in enumerate(parts)}
    for name, tensor in sorted(found.items()):
        digest.update(name.encode())
        digest.update(tensor.to("cpu", torch.float32).contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
