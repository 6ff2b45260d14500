"""The loop around a trainer: validations, samples, states, metrics, and when to stop.

Unusual: whoever runs it is asked after each step whether to stop, so that every way of stopping, cancelling too,
leaves a whole state behind. What a sample is, the caller knows: nothing here can speak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from .run import RunFolder
from .trainer import StepReport, Trainer


class OnStep(Protocol):
    """Called in every process after each step; True: stop after this one."""

    def __call__(self, report: StepReport, /) -> bool: ...


class OnValidation(Protocol):
    """Called with the number of the step and the validation loss."""

    def __call__(self, step: int, loss: float, /) -> None: ...


class OnSample(Protocol):
    """Called in the leading process with the number of the step, when a sample is due."""

    def __call__(self, step: int, /) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """Why it ended: "finished" (all steps), "stopped" (asked to), "no better" (patience)."""

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
    """Run until all steps are done or something says stop; the trainer holds the result.

    folder: where states and metrics go, if anywhere; of use in the leading process alone. Raises FileError if its disk
    has no room for them, before the first step.
    """
    settings, world = trainer.settings, trainer.world
    writes = folder if world.is_main else None
    reason = "finished"
    if settings.patience and trainer.stale >= settings.patience:
        return Outcome("no better", trainer.step_count)  # a run that had ended so is gone on with
    if writes and not trainer.finished:
        writes.check_space(trainer)
    while not trainer.finished:
        report = trainer.step()
        if writes:
            writes.log(_entry(trainer, report))
        if _due(settings.validate_every, trainer) and trainer.validation and trainer.validation.clips:
            _validate(trainer, writes, on_validation)
            if settings.patience and trainer.stale >= settings.patience:
                reason = "no better"
        if _due(settings.sample_every, trainer):
            if on_sample and world.is_main:
                trainer.model.eval()
                on_sample(report.step)
            world.wait()  # all of them, whoever was given something to speak with
        asked = bool(on_step and on_step(report))
        if float(world.sum(torch.tensor(float(asked), device=trainer.model.device))):
            reason = "stopped" if not trainer.finished else "finished"
        ends = trainer.finished or reason != "finished"
        # While steps are skipped nothing is learnt, and the states from before would be pushed out.
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


def _entry(trainer: Trainer, report: StepReport) -> dict[str, object]:
    return {
        "step": report.step,
        "loss": report.loss,
        "learning_rate": report.learning_rate,
        "grad_norm": report.grad_norm,
        "tokens": report.tokens,
        "seconds": round(report.seconds, 4),
        "epoch": trainer.cursor.epoch,
        "skipped": report.skipped,
    }
