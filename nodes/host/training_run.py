"""A training run inside ComfyUI: progress bar, progress text, samples and cancel.

ComfyUI's progress bar raises when the user cancels. This is caught, so that the engine's loop can stop and write the
training state first; the interrupt is raised again afterwards.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial

import comfy.model_management as mm
import comfy.utils
from torch.cuda import OutOfMemoryError

from ...omnivoice.engine import Engine
from ...omnivoice.errors import DiskFullError, OmniVoiceError
from ...omnivoice.intake.audio_files import write_wav
from ...omnivoice.intake.cancel import cancelled_by
from ...omnivoice.intake.folders import make_folder
from ...omnivoice.productions.right_words import word_test
from ...omnivoice.train.loop import Outcome, train
from ...omnivoice.train.run import RunFolder
from ...omnivoice.train.trainer import Pace, StepReport, Trainer
from ...omnivoice.types import GenerationRequest, Waveform
from . import models, progress
from .training_words import Listener
from .transcribe import Whisper

SAMPLES = "samples"  # in the run's folder

_LOG = logging.getLogger("omnivoice_nodes")


class TrainingRun:
    """A trainer with ComfyUI's progress and cancel. language: of the samples. whisper: counts the words for
    stop_words_points. faults: problems that did not end the run. Raises InputError for clips that cannot be spoken or
    heard."""

    def __init__(
        self,
        model: models.LoadedModel,
        trainer: Trainer,
        folder: RunFolder | None,
        node_id: object,
        *,
        language: str | None,
        whisper: Whisper | None = None,
    ) -> None:
        self.model, self.trainer, self.folder, self.node_id, self.language = model, trainer, folder, node_id, language
        self.bar = comfy.utils.ProgressBar(trainer.settings.steps)
        self.pace = Pace()
        self.faults: list[str] = []
        self._validated, self._text, self._cancelled = math.nan, progress.ProgressText(node_id), False
        self._right, self.listener = math.nan, None if whisper is None else self._listener(whisper)

    def train(self, *, keep: bool) -> Outcome:
        """Train until the run ends or is cancelled.

        A cancel raises ComfyUI's interrupt once the training state is written; with `keep` it ends only the training.
        """
        on_sample = self._sample if self.folder is not None else None
        with cancelled_by(None):  # the engine's loop ends a step, and writes the state, before it stops
            outcome = train(
                self.trainer,
                self.folder,
                on_step=self._step,
                on_validation=self._validation,
                on_sample=on_sample,
                on_words=self._words if self.listener else None,
            )
        if self._cancelled or mm.processing_interrupted():
            mm.interrupt_current_processing(not keep)
            mm.throw_exception_if_processing_interrupted()
        return outcome

    def _step(self, report: StepReport) -> bool:
        line = self.pace.line(report, self._validated, self._right)
        try:
            mm.throw_exception_if_processing_interrupted()
            self.bar.update_absolute(report.step, report.steps)
        except mm.InterruptProcessingException:
            self._cancelled = True
        self._text.update(line, now=self._cancelled or report.step >= report.steps)
        return self._cancelled

    def _validation(self, step: int, loss: float) -> None:
        self._validated = loss

    def _sample(self, step: int) -> None:
        """Speak the sample text with the current weights, always with the same seed."""
        assert self.folder is not None
        settings = self.trainer.settings
        request = GenerationRequest(text=settings.sample_text, seed=settings.seed, language=self.language)
        try:
            (waveform,) = self._speak([request])
            path = make_folder(self.folder.folder / SAMPLES) / f"step-{step:08d}.wav"
            self.folder.with_room(partial(write_wav, path, waveform))
        except mm.InterruptProcessingException:
            self._cancelled = True
        except DiskFullError:
            raise  # ends the run
        except OmniVoiceError as error:
            self.faults = [f"no sample was written at step {step}: {error}"]
            _LOG.warning("%s", self.faults[0])

    def _listener(self, whisper: Whisper) -> Listener:
        clips = self.trainer.validation.clips if self.trainer.validation else ()
        test = word_test(clips, self.trainer.settings.seed)
        self._engine().plan(test.requests)  # refuses a text that cannot be spoken now, not in the middle of the run
        return Listener(whisper, test)

    def _words(self, step: int) -> float | None:
        """Speak the texts of the validation clips with the current weights and return the share of right words."""
        assert self.listener is not None
        try:
            self._right = self.listener.share(self._speak(self.listener.test.requests))
        except mm.InterruptProcessingException:
            self._cancelled = True
            return None
        except (OmniVoiceError, OutOfMemoryError) as error:
            self._right = math.nan
            self.faults = [f"the words were not counted at step {step}: {error}"]
            _LOG.warning("%s", self.faults[0])
        return self._right

    def _engine(self) -> Engine:
        """Return an engine that speaks with the weights in training."""
        model, base = self.trainer.model, self.model.engine
        device = base.sampler.device
        return Engine.around(model.lm, model.text, device, base.codec, base.tokenizer, base.words, base.settings)

    def _speak(self, requests: Sequence[GenerationRequest]) -> list[Waveform]:
        with cancelled_by(mm.throw_exception_if_processing_interrupted):
            engine = self._engine()
            plans = engine.plan(requests)
            mm.load_models_gpu([self.model.decoder], memory_required=engine.estimate_bytes(plans))
            return [speech.waveform for speech in engine.generate_plans(plans, on_step=_stop_if_cancelled)]


def _stop_if_cancelled(done: int, total: int) -> None:
    mm.throw_exception_if_processing_interrupted()
