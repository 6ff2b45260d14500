"""The training loop: steps, validations, samples, training states, metrics, and when to stop.

After each step the caller says whether to stop, so even a cancelled run leaves a complete training state. A full disk
ends the run too, once older training states have made what room they could. The caller also makes the samples: this
package cannot generate speech.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

import torch

from ..errors import FileError, InputError
from .run import Made, RunFolder
from .trainer import StepReport, Trainer
from .words import OnWords

_LOG = logging.getLogger("omnivoice_nodes")


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
    """Why a run ended: "finished" (all steps), "stopped" (by the caller), "no better" (patience), "fewer words"
    (stop_words_points) or "not saved": its files could not be written. fault: why a file could not be written, empty
    if all were."""

    reason: str
    step: int
    fault: str = ""


def train(
    trainer: Trainer,
    folder: RunFolder | None = None,
    *,
    on_step: OnStep | None = None,
    on_validation: OnValidation | None = None,
    on_sample: OnSample | None = None,
    on_words: OnWords | None = None,
) -> Outcome:
    """Train until all steps are done, the caller stops the run, a validation ends it, or its files cannot be written.

    The trainer holds the result. folder: for training states and metrics, written by the main process. on_words: used
    with stop_words_points, and then needed. Raises FileError if its disk is too full to begin.
    """
    settings, world = trainer.settings, trainer.world
    device, writes = trainer.model.device, folder if world.is_main else None
    faults = _Faults()
    if reason := _ended(trainer):
        return Outcome(reason, trainer.step_count)  # the run has already ended this way
    if writes and not trainer.finished:
        writes.check_space(trainer)
        writes.reserve(trainer)
    if settings.stop_words_points and not _first_words(trainer, writes, on_validation, on_words, faults):
        return Outcome("stopped", trainer.step_count, faults.first)
    reason = _ended(trainer) or "finished"
    while reason == "finished" and not trainer.finished:
        report = trainer.step()
        if writes:
            faults.of(partial(writes.log, _entry(trainer, report)))
        if _due(settings.validate_every, trainer) and trainer.validation and trainer.validation.clips:
            _validate(trainer, writes, on_validation, on_words, faults)
            reason = _ended(trainer) or "finished"
        if _due(settings.sample_every, trainer):
            _sample(trainer, on_sample, faults)
        if world.any(bool(on_step and on_step(report)), device):
            reason = "stopped"
        failed = world.any(bool(faults.first), device)
        ends = trainer.finished or failed or reason != "finished"
        # A skipped step changes no weight, and saving after each would push the earlier training states out.
        if ends or (_due(settings.save_every, trainer) and not report.skipped):
            if writes:
                faults.of(partial(writes.save, trainer))
            failed = world.any(bool(faults.first), device)
        if ends or failed:
            break
    if trainer.finished:
        reason = "finished" if reason == "stopped" else reason
    elif reason == "finished":
        reason = "not saved"
    return Outcome(reason, trainer.step_count, faults.first)


def _entry(trainer: Trainer, report: StepReport) -> dict[str, object]:
    """Return the line of metrics of a step."""
    entry = {name: value for name, value in asdict(report).items() if name != "steps"}
    return {**entry, "seconds": round(report.seconds, 4), "epoch": trainer.cursor.epoch}


class _Faults:
    """Keeps the first failure to write. It ends the run: going on would be for nothing if the end is not written."""

    def __init__(self) -> None:
        self.first = ""

    def of(self, write: Callable[[], Made]) -> Made | None:
        """Return `write()`, None after a FileError, which is kept and logged."""
        try:
            return write()
        except FileError as error:
            _LOG.warning("%s", error)
            self.first = self.first or str(error)
            return None


def _due(every: int, trainer: Trainer) -> bool:
    return every > 0 and (trainer.step_count % every == 0 or trainer.finished)


def _sample(trainer: Trainer, on_sample: OnSample | None, faults: _Faults) -> None:
    if on_sample and trainer.world.is_main:
        trainer.model.eval()
        faults.of(partial(on_sample, trainer.step_count))
    trainer.world.wait()  # the other processes wait for the sample


def _ended(trainer: Trainer) -> str:
    """Return why the validations so far end the run, as `Outcome` names it, or an empty text."""
    settings = trainer.settings
    if settings.stop_words_points and trainer.words.fallen(settings.stop_words_points):
        return "fewer words"
    return "no better" if settings.patience and trainer.stale >= settings.patience else ""


def _first_words(
    trainer: Trainer,
    folder: RunFolder | None,
    on_validation: OnValidation | None,
    on_words: OnWords | None,
    faults: _Faults,
) -> bool:
    """Count the words of the model as it is before training, or repeat an interrupted validation.

    Returns False if it was interrupted (again). Raises InputError in the main process without `on_words`.
    """
    if on_words is None and trainer.world.is_main:
        raise InputError("stop_words_points needs a recogniser that counts the words: name one, or set it to 0")
    if trainer.words.due:
        trainer.words.due = False
        _validate(trainer, folder, on_validation, on_words, faults)
        if folder and not trainer.words.due:
            faults.of(partial(folder.save, trainer))  # or a second resume would log this validation again
        return not trainer.words.due
    if math.isnan(trainer.words.best) and not trainer.finished:
        share = _count_words(trainer, on_words)
        if share is None:
            return False
        trainer.words.add(share)
        if folder:
            faults.of(partial(folder.log, {"step": trainer.step_count, "words_right": share}))
    return True


def _count_words(trainer: Trainer, on_words: OnWords | None) -> float | None:
    """Return what `on_words` does in the main process, in every process."""
    share: float | None = 0.0
    if on_words and trainer.world.is_main:
        trainer.model.eval()
        share = on_words(trainer.step_count)
    if trainer.world.size == 1:
        return share
    sent = torch.tensor([share or 0.0, float(share is None)], dtype=torch.float64).to(trainer.model.device)
    value, interrupted = trainer.world.sum(sent).tolist()
    return None if interrupted else value


def _validate(
    trainer: Trainer,
    folder: RunFolder | None,
    on_validation: OnValidation | None,
    on_words: OnWords | None,
    faults: _Faults,
) -> None:
    loss, points, entry = trainer.validate(), trainer.settings.stop_words_points, dict[str, object]()
    if points:
        share = _count_words(trainer, on_words)
        if share is None:
            trainer.words.due = True  # the resumed run repeats this validation
            return
        trainer.words.add(share)
        entry["words_right"] = share
    better = loss < trainer.best or (math.isfinite(loss) and trainer.words.kept_fallen(points))
    if better and not (points and trainer.words.fallen(points)):
        lost = folder is not None and not faults.of(partial(folder.save_best, trainer))
        if not trainer.world.any(lost, trainer.model.device):
            trainer.best, trainer.words.kept = loss, trainer.words.last
        trainer.stale = (
            0  # though the file may still hold the weights of the best before, which later ones then replace
        )
    else:
        trainer.stale += 1
    if folder:
        faults.of(partial(folder.log, {"step": trainer.step_count, "validation_loss": loss, **entry}))
    if on_validation:
        on_validation(trainer.step_count, loss)
