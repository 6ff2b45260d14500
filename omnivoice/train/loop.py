"""The training loop: steps, validations, samples, training states, metrics, and when to stop.

After each step the caller says whether to stop, so even a cancelled run leaves a complete training state. The caller
also makes the samples: this package cannot generate speech.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

import torch

from .run import RunFolder
from .trainer import StepReport, Trainer


class OnStep(Protocol):
    """Called in every process after each step; returns True to stop."""

    def __call__(self, report: StepReport, /) -> bool: ...


class OnValidation(Protocol):
    """Called with the step and the validation loss."""

    def __call__(self, step: int, loss: float, /) -> None: ...


class OnSample(Protocol):
    """Called in the main process with the step when a sample is due."""

    def __call__(self, step: int, /) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """Why a run ended: "finished" (all steps), "stopped" (by the caller) or "no better" (patience)."""

    reason: str
    step: int


def train(
    trainer: Trainer,
    folder: RunFolder | None = None,
    *,
    on_step: OnStep | None = None,
    on_validation: OnValidation | None = None,
    on_sample: OnSample | None = None,
) -> Outcome:
    """Train until all steps are done, the caller stops the run or patience ends it; the trainer holds the result.

    folder: for training states and metrics, written by the main process. Raises FileError if its disk is too full.
    """
    settings, world, reason = trainer.settings, trainer.world, "finished"
    writes = folder if world.is_main else None
    if settings.patience and trainer.stale >= settings.patience:
        return Outcome("no better", trainer.step_count)  # the run has already ended this way
    if writes and not trainer.finished:
        writes.check_space(trainer)
    while not trainer.finished:
        report = trainer.step()
        if writes:
            entry = {name: value for name, value in asdict(report).items() if name != "steps"}
            writes.log({**entry, "seconds": round(report.seconds, 4), "epoch": trainer.cursor.epoch})
        if _due(settings.validate_every, trainer) and trainer.validation and trainer.validation.clips:
            _validate(trainer, writes, on_validation)
            if settings.patience and trainer.stale >= settings.patience:
                reason = "no better"
        if _due(settings.sample_every, trainer):
            if on_sample and world.is_main:
                trainer.model.eval()
                on_sample(report.step)
            world.wait()  # the other processes wait for the sample
        asked = bool(on_step and on_step(report))
        if float(world.sum(torch.tensor(float(asked), device=trainer.model.device))):
            reason = "stopped" if not trainer.finished else "finished"
        ends = trainer.finished or reason != "finished"
        # A skipped step changes no weight, and saving after each would push the earlier training states out.
        if writes and (ends or (_due(settings.save_every, trainer) and not report.skipped)):
            writes.save(trainer)
        if ends:
            break
    return Outcome(reason, trainer.step_count)


def _due(every: int, trainer: Trainer) -> bool:
    return every > 0 and (trainer.step_count % every == 0 or trainer.finished)


def _validate(trainer: Trainer, folder: RunFolder | None, on_validation: OnValidation | None) -> None:
    loss = trainer.validate()
    if loss < trainer.best:
        trainer.best, trainer.stale = loss, 0
        if folder:
            folder.save_best(trainer)
    else:
        trainer.stale += 1
    if folder:
        folder.log({"step": trainer.step_count, "validation_loss": loss})
    if on_validation:
        on_validation(trainer.step_count, loss)
