"""Training inside ComfyUI, from the widgets to the results: the model, the folder of the run, files, report.

What is unusual: all models make way first, since ComfyUI knows nothing of what training needs. A run is gone on with
only where settings, clips and model are the same; a folder that holds another run is left as it is. What is learnt,
and how, is the engine's.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import isfile  # unlike Path.is_file, it never raises
from pathlib import Path
from types import MappingProxyType

import comfy.model_management as mm
import folder_paths
import torch
from torch import Tensor

from ...omnivoice.errors import FileError, InputError, NumericError
from ...omnivoice.intake.files import append_line
from ...omnivoice.intake.folders import make_folder
from ...omnivoice.intake.limits import shown
from ...omnivoice.train.adapter import trained_lora
from ...omnivoice.train.build import base_fingerprint, build_trainer
from ...omnivoice.train.clips import Dataset
from ...omnivoice.train.loop import Outcome
from ...omnivoice.train.run import RunFolder, holds_run, is_finished, open_run
from ...omnivoice.train.settings import TrainSettings
from ...omnivoice.train.trainer import Trainer
from ...omnivoice.weights.lora import LoRA, LowRank
from ...omnivoice.weights.lora_read import read_lora
from ...omnivoice.weights.lora_write import lora_tensors, write_lora
from ..inputs.training import CUSTOM, MAX_RUNS, Options, check_run_name, options_of, settings_of
from . import models
from .lora import lora_fingerprint, lora_paths
from .training_model import private_copy, training_dtype, training_mode
from .training_run import TrainingRun

FOLDER = "omnivoice_training"  # in output/
NO_LORA = "[None]"  # as core's Train LoRA calls it
KEPT = "cancelled.jsonl"  # a line for each cancel after which the workflow went on
EVERYTHING = 1e30  # bytes, more than any device has
TOLD_REJECTED = 20

_DTYPE_NAMES = MappingProxyType({dtype: name for name, dtype in models.DTYPES.items()})
_STEPS_IN_NAME = re.compile(r"_(\d{1,9})_steps_")  # core's SaveLoRA names files so


@dataclass(frozen=True)
class Trained:
    """lora: for a LORA_MODEL socket. losses: for a LOSS_MAP. steps: those of the adapter that it began with included.
    report: several lines. warnings: what the user should look at."""

    lora: dict[str, Tensor]
    losses: list[float]
    steps: int
    report: str
    warnings: tuple[str, ...]


def lora_names() -> list[str]:
    """The menu of adapters to begin with."""
    return [NO_LORA, *lora_paths()]


def fingerprint(run_name: object, existing_lora: object) -> str:
    """Changes when the adapter's file does, and when a run of that name was cancelled and its result kept: what
    ComfyUI then has in its cache is a part, to be gone on with. It stays as it is when a run ends."""
    root, kept = Path(folder_paths.get_output_directory()) / FOLDER, list[tuple[str, int]]()
    with contextlib.suppress(OSError, InputError):
        own = re.compile(re.escape(check_run_name(run_name)) + r"(-\d+)?")
        for name in sorted(os.listdir(root)):
            if own.fullmatch(name) and isfile(root / name / KEPT):
                kept.append((name, (root / name / KEPT).stat().st_size))
    return lora_fingerprint(existing_lora) + (repr(kept) if kept else "")


def train_lora(model: models.LoadedModel, data: Dataset, inputs: Mapping[str, object], node_id: object) -> Trained:
    """Train as the widgets say. Raises InputError for what cannot work, LoraError, FileError, NumericError, and
    ComfyUI's interrupt, after which the run's folder holds the state."""
    options = options_of(inputs)
    settings, warnings = settings_of(inputs, data.seconds)
    device = model.lm.load_device
    with training_mode():
        begin, before = _existing(model, options, settings)
        mm.throw_exception_if_processing_interrupted()
        mm.free_memory(EVERYTHING, device)
        place = torch.device("cpu") if settings.offloading else device
        lm = private_copy(model, training_dtype(settings.training_dtype, device), place)
        base = base_fingerprint(lm, begin)
        trainer = build_trainer(
            lm, model.engine.sampler.text, model.engine.tokenizer, data, settings, device=device, lora=begin
        )
        folder, notes = _folder(options, settings, data.fingerprint(), base)
        if folder is not None and folder.resume(trainer):
            notes.append(f"continued: {folder.folder.name} was at step {trainer.step_count}")
        language = Counter(clip.language for clip in data.clips).most_common(1)[0][0]
        run = TrainingRun(model, trainer, folder, node_id, language=language)
        outcome = run.train(keep=options.keep)
        steps = before + trainer.step_count
        tensors, losses = lora_tensors(_lora(trainer), models.DTYPES[options.lora_dtype]), losses_of(trainer)
        about = {"base": base, "data": data.summary(), "settings": _settings_text(settings), "steps": str(steps)}
        written, faults = _write(folder, trainer, outcome, about, models.DTYPES[options.lora_dtype])
    warnings += [*notes, *faults, *run.faults]
    report = [*_report(data, options, trainer, outcome, run), *written, *warnings, *_rejected(data)]
    return Trained(tensors, losses, steps, "\n".join(report), tuple(warnings))


def _existing(model: models.LoadedModel, options: Options, settings: TrainSettings) -> tuple[LoRA | None, int]:
    """The adapter to begin with, if any, and the steps that its name tells of."""
    name = options.existing_lora
    if name is None or name == NO_LORA:
        return None, 0
    paths = lora_paths()
    if not isinstance(name, str) or name not in paths:
        raise InputError(f"existing_lora must be {NO_LORA} or one of models/loras, got {shown(name)}: press R")
    lora = read_lora(paths[name], model.engine.lm.config)
    ranks = {change.rank for change in lora.changes.values() if isinstance(change, LowRank)}
    if ranks != {settings.rank}:
        there = ", ".join(map(str, sorted(ranks))) or "none"
        raise InputError(
            f"existing_lora {shown(name)} has rank {there}, this training {settings.rank}: set preset to {CUSTOM} and "
            "rank to the adapter's"
        )
    found = _STEPS_IN_NAME.search(name)
    return lora, int(found.group(1)) if found else 0


def _folder(options: Options, settings: TrainSettings, data: str, base: str) -> tuple[RunFolder | None, list[str]]:
    """The folder of a run to go on with, or a new one, and what is to be told about it; None without a name."""
    if not options.run_name:
        return None, []
    root, reason = make_folder(Path(folder_paths.get_output_directory()) / FOLDER), ""
    for number in range(1, MAX_RUNS + 1):
        folder = root / (options.run_name if number == 1 else f"{options.run_name}-{number}")
        if holds_run(folder) and is_finished(folder, settings):
            reason = reason or f"{folder.name} holds a finished run"
            continue
        try:
            opened = open_run(folder, settings, data=data, base=base, resume=options.resume)
        except InputError as error:
            reason = reason or str(error).partition(": name another")[0]
            continue
        return opened, [f"{reason}; this one is in {folder.name}"] if reason else []
    raise InputError(f"there are {MAX_RUNS} runs named {shown(options.run_name)}: choose another run_name")


def losses_of(trainer: Trainer) -> list[float]:
    """The losses of the steps, but for those that were not finite. At least two different ones, since core's
    LossGraphNode divides by their range: if need be, one more is measured, of what would have come next, without
    learning. Only where that is equal to the last bit, that bit is changed."""
    found = [loss for loss in trainer.losses if math.isfinite(loss)]
    if len(set(found)) < 2:
        found.append(trainer.next_loss())
        if not math.isfinite(found[-1]):
            raise NumericError("the loss is not finite: lower the learning rate, or train in fp32")
        if len(set(found)) < 2:
            found.append(math.nextafter(found[0], math.inf))
    return found


def _lora(trainer: Trainer, weights: Mapping[str, Tensor] | None = None) -> LoRA:
    return trained_lora(trainer.model, "the trained LoRA", weights=weights)


def _write(
    folder: RunFolder | None, trainer: Trainer, outcome: Outcome, about: Mapping[str, str], dtype: torch.dtype
) -> tuple[list[str], list[str]]:
    """The LoRA, and the best if there were validations, as files of the run's folder: (lines of the report, faults)."""
    if folder is None:
        return ["nothing was written, as run_name is empty"], []
    name = folder.folder.name
    lines, faults = [f"folder: output/{FOLDER}/{name}"], []
    try:
        if outcome.reason == "stopped":
            append_line(folder.folder / KEPT, json.dumps({"step": outcome.step}))
        path = write_lora(
            folder.folder / f"{name}.safetensors", _lora(trainer), {**about, "name": name}, dtype=dtype, overwrite=True
        )
        lines.append(f"written: {path.name}")
        best = folder.best()
        if best is not None:
            weights, step = best
            path = write_lora(
                folder.folder / f"{name}-best.safetensors",
                _lora(trainer, weights),
                {**about, "name": f"{name}-best"},
                dtype=dtype,
                overwrite=True,
            )
            lines.append(f"written: {path.name}, of step {step}")
    except FileError as error:
        faults.append(f"the LoRA could not be written, the output still holds it: {error}")
    return lines, faults


def _settings_text(settings: TrainSettings) -> str:
    """For the file's metadata: without the text of the samples, which may be private."""
    return json.dumps({name: value for name, value in settings.as_table().items() if name != "sample_text"})


def _report(data: Dataset, options: Options, trainer: Trainer, outcome: Outcome, run: TrainingRun) -> list[str]:
    settings, losses = trainer.settings, [loss for loss in trainer.losses if math.isfinite(loss)]
    ended = {"finished": "finished", "stopped": "cancelled", "no better": "stopped, as validation was no better"}
    lines = [
        data.summary(),
        f"preset {options.preset}: {settings.steps} steps, rank {settings.rank}, alpha {settings.alpha:g}, learning "
        f"rate {settings.learning_rate:g}, {settings.optimizer}, {_DTYPE_NAMES[trainer.model.lm.get_dtype()]}",
        f"{ended[outcome.reason]} at step {outcome.step} of {settings.steps}, {run.speed:,.0f} tokens/s",
    ]
    if losses:
        last = losses[-10:]
        lines.append(f"loss: first {losses[0]:.3f}, mean of the last {len(last)}: {sum(last) / len(last):.3f}")
    if math.isfinite(trainer.best):
        lines.append(f"validation loss: best {trainer.best:.3f}")
    return lines


def _rejected(data: Dataset) -> list[str]:
    lines = [f"not used: {row.name}: {row.reason}" for row in data.rejected[:TOLD_REJECTED]]
    more = len(data.rejected) - TOLD_REJECTED
    return lines + ([f"not used: {more} more, see the report of the dataset"] if more > 0 else [])
