"""`train`: train a LoRA, or every weight, on a dataset; with torchrun on several devices or machines.

Ctrl-C finishes the current step, writes the training state and the results, and exits with 130. The same command then
resumes the run. With several processes, the main one writes all files and messages.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from ..devices import AUTO, DTYPES, best_training_dtype, codec_device
from ..engine import Engine
from ..errors import DiskFullError, FileError, InputError, OmniVoiceError, ProcessError
from ..generate.codec import Codec
from ..intake.audio_files import write_wav
from ..intake.folders import make_folder
from ..intake.marks import SYNTHETIC, Mark
from ..lm import OmniVoiceLM, TextEmbedding
from ..ops import PLAIN_OPS, TORCH_OPS
from ..text.tokenizer import TextTokenizer
from ..train.adapter import full_weights, trained_lora
from ..train.build import base_fingerprint, build_trainer
from ..train.clips import Dataset
from ..train.loop import Outcome, train
from ..train.results import consent_note, result_metadata, write_loras
from ..train.run import RunFolder, lock_run, open_run
from ..train.settings import TrainSettings
from ..train.trainer import StepReport, Trainer
from ..train.words import OnWords
from ..train.world import World, join_world
from ..types import GenerationRequest
from ..weights import load_lm
from ..weights.export_folder import export_folder
from ..weights.files import CheckpointFiles
from ..weights.lora_read import read_lora
from ..weights.lora_write import write_peft
from .dataset import load_dataset
from .mark_option import add_mark_option, chosen_mark
from .models import add_checkpoint_options, add_device_option, checkpoint_files, find_model, usable_device
from .recogniser import load_recogniser, word_counter
from .train_config import EXAMPLE, TrainOrder, read_order
from .train_progress import Progress, tensorboard

SAMPLES, ADAPTER, MODEL = "samples", "adapter", "model"
SAMPLE_SEED = 1
Made = TypeVar("Made")
_LOG = logging.getLogger("omnivoice_nodes")


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `train`."""
    parser = commands.add_parser(
        "train",
        help="train a LoRA or a full fine-tune",
        epilog=f"an example config.toml:\n\n{EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", help="a .toml or .json file, as in the example below")
    add_checkpoint_options(parser)
    add_device_option(parser, None)
    add_mark_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Prepare the dataset, train, and write the results."""
    given = {name: getattr(options, name) for name in ("model", "codec", "device") if getattr(options, name)}
    order = replace(read_order(options.config), **given)
    world = join_world(device_type=order.device.partition(":")[0])
    try:
        # Before hours of encoding; fails as well if the folder cannot be made.
        with lock_run(order.output) if world.is_main else nullcontext(), world.together():
            _run(order, world, chosen_mark(options) if world.is_main else None)
    except (KeyboardInterrupt, ProcessError):
        if world.is_main:
            print(f"\n{_next(RunFolder(order.output))}", file=sys.stderr)
        raise
    finally:
        world.close()


def _run(order: TrainOrder, world: World, mark: Mark | None) -> None:
    device = usable_device(
        f"cuda:{world.local_rank}" if world.size > 1 and order.device.startswith("cuda") else order.device
    )
    hear = load_recogniser(order.recogniser, device) if order.recogniser and world.is_main else None
    model = find_model(order.model, demo=True)
    files = checkpoint_files(model, order.codec)
    given = {name: getattr(order, name) for name in ("codec", "cache", "language", "instruct")}
    dataset = _in_turn(world, lambda: load_dataset(order.data, device=device, model=model, **given))
    settings = order.settings_for(dataset.seconds)
    lm, text, tokenizer = _load(files, settings, device)
    lora = None if order.lora is None else read_lora(order.lora, files.lm_config)
    order = replace(order, consent=consent_note(order.consent, lora))
    base, data = base_fingerprint(lm, lora), dataset.fingerprint()
    if world.is_main:
        print(dataset.report())
        print(_plan(settings, world))
    trainer = build_trainer(lm, text, tokenizer, dataset, settings, device=device, world=world, lora=lora)
    folder = _in_turn(
        world,
        # The other processes find the run that the main one has just created, so they always resume.
        lambda: open_run(order.output, settings, data=data, base=base, resume=order.resume or not world.is_main),
    )
    resumed = folder.resume(trainer)
    _check_alike(trainer, data, base)
    if resumed and world.is_main:
        print(f"resumed from step {trainer.step_count}")
    speaks = (settings.sample_every or hear) and world.is_main
    engine = _engine(trainer, files, tokenizer) if speaks else None
    sampled = engine if settings.sample_every else None
    speaker = _speaker(trainer, sampled, folder, dataset.language, mark) if sampled else None
    counter = word_counter(trainer, engine, hear) if engine and hear else None
    outcome = _train(trainer, folder, speaker, counter, order)
    world.wait()
    if world.is_main:
        written, fault = _write(trainer, folder, files, order, dataset, base)  # before printing: a closed pipe raises
        print(f"{_ENDS[outcome.reason]} after {outcome.step} of {settings.steps} steps")
        if words := trainer.words.report(settings.stop_words_points):
            print(words)
        for path in written:
            print(f"wrote {path}")
        if fault or outcome.fault:
            raise FileError(f"{outcome.fault or fault}. {_next(folder)}")
    if outcome.reason == "stopped":
        raise KeyboardInterrupt  # so that the exit code says so


_ENDS = {
    "finished": "finished",
    "stopped": "stopped on request",
    "fewer words": "stopped: right words were lost",
    "no better": "stopped: validation did not improve",
    "not saved": "stopped, since its files could not be written,",
}


def _next(folder: RunFolder) -> str:
    """Return what the same command does next, in a sentence."""
    step = folder.saved_step()
    return f"The same command {'goes on from step' if step else 'begins again at step'} {step or 1}."


def _check_alike(trainer: Trainer, data: str, base: str) -> None:
    """Raise InputError in every process unless all have the same clips and model and are at the same step."""
    world, device = trainer.world, trainer.model.device
    for what, number in (("clips", int(data[:15], 16)), ("models", int(base[:15], 16)), ("steps", trainer.step_count)):
        if not world.agree(torch.tensor([number], dtype=torch.int64, device=device)):
            raise InputError(f"the processes start with different {what}: use the same data, model and output")


def _in_turn(world: World, make: Callable[[], Made]) -> Made:
    """Return `make()`, called in the main process first, so the others find the files that it writes."""
    if world.is_main:
        made = make()
    world.wait()
    return made if world.is_main else make()


def training_dtype(choice: str, device: torch.device) -> torch.dtype:
    """Return the dtype for `choice`; auto is bfloat16 where the device has it natively, else float32.

    Never float16, which would need loss scaling.
    """
    dtype = best_training_dtype(device) if choice == AUTO else DTYPES[choice]
    return torch.float32 if dtype == torch.float16 else dtype


def _load(
    files: CheckpointFiles, settings: TrainSettings, device: torch.device
) -> tuple[OmniVoiceLM, TextEmbedding, TextTokenizer]:
    tokenizer = TextTokenizer.from_json(files.tokenizer_json())
    dtype = training_dtype(settings.training_dtype, device)
    stored = torch.float32 if settings.method == "full" else dtype  # trained weights must not start rounded
    place = torch.device("cpu") if settings.offloading else device
    lm, text = load_lm(
        files.lm_config,
        files.lm_weights,
        ops=PLAIN_OPS,
        device=place,
        dtype=stored,
        used_ids=tokenizer.used_ids,
        optional_ids=tokenizer.mark_ids,
        fused=False,
    )
    lm.dtype = dtype
    return lm, text, tokenizer


def _plan(settings: TrainSettings, world: World) -> str:
    what = "every weight" if settings.method == "full" else f"LoRA of rank {settings.rank}, alpha {settings.alpha:g}"
    rows = settings.batch_tokens * settings.grad_accumulation_steps * world.size
    return f"training {what}: {settings.steps} steps of at most {rows} tokens, learning rate {settings.learning_rate:g}"


def _engine(trainer: Trainer, files: CheckpointFiles, tokenizer: TextTokenizer) -> Engine:
    """Return an engine that speaks with the weights in training."""
    model = trainer.model
    codec = Codec.load(files, ops=TORCH_OPS, device=codec_device(model.device))
    about = files.settings(tokenizer.own)
    return Engine.around(model.lm, model.text, model.device, codec, tokenizer, files.words, about)


def _speaker(
    trainer: Trainer, engine: Engine, run: RunFolder, language: str | None, mark: Mark | None = SYNTHETIC
) -> Callable[[int], None]:
    """Return a function that speaks the sample text with the current weights into a file named after the step.

    language: that of most clips.
    """
    folder = make_folder(run.folder / SAMPLES)
    request = GenerationRequest(trainer.settings.sample_text, seed=SAMPLE_SEED, language=language)
    engine.plan([request])  # refuses an unspeakable text now, not in the middle of the run

    def speak(step: int) -> None:
        try:
            (speech,) = engine.generate([request])
            run.with_room(partial(write_wav, folder / f"step-{step:08d}.wav", speech.waveform, mark=mark))
        except DiskFullError:
            raise  # ends the run
        except OmniVoiceError as error:  # a silent sample must not end the training
            _LOG.warning("no sample was written at step %d: %s", step, error)

    return speak


def _train(
    trainer: Trainer,
    folder: RunFolder,
    speaker: Callable[[int], None] | None,
    counter: OnWords | None,
    order: TrainOrder,
) -> Outcome:
    progress = Progress(shown=trainer.world.is_main, terminal=sys.stderr.isatty())
    boards = order.output if order.tensorboard and trainer.world.is_main else None

    with tensorboard(boards) as board, _interruption() as asked:

        def on_step(report: StepReport) -> bool:
            progress.show(report)
            board("loss", report.loss, report.step)
            board("learning_rate", report.learning_rate, report.step)
            return asked()

        def on_validation(step: int, loss: float) -> None:
            progress.say(f"step {step}: validation loss {loss:.4f}")
            board("validation_loss", loss, step)

        def on_words(step: int) -> float | None:
            share = counter(step) if counter else None
            if share is not None and math.isfinite(share):
                progress.say(f"step {step}: right words {share:.1%}")
                board("words_right", share, step)
            return share

        words = on_words if counter else None
        return train(trainer, folder, on_step=on_step, on_validation=on_validation, on_sample=speaker, on_words=words)


@contextmanager
def _interruption() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGINT or SIGTERM has arrived; a second one interrupts at once."""
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


def _write(
    trainer: Trainer, folder: RunFolder, files: CheckpointFiles, order: TrainOrder, dataset: Dataset, base: str
) -> tuple[list[Path], str]:
    """Write the results and return their paths, and why one could not be written, or an empty text."""
    written: list[Path] = []
    try:
        if trainer.settings.method == "full":
            knowing = files.knowing(clip.language for clip in dataset.clips)
            results = _write_models(trainer, folder, knowing, order.output)
        else:
            results = _write_loras(trainer, folder, order, dataset, base)
        for path in results:
            written.append(path)
    except FileError as error:
        return written, str(error)
    return written, ""


def _write_loras(trainer: Trainer, folder: RunFolder, order: TrainOrder, dataset: Dataset, base: str) -> Iterator[Path]:
    """Write the LoRA as files and as PEFT's folder; yield each path once it is written."""
    name, settings = order.result_name, trainer.settings
    metadata = result_metadata(trainer, dataset, base, trainer.step_count, consent=order.consent)
    yield from write_loras(trainer, folder, name, metadata)
    lora, about = trained_lora(trainer.model, name, as_weights=True), {**metadata, "name": name}
    write = partial(write_peft, rslora=settings.rslora, dropout=settings.dropout, overwrite=True)
    yield folder.with_room(partial(write, order.output / ADAPTER, lora, about))


def _write_models(trainer: Trainer, folder: RunFolder, files: CheckpointFiles, output: Path) -> Iterator[Path]:
    """Export the last model, and the best one if it is another step; existing folders are left untouched."""
    models = {output / f"{MODEL}-{trainer.step_count:08d}": full_weights(trainer.model)}
    best = folder.best()
    if best is not None and best[1] != trainer.step_count:
        models[output / f"{MODEL}-best-{best[1]:08d}"] = best[0]
    for place, weights in models.items():
        if not os.path.isdir(place):  # it exists if a finished run is started again
            folder.with_room(partial(export_folder, files, place, dtype=torch.float32, tensors=weights))
        yield place
