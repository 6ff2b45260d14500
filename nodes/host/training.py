"""Training inside ComfyUI, from the two nodes' requests to the results: model, run folder, result files and report.

ComfyUI does not know how much memory training needs, so all other models are unloaded first. A run is resumed only if
its settings, clips and model are the same; a folder that holds another run is left untouched.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os.path import isfile  # unlike Path.is_file, it never raises
from pathlib import Path

import comfy.model_management as mm
import folder_paths
import torch
from torch import Tensor

from ...omnivoice.devices import DTYPES, dtype_name
from ...omnivoice.errors import FileError, InputError, NumericError
from ...omnivoice.intake.files import append_line
from ...omnivoice.intake.folders import make_folder
from ...omnivoice.intake.limits import shown
from ...omnivoice.train.adapter import trained_lora
from ...omnivoice.train.build import base_fingerprint, build_trainer
from ...omnivoice.train.clips import Dataset
from ...omnivoice.train.loop import Outcome
from ...omnivoice.train.results import consent_note, result_metadata, write_loras
from ...omnivoice.train.run import RunFolder, check_run, is_finished, lock_run, open_run
from ...omnivoice.train.trainer import Trainer
from ...omnivoice.weights.lora import LoRA, LowRank
from ...omnivoice.weights.lora_read import read_lora
from ...omnivoice.weights.lora_write import lora_tensors
from ..inputs.training import MAX_RUNS, TrainingOptions, TrainingRequest, check_run_name, request_from
from . import folders, models
from .lora import find_lora, lora_paths
from .training_model import private_copy, training_dtype, training_mode
from .training_run import TrainingRun
from .training_words import load_recogniser

FOLDER = "omnivoice_training"  # in output/
NO_LORA = "[None]"  # as core's Train LoRA calls it
KEPT = "cancelled.jsonl"  # one line per cancel after which the workflow continued
EVERYTHING = 1e30  # bytes, more than any device has
MAX_REJECTED_LINES = 20

_ENDS = {
    "finished": "finished",
    "stopped": "cancelled",
    "no better": "stopped, since validation did not improve,",
    "fewer words": "stopped, since right words were lost,",
    "not saved": "stopped, since its files could not be written,",
}
_STEPS_IN_NAME = re.compile(r"_(\d{1,9})_steps_")  # core's SaveLoRA names files so


@dataclass(frozen=True)
class Trained:
    """lora: for a LORA_MODEL socket. losses: for a LOSS_MAP. steps: of the LoRA, those of existing_lora included.
    report: several lines. warnings: what the user should know, one line each."""

    lora: dict[str, Tensor]
    losses: list[float]
    steps: int
    report: str
    warnings: tuple[str, ...]


def lora_names() -> list[str]:
    """Return the menu of LoRAs to start from."""
    return [NO_LORA, *lora_paths()]


def fingerprint(run_name: object, existing_lora: object) -> str:
    """Return a text that changes with the file of the existing LoRA, and after a cancel that kept its result.

    In the latter case ComfyUI's cache holds the unfinished result, and the next queue has to resume the run. The text
    stays the same when a run finishes.
    """
    root, kept = Path(folder_paths.get_output_directory()) / FOLDER, list[tuple[str, int]]()
    with contextlib.suppress(OSError, InputError):
        own = re.compile(re.escape(check_run_name(run_name)) + r"(-\d+)?")
        for name in sorted(os.listdir(root)):
            if own.fullmatch(name) and isfile(root / name / KEPT):
                kept.append((name, (root / name / KEPT).stat().st_size))
    return folders.fingerprint(_existing_path, existing_lora) + (repr(kept) if kept else "")


def train_lora(
    model: models.LoadedModel, data: Dataset, inputs: Mapping[str, object], options: TrainingOptions, node_id: object
) -> Trained:
    """Train as the widgets of Train LoRA and `options` ask for.

    Raises InputError, LoraError, FileError or NumericError, and ComfyUI's interrupt once the training state is saved.
    """
    request = request_from(inputs, options, data.seconds)
    settings, device = request.settings, model.lm.load_device
    with training_mode():
        lora, earlier_steps = _existing(model, request)
        consent = consent_note(request.consent, lora)
        whisper = load_recogniser(settings, options.recogniser)
        mm.throw_exception_if_processing_interrupted()
        mm.free_memory(EVERYTHING, device)
        place = torch.device("cpu") if settings.offloading else device
        lm = private_copy(model, training_dtype(settings.training_dtype, device), place)
        base = base_fingerprint(lm, lora)
        trainer = build_trainer(
            lm, model.engine.sampler.text, model.engine.tokenizer, data, settings, device=device, lora=lora
        )
        with _folder(request, data.fingerprint(), base) as (folder, notes):
            if folder is not None and folder.resume(trainer):
                notes.append(f"resumed: {folder.folder.name} was at step {trainer.step_count}")
            run = TrainingRun(model, trainer, folder, node_id, language=data.language, whisper=whisper)
            outcome = run.train(keep=options.keep)
            steps, dtype = earlier_steps + trainer.step_count, DTYPES[options.lora_dtype]
            tensors = lora_tensors(trained_lora(trainer.model, "the trained LoRA"), dtype)
            losses = losses_of(trainer)
            metadata = result_metadata(trainer, data, base, steps, consent=consent)
            files, faults = _write(folder, trainer, outcome, metadata, dtype)
    warnings = (*notes, *filter(None, [outcome.fault]), *faults, *run.faults)
    report = [*_report(data, request, trainer, outcome, run), *files, *warnings, *_rejected(data)]
    return Trained(tensors, losses, steps, "\n".join(report), warnings)


def _existing_path(name: object) -> Path | None:
    return None if name is None else find_lora(name, none=NO_LORA, input_name="existing_lora")


def _existing(model: models.LoadedModel, request: TrainingRequest) -> tuple[LoRA | None, int]:
    """Return the LoRA to start from, if any, and the number of steps in its name."""
    rank, path = request.settings.rank, _existing_path(request.existing_lora)
    if path is None:
        return None, 0
    lora = read_lora(path, model.engine.lm.config)
    ranks = {change.rank for change in lora.changes.values() if isinstance(change, LowRank)}
    if ranks != {rank}:
        found = ", ".join(map(str, sorted(ranks))) or "none"
        raise InputError(
            f"existing_lora {shown(path.name)} has rank {found}, this training {rank}: set rank to {found}"
        )
    steps = _STEPS_IN_NAME.search(path.name)
    return lora, int(steps.group(1)) if steps else 0


@contextlib.contextmanager
def _folder(request: TrainingRequest, data: str, base: str) -> Iterator[tuple[RunFolder | None, list[str]]]:
    """Yield the locked folder of the run, an unfinished one to resume or a new one, and notes; None without a run_name.

    Raises LockedError if another process trains the same run: a second one would only repeat its work.
    """
    name, settings = request.run_name, request.settings
    if not name:
        yield None, []
        return
    root, reason = make_folder(Path(folder_paths.get_output_directory()) / FOLDER), ""
    for number in range(1, MAX_RUNS + 1):
        folder = root / (name if number == 1 else f"{name}-{number}")
        folders.check_inside(folder, root, "run_name", folder.name)
        if is_finished(folder, settings):
            reason = reason or f"{folder.name} holds a finished run"
            continue
        try:
            check_run(folder, settings, data=data, base=base, resume=request.resume)
        except InputError as error:
            reason = reason or str(error).partition(": name another")[0]
            continue
        with lock_run(folder):
            opened = open_run(folder, settings, data=data, base=base, resume=request.resume)
            yield opened, [f"{reason}; this run is in {folder.name}"] if reason else []
        return
    raise InputError(f"there are {MAX_RUNS} runs named {shown(name)}: choose another run_name")


def losses_of(trainer: Trainer) -> list[float]:
    """Return the losses of the steps without those that were not finite, with at least two different values.

    Core's LossGraphNode divides by their range. If they are all equal, the loss of the next batch is added, measured
    without training on it; if that is equal too, its last bit is changed.
    """
    found = [loss for loss in trainer.losses if math.isfinite(loss)]
    if len(set(found)) < 2:
        found.append(trainer.next_loss())
        if not math.isfinite(found[-1]):
            raise NumericError("the loss is not finite: lower the learning rate, or train in fp32")
        if len(set(found)) < 2:
            found.append(math.nextafter(found[0], math.inf))
    return found


def _write(
    folder: RunFolder | None, trainer: Trainer, outcome: Outcome, metadata: Mapping[str, str], dtype: torch.dtype
) -> tuple[list[str], list[str]]:
    """Write the result files into the run's folder and return (lines of the report, faults)."""
    if folder is None:
        return ["no files were written, since run_name is empty"], []
    name = folder.folder.name
    lines = [f"folder: output/{FOLDER}/{name}"]
    try:
        for path in write_loras(trainer, folder, name, metadata, dtype):
            lines.append(f"written: {path.name}")
        if outcome.reason in ("stopped", "not saved"):
            append_line(folder.folder / KEPT, json.dumps({"step": outcome.step}))
    except FileError as error:
        if len(lines) == 1:
            return lines, [f"the LoRA could not be written, but the lora output holds it: {error}"]
        return lines, [str(error)]
    return lines, []


def _report(data: Dataset, request: TrainingRequest, trainer: Trainer, outcome: Outcome, run: TrainingRun) -> list[str]:
    steps, losses = trainer.settings.steps, [loss for loss in trainer.losses if math.isfinite(loss)]
    dtype = dtype_name(trainer.model.lm.get_dtype())
    lines = [
        data.summary(),
        *request.report(),
        f"{_ENDS[outcome.reason]} at step {outcome.step} of {steps}, in {dtype}, {run.pace.speed:,.0f} tokens/s",
    ]
    if losses:
        last = losses[-10:]
        lines.append(f"loss: first {losses[0]:.3f}, mean of the last {len(last)}: {sum(last) / len(last):.3f}")
    if math.isfinite(trainer.best):
        lines.append(f"best validation loss: {trainer.best:.3f}")
    return [*lines, *filter(None, [trainer.words.report(trainer.settings.stop_words_points)])]


def _rejected(data: Dataset) -> list[str]:
    lines = [f"not used: {row.name}: {row.reason}" for row in data.rejected[:MAX_REJECTED_LINES]]
    more = len(data.rejected) - len(lines)
    return lines + ([f"not used: {more} more; the report of the dataset names them"] if more > 0 else [])
