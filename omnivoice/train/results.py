"""The files that a LoRA run leaves for its user: NAME.safetensors and NAME-best.safetensors, with their metadata.

The training node and the command line both write their results here. A full fine-tune is a model folder instead; the
command line exports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import torch

from ..errors import InputError
from ..intake.limits import MAX_CONSENT_CHARS, shown
from ..intake.paths import check_file_name
from ..intake.voice_files import clean_label
from ..weights.lora import LoRA
from ..weights.lora_write import checked_metadata, write_lora
from .adapter import trained_lora
from .clips import Dataset
from .run import RunFolder
from .trainer import Trainer

BEST = "-best"
_RUN_FILES = re.compile(r"best|state-\d{8}", re.IGNORECASE)  # the files that `RunFolder` writes


def check_result_name(name: str, *, suffix: str = "") -> str:
    """Return `name`, in Unicode form NFC, if result files may have it; raises InputError.

    suffix: the longest text that the caller may append to it.
    """
    if _RUN_FILES.fullmatch(name):
        raise InputError(f"name {shown(name)} is taken by a file of the run: choose another name")
    checked = check_file_name(name)
    check_file_name(f"{name}{suffix}{BEST}.safetensors")
    checked_metadata({"name": checked})
    return checked


def consent_note(own: object, lora: LoRA | None) -> str:
    """Return the note of consent for the result files: `own`, or if it is empty that of the LoRA to start from.

    It is checked now, not after hours of training. Raises TextError for a note that is no text or too long, InputError
    for one that holds a path or a token.
    """
    note = clean_label(own, "consent", MAX_CONSENT_CHARS)
    if not note and lora is not None:
        try:
            return checked_metadata({"consent": lora.consent})["consent"]
        except InputError as error:
            raise InputError(
                f"the note of consent of {lora.source} cannot be kept: {error}; write a note yourself, in consent"
            ) from None
    return checked_metadata({"consent": note})["consent"]


def result_metadata(trainer: Trainer, dataset: Dataset, base: str, steps: int, *, consent: str = "") -> dict[str, str]:
    """Return the metadata of the result files. base: fingerprint of the base model. steps: all steps of the LoRA.
    consent: see `consent_note`.

    The text of the samples is left out, since it may be private and result files are shared.
    """
    settings = {name: value for name, value in trainer.settings.as_table().items() if name != "sample_text"}
    about = {"base": base[:16], "data": dataset.summary(), "settings": json.dumps(settings), "steps": str(steps)}
    return {**about, "consent": consent} if consent else about


def write_loras(
    trainer: Trainer, folder: RunFolder, name: str, metadata: Mapping[str, str], dtype: torch.dtype = torch.float32
) -> Iterator[Path]:
    """Write the LoRA, and the LoRA of the lowest validation loss if there is one; yield each path once it is written.

    metadata: see `result_metadata`. Files of an earlier call are replaced. If the disk is full, the reserve and older
    training states make room. Raises FileError or LoraError.
    """
    folder.release()
    path, about = folder.folder / f"{name}.safetensors", {**metadata, "name": name}
    lora = trained_lora(trainer.model, name)
    yield folder.with_room(partial(write_lora, path, lora, about, dtype=dtype, overwrite=True))
    if best := folder.best():
        title, steps = f"{name}{BEST}", int(metadata["steps"]) - trainer.step_count + best[1]
        path, about = folder.folder / f"{title}.safetensors", {**metadata, "name": title, "steps": str(steps)}
        lora = trained_lora(trainer.model, name, weights=best[0])
        yield folder.with_room(partial(write_lora, path, lora, about, dtype=dtype, overwrite=True))
