"""Optimizer steps and validations of one model, and the training state to resume from.

No generator is part of the state: data, masks and dropout are drawn from the seed and the number of the step, epoch or
clip, and torch's global generators are restored after each step. The training state is the weights, the optimizer's
moments, a cursor into the data and the losses. A resumed run is bit-equal to an uninterrupted one (on a CPU with the
same number of threads). `run` reads and writes the files.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..devices import TRAIN_WITH_LESS, device_errors_in_words
from ..errors import CheckpointError, InputError, NumericError
from .batches import Cursor, Source, label_counts, split_evenly
from .masking import IGNORED, Example, generators
from .model import TrainingModel
from .settings import TrainSettings
from .words import Words
from .world import SINGLE, World

MAX_SKIPPED = 5  # steps in a row without a finite loss


@dataclass(frozen=True)
class StepReport:
    """What one step did. step: steps done, including this one. tokens: text tokens and frames. seconds: duration of
    this step. skipped: the loss or the gradient was not finite, so no weight was changed."""

    step: int
    steps: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float
    skipped: bool


def clock(seconds: int) -> str:
    """Return h:mm:ss, or m:ss below an hour."""
    minutes = f"{seconds // 3600}:{seconds // 60 % 60:02d}" if seconds >= 3600 else f"{seconds // 60}"
    return f"{minutes}:{seconds % 60:02d}"


@dataclass
class Pace:
    """Counts the steps of this process, without those before a resume, for its speed and the time left."""

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def line(self, report: StepReport, validation: float = math.nan, words: float = math.nan) -> str:
        """Count a step and return its progress as text. validation, words: the latest loss and share of right words,
        NaN for none."""
        self.steps += 1
        self.tokens += report.tokens
        self.seconds += report.seconds
        left = round((report.steps - report.step) * self.seconds / self.steps)
        losses = f"loss {report.loss:.3f}{', skipped' if report.skipped else ''}"
        losses += f", validation {validation:.3f}" if math.isfinite(validation) else ""
        losses += f", right words {words:.1%}" if math.isfinite(words) else ""
        speed = f"lr {report.learning_rate:.1e}, {self.speed:,.0f} tokens/s, {clock(left)} left"
        return f"step {report.step}/{report.steps}, {losses}, {speed}"


class Trainer:
    """Trains `model` on `source`. world: the processes that share the work; all must build the same trainer."""

    def __init__(
        self,
        model: TrainingModel,
        source: Source,
        settings: TrainSettings,
        *,
        validation: Source | None = None,
        world: World = SINGLE,
    ) -> None:
        self.model, self.source, self.settings, self.validation, self.world = model, source, settings, validation, world
        self.trained = model.trained()
        self.optimizers = make_optimizers(self.trained, settings)
        groups = [(one, group) for one in self.optimizers for group in one.param_groups]
        self._optimizer_of = {id(parameter): one for one, group in groups for parameter in group["params"]}
        self.call = DistributedDataParallel(model) if world.size > 1 else model
        self.cursor, self.step_count, self.tokens, self.skipped = Cursor(), 0, 0, 0
        self.losses: list[float] = []
        self.best, self.stale = math.inf, 0  # the validation loss of the best weights, and the validations since then
        self.words = Words()

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.step_count >= self.settings.steps

    def step(self) -> StepReport:
        """Make one optimizer step. Raises NumericError after too many steps in a row without a finite loss."""
        began, settings = time.perf_counter(), self.settings
        batches = settings.grad_accumulation_steps * self.world.size
        examples, cursor = self.source.take(
            self.cursor, tokens=settings.batch_tokens * batches, clips=settings.batch_size * batches
        )
        with device_errors_in_words(self.model.device, TRAIN_WITH_LESS):
            loss, norm = self.learn(examples)
        finite = math.isfinite(loss) and math.isfinite(norm)
        self.cursor, self.skipped = cursor, 0 if finite else self.skipped + 1
        rows = sum(example.length for example in examples)
        self.tokens += rows
        rate = learning_rate(settings, self.step_count)
        self.step_count += 1
        self.losses.append(loss)
        if self.skipped >= MAX_SKIPPED:
            raise NumericError(
                f"the loss was not finite in {self.skipped} steps in a row (step {self.step_count}): lower the "
                "learning rate, or train in fp32"
            )
        seconds = time.perf_counter() - began
        return StepReport(self.step_count, settings.steps, loss, rate, norm, rows, seconds, not finite)

    def learn(self, examples: list[Example]) -> tuple[float, float]:
        """Make one update from the examples; return (loss, norm of the gradient before clipping)."""
        settings, size = self.settings, self.world.size
        counts = label_counts(examples)
        parts = split_evenly(examples, settings.grad_accumulation_steps * size)[self.world.rank :: size]
        silent = replace(examples[0], labels=torch.full_like(examples[0].labels, IGNORED))
        own = [part for part in parts if part] or [[silent]]  # every process must make a backward pass
        total = torch.zeros((), device=self.model.device)
        self.model.train()
        with torch.inference_mode(False), torch.enable_grad(), self._generators():
            for number, part in enumerate(own):
                with self._synchronized(last=number == len(own) - 1):
                    loss = self.call(part, counts)
                    (loss * size).backward()  # DDP averages over processes, and the losses must be added up
                    total += loss.detach()
            total = self.world.sum(total)
            norm = torch.nn.utils.clip_grad_norm_(self.trained.values(), settings.max_grad_norm or math.inf)
            if math.isfinite(float(total)) and math.isfinite(float(norm)):
                for optimizer in self.optimizers:
                    for group in optimizer.param_groups:
                        group["lr"] = learning_rate(settings, self.step_count)
                    optimizer.step()
            for optimizer in self.optimizers:
                optimizer.zero_grad(set_to_none=True)
        return float(total), float(norm)

    def validate(self) -> float:
        """Return the loss of the validation clips, always with the same masks; NaN if there are no such clips."""
        if self.validation is None or not self.validation.clips:
            return math.nan
        return self.evaluate([self.validation.draw("validation", clip) for clip in range(len(self.validation.clips))])

    def next_loss(self) -> float:
        """Return the loss of the next batch of one process, without an update."""
        tokens, clips = self.settings.batch_tokens, self.settings.batch_size
        return self.evaluate(self.source.take(self.cursor, tokens=tokens, clips=clips)[0])

    @torch.no_grad()
    def evaluate(self, examples: list[Example]) -> float:
        """Return the loss of the examples."""
        counts = label_counts(examples)
        rows = sum(example.length for example in examples)
        parts = split_evenly(examples, -(-rows // self.settings.batch_tokens) * self.world.size)
        total = torch.zeros((), device=self.model.device)
        self.model.eval()
        with device_errors_in_words(self.model.device, TRAIN_WITH_LESS):
            for part in parts[self.world.rank :: self.world.size]:
                total += self.model(part, counts) if part else 0
        return float(self.world.sum(total))

    def _synchronized(self, *, last: bool) -> contextlib.AbstractContextManager[None]:
        """Return a context in which processes exchange gradients only in the last batch of a step."""
        call = self.call
        return call.no_sync() if isinstance(call, DistributedDataParallel) and not last else contextlib.nullcontext()

    @contextlib.contextmanager
    def _generators(self) -> Iterator[None]:
        """Seed torch's global generators by the step, for dropout, and restore them afterwards."""
        device = self.model.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            _, generator = generators(self.settings.seed, "dropout", self.step_count, self.world.rank)
            torch.default_generator.manual_seed(generator.initial_seed())
            if device.type == "cuda":  # only this one: torch.manual_seed would seed every device
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(generator.initial_seed())
            yield

    def _state_of(self, parameter: torch.nn.Parameter) -> dict[str, object]:
        return self._optimizer_of[id(parameter)].state[parameter]

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Return the training state, (tensors, numbers), for `restore`."""
        history = {"losses": self.losses, "best": [self.best]}
        history |= {"words": self.words.values()} if self.settings.stop_words_points else {}
        tensors = {name: torch.tensor(values, dtype=torch.float64) for name, values in history.items()}
        for name, parameter in self.trained.items():
            tensors[f"weights.{name}"] = parameter.detach()
            for key, value in self._state_of(parameter).items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{key}.{name}"] = value
        return tensors, {
            "step": self.step_count,
            "epoch": self.cursor.epoch,
            "position": self.cursor.position,
            "tokens": self.tokens,
            "skipped": self.skipped,
            "stale": self.stale,
        }

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> None:
        """Restore a `state` of a trainer built in the same way; raises CheckpointError for any other state."""
        self._check_state(tensors, numbers)
        with torch.no_grad():
            for name, parameter in self.trained.items():
                parameter.copy_(tensors[f"weights.{name}"])
        for full, value in tensors.items():
            kind, _, rest = full.partition(".")
            if kind == "optimizer":
                key, _, name = rest.partition(".")
                place = "cpu" if key == "step" else self.trained[name].device
                self._state_of(self.trained[name])[key] = value.to(place, copy=True)
        self.losses, self.best = tensors["losses"].tolist(), float(tensors["best"])
        self.words = Words.restored(tensors["words"].tolist()) if "words" in tensors else Words()
        self.step_count, self.tokens = numbers["step"], numbers["tokens"]
        self.skipped, self.stale = numbers["skipped"], numbers["stale"]
        self.cursor = Cursor(numbers["epoch"], numbers["position"])

    def _check_state(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, int]) -> None:
        other = CheckpointError("this training state belongs to a run that trains other weights: name another folder")
        expected = {f"weights.{name}": parameter.shape for name, parameter in self.trained.items()}
        if {name: t.shape for name, t in tensors.items() if name.startswith("weights.")} != expected:
            raise other
        for full, tensor in tensors.items():
            kind, _, rest = full.partition(".")
            if kind == "optimizer":
                name = rest.partition(".")[2]
                if name not in self.trained or tensor.shape not in (torch.Size(), self.trained[name].shape):
                    raise other
            if kind in ("weights", "optimizer") and not bool(torch.isfinite(tensor).all()):
                raise CheckpointError(
                    f"this training state contains NaN or Inf in {full}: delete it to resume from an earlier one"
                )
        shapes = [tuple(tensors[name].shape) for name in ("losses", "best") if name in tensors]
        known = numbers.keys() == self.state()[1].keys() and min(numbers.values()) >= 0
        shapes += [tuple(tensors["words"].shape)] if "words" in tensors else [(4,)]
        if not known or numbers["position"] >= len(self.source.clips) or shapes != [(numbers["step"],), (1,), (4,)]:
            raise CheckpointError("this training state is not consistent: name another folder")


def make_optimizers(trained: Mapping[str, torch.nn.Parameter], settings: TrainSettings) -> list[torch.optim.Optimizer]:
    """Return one optimizer, or two with Muon, which trains only the matrices inside the layers.

    Raises InputError if this version of torch has no Muon.
    """
    rate, decay = settings.learning_rate, settings.weight_decay
    if not hasattr(torch.optim, settings.optimizer):
        raise InputError(f"optimizer Muon needs torch 2.9 or newer, this is {torch.__version__}: choose AdamW")
    if settings.optimizer != "Muon":
        return [getattr(torch.optim, settings.optimizer)(trained.values(), lr=rate, weight_decay=decay)]
    matrices = [p for name, p in trained.items() if "layers." in name and p.ndim == 2]
    others = [p for name, p in trained.items() if "layers." not in name or p.ndim != 2]
    made: list[torch.optim.Optimizer] = []
    if matrices:
        made.append(torch.optim.Muon(matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"))
    if others:
        made.append(torch.optim.AdamW(others, lr=rate, weight_decay=decay))
    return made


def warmup_steps(steps: int, warmup: float) -> int:
    """Return the number of steps in which the learning rate rises; warmup: share of all steps."""
    return math.ceil(steps * warmup)


def learning_rate(settings: TrainSettings, step: int) -> float:
    """Return the learning rate of update number `step`, counted from 0.

    A linear warm-up, then half a cosine or a constant, as in transformers' get_cosine_schedule_with_warmup and
    get_constant_schedule_with_warmup (optimization.py:83-160 of 5.3.0), which upstream uses.
    """
    warmup = warmup_steps(settings.steps, settings.warmup)
    if step < warmup:
        return settings.learning_rate * (step / max(1, warmup))
    if settings.schedule == "constant":
        return settings.learning_rate
    done = (step - warmup) / max(1, settings.steps - warmup)
    return settings.learning_rate * max(0.0, 0.5 * (1.0 + math.cos(math.pi * 2.0 * 0.5 * done)))
