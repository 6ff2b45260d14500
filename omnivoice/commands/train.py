"""`train`: a LoRA, or every weight, trained on a dataset; under torchrun on several devices or machines.

Unusual: Ctrl-C ends the step that runs, writes the state and the adapter, and stops; the same command goes on from
there. In several processes the first one writes files and speaks to the user.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..engine import Engine, codec_device
from ..errors import InputError, OmniVoiceError
from ..intake.audio_files import write_wav
from ..intake.folders import make_folder
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
from .speak import show_progress
from .train_config import EXAMPLE, TrainOrder, file_name, read_order
from .train_progress import Progress, tensorboard

SAMPLES, ADAPTER, MODEL = "samples", "adapter", "model"
SAMPLE_SEED = 1
_LOG = logging.getLogger("omnivoice_nodes")


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """train."""
    parser = commands.add_parser(
        "train",
        help="train a LoRA or a full fine-tune",
        epilog=f"an example config.toml:\n\n{EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    device = usable_device(
        f"cuda:{world.local_rank}" if world.size > 1 and order.device.startswith("cuda") else order.device
    )
    files = locate_checkpoint(find_model(str(order.model) if order.model else None), order.codec)
    if world.leads:
        make_folder(order.output)  # where nothing can be written, nothing need be encoded
    dataset = _in_turn(world, lambda: _dataset(order, device))
    settings = order.settings_for(dataset.seconds)
    lm, text, tokenizer = _load(files, settings, device)
    lora = None if order.lora is None else read_lora(order.lora, files.lm_config)
    base, data = base_fingerprint(lm, lora), dataset.fingerprint()
    if world.leads:
        print(dataset.report())
        print(_plan(settings, world))
    trainer = build_trainer(lm, text, tokenizer, dataset, settings, device=device, world=world, lora=lora)
    folder = _in_turn(
        world,
        # The others find the run that the first one has just begun.
        lambda: open_run(order.output, settings, data=data, base=base, resume=order.resume or not world.leads),
    )
    resumed = folder.resume(trainer)
    _check_alike(trainer, data, base)
    if resumed and world.leads:
        print(f"going on from step {trainer.step_count}")
    speaker = _speaker(trainer, files, tokenizer, order.output) if settings.sample_every and world.leads else None
    outcome = _train(trainer, folder, speaker, order)
    if world.leads:
        written = _write(trainer, folder, files, order, dataset, base)  # first: nobody may be reading any more
        print(f"{_ENDS[outcome.reason]} after {outcome.step} of {settings.steps} steps")
        for path in written:
            print(f"wrote {path}")
    world.wait()


_ENDS = {"finished": "finished", "stopped": "stopped on request", "no better": "stopped: no better"}


def _check_alike(trainer: Trainer, data: str, base: str) -> None:
    """Raise InputError in every process unless all are about to do the same steps on the same clips and model."""
    world, device = trainer.world, trainer.model.device
    for what, number in (("clips", int(data[:15], 16)), ("models", int(base[:15], 16)), ("steps", trainer.step_count)):
        if not world.agree(torch.tensor([number], dtype=torch.int64, device=device)):
            raise InputError(f"the processes begin with different {what}: let all use the same data, model and output")


def _in_turn(world: World, make: Callable[[], object]):  # type: ignore[no-untyped-def]
    """What `make` gives, in the leading process first: the others then find its files."""
    made = make() if world.leads else None
    world.wait()
    return made if world.leads else make()


def _dataset(order: TrainOrder, device: torch.device) -> Dataset:
    place = codec_device(device)
    model, codec = (str(path) if path else None for path in (order.model, order.codec))
    return load_dataset(
        order.data,
        encoder=load_encoder(model, codec, place),
        device=place,
        language=order.language,
        instruct=order.instruct,
        cache=order.cache,
        on_clip=show_progress,
    )


def training_dtype(choice: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 on devices that do it natively, else float32: float16 would need its gradients scaled."""
    native = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if choice == "bf16" or (choice == "auto" and native) else torch.float32


def _load(
    files: CheckpointFiles, settings: TrainSettings, device: torch.device
) -> tuple[OmniVoiceLM, TextEmbedding, TextTokenizer]:
    tokenizer = TextTokenizer.from_json(files.tokenizer_json())
    dtype = training_dtype(settings.training_dtype, device)
    stored = torch.float32 if settings.method == "full" else dtype  # what is trained must not begin rounded
    place = torch.device("cpu") if settings.offloading else device
    lm, text = load_lm(
        files.lm_config,
        files.lm_weights,
        ops=PLAIN_OPS,
        device=place,
        dtype=stored,
        used_ids=tokenizer.used_ids,
        fused=False,
    )
    lm.dtype = dtype
    return lm, text, tokenizer


def _plan(settings: TrainSettings, world: World) -> str:
    what = "every weight" if settings.method == "full" else f"LoRA of rank {settings.rank}, alpha {settings.alpha:g}"
    rows = settings.batch_tokens * settings.accumulation * world.size
    return f"training {what}: {settings.steps} steps of at most {rows} rows, learning rate {settings.learning_rate:g}"


def _speaker(trainer: Trainer, files: CheckpointFiles, tokenizer: TextTokenizer, output: Path) -> Callable[[int], None]:
    """Speaks the sample text with the model as it is, into a file of that step."""
    engine = Engine.around(trainer.model.lm, trainer.model.text, files, tokenizer, trainer.model.device)
    folder, request = make_folder(output / SAMPLES), GenerationRequest(trainer.settings.sample_text, seed=SAMPLE_SEED)
    engine.plan([request])  # a text that cannot be spoken is told now

    def speak(step: int) -> None:
        try:
            (speech,) = engine.generate([request])
            write_wav(folder / f"step-{step:08d}.wav", speech.waveform)
        except OmniVoiceError as error:  # a full disk, a model that is silent by now: the training goes on
            _LOG.warning("no sample was spoken at step %d: %s", step, error)

    return speak


def _train(trainer: Trainer, folder: RunFolder, speaker: Callable[[int], None] | None, order: TrainOrder) -> Outcome:
    progress = Progress(trainer.step_count, shown=trainer.world.leads, terminal=sys.stderr.isatty())
    boards = order.output if order.tensorboard and trainer.world.leads else None

    with tensorboard(boards) as board, _interruption() as asked:

        def on_step(report: StepReport) -> bool:
            progress.show(report)
            board("loss", report.loss, report.step)
            board("learning_rate", report.learning_rate, report.step)
            return asked()

        def on_validation(step: int, loss: float) -> None:
            progress.say(f"step {step}: validation loss {loss:.4f}")
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


def _write(
    trainer: Trainer, folder: RunFolder, files: CheckpointFiles, order: TrainOrder, dataset: Dataset, base: str
) -> list[Path]:
    """What was learnt: a LoRA as one file and as PEFT's folder, or a model folder."""
    name, model, settings = file_name(order), trainer.model, trainer.settings
    if settings.method == "full":
        return _write_models(trainer, folder, files, order.output)
    metadata = {
        "base": base[:16],
        "data": dataset.summary(),
        "steps": str(trainer.step_count),
        "settings": f"rank {settings.rank}, alpha {settings.alpha:g}, learning rate {settings.learning_rate:g}",
    }
    written = [write_lora(order.output / f"{name}.safetensors", trained_lora(model, name), metadata, overwrite=True)]
    whole = trained_lora(model, name, whole_weights=True)
    written.append(
        write_peft(
            order.output / ADAPTER, whole, metadata, rslora=settings.rslora, dropout=settings.dropout, overwrite=True
        )
    )
    best = folder.best()
    if best is not None:
        weights, step = best
        lora = trained_lora(model, name, weights=weights)
        path = order.output / f"{name}-best.safetensors"
        written.append(write_lora(path, lora, {**metadata, "steps": str(step)}, overwrite=True))
    return written


def _write_models(trainer: Trainer, folder: RunFolder, files: CheckpointFiles, output: Path) -> list[Path]:
    """The last model, and the best one if it is another; those that are there already are left as they are."""
    models = {output / f"{MODEL}-{trainer.step_count:08d}": full_weights(trainer.model)}
    best = folder.best()
    if best is not None and best[1] != trainer.step_count:
        models[output / f"{MODEL}-best-{best[1]:08d}"] = best[0]
    for place, weights in models.items():
        if not os.path.isdir(place):  # else the run was gone on with after its end
            export_folder(files, place, dtype=torch.float32, tensors=weights)
    return list(models)
