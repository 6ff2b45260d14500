"""`train`: a LoRA, or every weight, trained on a dataset; under torchrun on several devices or machines.

Unusual: Ctrl-C ends the step that runs, writes the state and the adapter, and stops; the same command goes on from
there. In several processes the first one writes files and speaks to the user.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..engine import Engine
from ..errors import InputError
from ..intake.audio_files import write_wav
from ..intake.downloads import make_folder
from ..lm import OmniVoiceLM, TextEmbedding
from ..ops import PLAIN_OPS
from ..text.tokenizer import TextTokenizer
from ..train.adapter import full_weights, trained_lora
from ..train.build import base_fingerprint, build_trainer
from ..train.clips import Dataset
from ..train.loop import Outcome, train
from ..train.run import RunFolder, open_run
from ..train.settings import TrainSettings
from ..train.trainer import StepReport, Trainer
from ..train.world import World, join_world
from ..types import GenerationRequest
from ..weights import load_lm, locate_checkpoint
from ..weights.export_folder import export_folder
from ..weights.files import CheckpointFiles
from ..weights.lora_read import read_lora
from ..weights.lora_write import write_lora, write_peft
from .dataset import load_dataset, load_encoder
from .models import find_model, usable_device
from .train_config import EXAMPLE, TrainOrder, file_name, read_order

SAMPLES, ADAPTER, MODEL = "samples", "adapter", "model"
SAMPLE_SEED = 1


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """train."""
    parser = commands.add_parser(
        "train", help="train a LoRA or a full fine-tune", epilog=f"an example config.toml:\n\n{EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("config", help="a .toml or .json file that says what to train on what; see the example below")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Make the dataset ready, train, and write what was learnt."""
    order = read_order(options.config)
    world = join_world(device_type=order.device.partition(":")[0])
    try:
        _run(order, world)
    finally:
        world.close()


def _run(order: TrainOrder, world: World) -> None:
    device = usable_device(f"cuda:{world.local_rank}" if world.size > 1 and order.device == "cuda" else order.device)
    files = locate_checkpoint(find_model(str(order.model) if order.model else None), order.codec)
    dataset = _in_turn(world, lambda: _dataset(order, device))
    settings = order.settings_for(dataset.seconds)
    lm, text, tokenizer = _load(files, settings, device)
    lora = None if order.lora is None else read_lora(order.lora, files.lm_config)
    base = base_fingerprint(lm, lora)
    if world.leads:
        print(dataset.report())
        print(_plan(settings, world))
    trainer = build_trainer(lm, text, tokenizer, dataset, settings, device=device, world=world, lora=lora)
    folder = _in_turn(
        world, lambda: open_run(order.output, settings, data=dataset.fingerprint(), base=base, resume=order.resume)
    )
    if folder.resume(trainer) and world.leads:
        print(f"going on from step {trainer.step_count}")
    speaker = _speaker(trainer, files, tokenizer, order.output) if settings.sample_every and world.leads else None
    outcome = _train(trainer, folder, speaker, order)
    if world.leads:
        print(f"{_ENDS[outcome.reason]} after {outcome.step} of {settings.steps} steps")
        for path in _write(trainer, folder, files, order, dataset, base):
            print(f"wrote {path}")
    world.wait()


_ENDS = {"finished": "finished", "stopped": "stopped on request", "no better": "stopped: no better"}


def _in_turn(world: World, make: Callable[[], object]):  # type: ignore[no-untyped-def]
    """What `make` gives, in the leading process first: the others then find its files."""
    made = make() if world.leads else None
    world.wait()
    return made if world.leads else make()


def _dataset(order: TrainOrder, device: torch.device) -> Dataset:
    codec_device = torch.device("cpu") if device.type == "mps" else device  # as Engine.load does
    model, codec = (str(path) if path else None for path in (order.model, order.codec))
    encoder = load_encoder(model, codec, codec_device)
    return load_dataset(
        order.data, encoder=encoder, device=codec_device, language=order.language, instruct=order.instruct,
        cache=order.cache, on_clip=_clip_line(sys.stderr.isatty()),
    )  # fmt: skip


def _clip_line(terminal: bool) -> Callable[[int, int], None]:
    def show(done: int, total: int) -> None:
        if terminal:
            print(f"\rencoding {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show


def training_dtype(choice: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 on devices that do it natively, else float32: float16 would need its gradients scaled."""
    native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if choice == "bf16" or (choice == "auto" and native) else torch.float32


def _load(
    files: CheckpointFiles, settings: TrainSettings, device: torch.device
) -> tuple[OmniVoiceLM, TextEmbedding, TextTokenizer]:  # fmt: skip
    tokenizer = TextTokenizer.from_json(files.tokenizer_json())
    dtype = training_dtype(settings.training_dtype, device)
    place = torch.device("cpu") if settings.offloading else device
    lm, text = load_lm(
        files.lm_config, files.lm_weights, ops=PLAIN_OPS, device=place, dtype=dtype, used_ids=tokenizer.used_ids,
        fused=False,
    )  # fmt: skip
    return lm, text, tokenizer


def _plan(settings: TrainSettings, world: World) -> str:
    what = "every weight" if settings.method == "full" else f"LoRA of rank {settings.rank}, alpha {settings.alpha:g}"
    rows = settings.batch_tokens * settings.accumulation * world.size
    return f"training {what}: {settings.steps} steps of at most {rows} rows, learning rate {settings.learning_rate:g}"


def _speaker(
    trainer: Trainer, files: CheckpointFiles, tokenizer: TextTokenizer, output: Path
) -> Callable[[int], None]:  # fmt: skip
    """Speaks the sample text with the model as it is, into a file of that step."""
    engine = Engine.around(trainer.model.lm, trainer.model.text, files, tokenizer, trainer.model.device)
    folder, text = make_folder(output / SAMPLES), trainer.settings.sample_text

    def speak(step: int) -> None:
        (speech,) = engine.generate([GenerationRequest(text, seed=SAMPLE_SEED)])
        write_wav(folder / f"step-{step:08d}.wav", speech.waveform)

    return speak


def _train(trainer: Trainer, folder: RunFolder, speaker: Callable[[int], None] | None, order: TrainOrder) -> Outcome:
    progress = Progress(trainer.step_count, shown=trainer.world.leads, terminal=sys.stderr.isatty())
    board = tensorboard_writer(order.output) if order.tensorboard and trainer.world.leads else None

    with _interruption() as asked:

        def on_step(report: StepReport) -> bool:
            progress.show(report)
            if board:
                board("loss", report.loss, report.step)
                board("learning_rate", report.learning_rate, report.step)
            return asked()

        def on_validation(step: int, loss: float) -> None:
            progress.say(f"step {step}: validation loss {loss:.4f}")
            if board:
                board("validation_loss", loss, step)

        return train(trainer, folder, on_step=on_step, on_validation=on_validation, on_sample=speaker)


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C (or SIGTERM) was pressed; a second one interrupts at once."""
    pressed: list[int] = []

    def press(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        print("\nstopping after this step; press Ctrl-C again to stop at once", file=sys.stderr)

    before = {number: signal.signal(number, press) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(pressed)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Progress:
    """One line on a terminal, a line now and then elsewhere: step, loss, learning rate, speed, time left."""

    EVERY_SECONDS = 10.0

    def __init__(self, start: int, *, shown: bool, terminal: bool) -> None:
        self._start, self._shown, self._terminal = start, shown, terminal
        self._began, self._last, self._tokens = time.perf_counter(), -math.inf, 0

    def show(self, report: StepReport) -> None:
        """After a step."""
        self._tokens += report.tokens
        now = time.perf_counter()
        if not self._shown or (not self._terminal and now - self._last < self.EVERY_SECONDS and report.step > 1):
            return
        self._last = now
        line = progress_line(report, now - self._began, report.step - self._start, self._tokens)
        print(f"\r{line:<79}" if self._terminal else line, end="" if self._terminal else "\n", file=sys.stderr)

    def say(self, text: str) -> None:
        """A line of its own."""
        if self._shown:
            print(f"\r{text:<79}" if self._terminal else text, file=sys.stderr)


def progress_line(report: StepReport, seconds: float, steps: int, tokens: int) -> str:
    """`steps` steps with `tokens` rows took so many seconds up to this report."""
    left = int((report.steps - report.step) * seconds / max(1, steps))
    clock = f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d}" if left >= 3600 else f"{left // 60}:{left % 60:02d}"
    skipped = ", skipped" if report.skipped else ""
    return (
        f"step {report.step}/{report.steps}, loss {report.loss:.4f}{skipped}, lr {report.learning_rate:.2e}, "
        f"{tokens / max(seconds, 1e-9):,.0f} tokens/s, {clock} left"
    )


def tensorboard_writer(folder: Path) -> Callable[[str, float, int], None]:
    """Writes scalars for TensorBoard; raises InputError if it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("tensorboard = true needs the package: pip install tensorboard, or set it to false") from None
    writer = SummaryWriter(str(folder))
    return lambda name, value, step: writer.add_scalar(name, value, step)


def _write(
    trainer: Trainer, folder: RunFolder, files: CheckpointFiles, order: TrainOrder, dataset: Dataset, base: str
) -> list[Path]:  # fmt: skip
    """What was learnt: a LoRA as one file and as PEFT's folder, or a model folder."""
    name, model, settings = file_name(order), trainer.model, trainer.settings
    if settings.method == "full":
        place = order.output / f"{MODEL}-{trainer.step_count:08d}"
        if os.path.isdir(place):  # gone on with after its end
            return [place]
        return [export_folder(files, place, dtype=torch.float32, tensors=full_weights(model))]
    metadata = {
        "base": base[:16], "data": dataset.summary(), "steps": str(trainer.step_count),
        "settings": f"rank {settings.rank}, alpha {settings.alpha:g}, learning rate {settings.learning_rate:g}",
    }  # fmt: skip
    written = [write_lora(order.output / f"{name}.safetensors", trained_lora(model, name), metadata, overwrite=True)]
    whole = trained_lora(model, name, whole_weights=True)
    written.append(
        write_peft(order.output / ADAPTER, whole, metadata, rslora=settings.rslora, dropout=settings.dropout,
                   overwrite=True)
    )  # fmt: skip
    best = folder.best()
    if best is not None:
        weights, step = best
        lora = trained_lora(model, name, weights=weights)
        path = order.output / f"{name}-best.safetensors"
        written.append(write_lora(path, lora, {**metadata, "steps": str(step)}, overwrite=True))
    return written
