"""Where the command line finds a model, and the options that several commands share.

The order: --model, the environment variable OMNIVOICE_MODEL, then the models in models/omnivoice of the current folder
and, if this package is in ComfyUI's custom_nodes, of ComfyUI. Commands that speak or train fall back on the demo voice.
Nothing is downloaded: without a model, the message says where it looked and how to get one.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import sys
from os import PathLike
from pathlib import Path

import torch

from ..devices import AUTO, DTYPES, FASTEST, fastest_dtype
from ..engine import Engine
from ..errors import CheckpointError, InputError
from ..intake.files import file_stamp
from ..weights import locate_checkpoint
from ..weights.demo import demo_model
from ..weights.files import CheckpointFiles, is_checkpoint

ENVIRONMENT = "OMNIVOICE_MODEL"
DEMO_LINE = (
    "no model is installed, so the demo voice is used, which knows few words. Get the real model, with 600+ languages: "
    "python -m omnivoice download"
)


def add_checkpoint_options(parser: argparse.ArgumentParser) -> None:
    """Add --model and --codec."""
    parser.add_argument(
        "--model", metavar="FOLDER", help=f"model folder or single file; default: {ENVIRONMENT}, or models/omnivoice/*"
    )
    parser.add_argument("--codec", metavar="FOLDER", help="folder of the codec, if the model has no audio_tokenizer/")


def add_device_option(parser: argparse.ArgumentParser, default: str | None = "cpu") -> None:
    """Add --device. default: None if something else decides without it."""
    named = "cpu (default)" if default else "cpu"
    parser.add_argument("--device", default=default, help=f"{named}, cuda, cuda:1, mps, xpu")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --model, --codec, --device and --dtype."""
    add_checkpoint_options(parser)
    add_device_option(parser)
    parser.add_argument(
        "--dtype",
        choices=(AUTO, *DTYPES, FASTEST),
        default=AUTO,
        help="precision; auto (default) is the device's best, fastest is bf16 on CPUs that are faster with it",
    )


def add_lora_options(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add --lora and --strength."""
    parser.add_argument(
        "--lora",
        metavar="PATH",
        action="append",
        default=[],
        required=required,
        help="LoRA to merge in: a PEFT folder or a .safetensors file; may be repeated, and the changes add up",
    )
    parser.add_argument(
        "--strength",
        metavar="NUMBER",
        action="append",
        type=float,
        default=[],
        help="strength of each LoRA, -10 to 10, in the order of the --lora options; default 1 for each",
    )


def named_loras(options: argparse.Namespace) -> list[tuple[str, float]]:
    """Return (path, strength) of each --lora; raises InputError unless there are as many strengths, or none."""
    count = len(options.lora)
    strengths = options.strength or [1.0] * count
    if len(strengths) != count:
        raise InputError(
            f"--strength must be given once for each of the {count} --lora, or not at all, got {len(strengths)}"
        )
    return [*zip(options.lora, strengths)]


def load_engine(options: argparse.Namespace) -> Engine:
    """Load the engine that the options describe."""
    return load_identified(options)[0]


def load_identified(options: argparse.Namespace) -> tuple[Engine, str]:
    """Load the engine that the options describe; return it and a hash of its files, LoRAs, device and precision."""
    device, model = usable_device(options.device), find_model(options.model, demo=True)
    dtype = fastest_dtype(device) if options.dtype == FASTEST else DTYPES.get(options.dtype)
    loras = named_loras(options) if "lora" in options else ()
    engine = Engine.load(model, device, dtype, codec_folder=options.codec, loras=loras)
    files = locate_checkpoint(model, options.codec)
    weights = [file_stamp(path) for path in (*files.lm_weights, *files.codec_weights, *files.texts.values())]
    changes = [(file_stamp(path), strength) for path, strength in loras]
    identity = (weights, changes, device.type, str(engine.lm.get_dtype()))
    return engine, hashlib.sha256(repr(identity).encode()).hexdigest()


def checkpoint_files(
    model: str | PathLike[str] | None, codec: str | PathLike[str] | None, *, demo: bool = False
) -> CheckpointFiles:
    """Return the files of the model that `find_model` finds, with its own codec or the named one."""
    return locate_checkpoint(find_model(model, demo=demo), codec)


def usable_device(name: str) -> torch.device:
    """Return the device of that name; raises InputError if this machine has none."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used here ({reason}): try --device cpu") from error
    return device


def find_model(named: str | PathLike[str] | None, *, demo: bool = False) -> Path:
    """Return the named model, or the first one found; raises CheckpointError that says where it looked.

    With `demo`, the demo voice is used if there is no model, and a line on stderr says so.
    """
    named = named or os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    roots = model_roots()
    for root in roots:
        with contextlib.suppress(OSError):  # missing or unreadable: it holds no model
            for folder in sorted(root.iterdir()):
                if is_checkpoint(folder):
                    return folder
    fallback = demo_model() if demo else None
    if fallback is not None:
        print(DEMO_LINE, file=sys.stderr)
        return fallback
    looked = ", ".join(str(root) for root in roots)
    raise CheckpointError(
        f"no OmniVoice model found. Looked in: --model, {ENVIRONMENT}, {looked}. "
        "Get one with: python -m omnivoice download (3.3 GB, weights CC-BY-NC), or name its folder with --model"
    )


def model_roots() -> list[Path]:
    """Return the folders that may hold models, the current folder's first."""
    roots = [Path.cwd() / "models" / "omnivoice"]
    parents = Path(__file__).resolve().parents  # commands, omnivoice, pack, custom_nodes, ComfyUI
    if len(parents) > 4 and parents[3].name == "custom_nodes":
        roots.append(parents[4] / "models" / "omnivoice")
    return roots
