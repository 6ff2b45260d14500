"""Where the command line finds a model, and the options that several commands share.

Looked at in order: --model, the environment variable OMNIVOICE_MODEL, then every recognised folder in
models/omnivoice of the current folder and, when this package lies in ComfyUI's custom_nodes, of ComfyUI. Speaking
falls back on the demo voice. Nothing is downloaded: without a model the message says where it looked and how to get
one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

import torch

from ..devices import fastest_dtype
from ..engine import Engine
from ..errors import CheckpointError, InputError
from ..weights.demo import demo_model
from ..weights.files import is_checkpoint

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
FASTEST = "fastest"
ENVIRONMENT = "OMNIVOICE_MODEL"
DEMO_LINE = (
    "no model is installed: the demo voice speaks, which knows few words; get the real one, with 600+ "
    "languages, by: python -m omnivoice download"
)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """--model, --codec, --device and --dtype."""
    parser.add_argument(
        "--model", metavar="FOLDER", help=f"model folder or single file; default: {ENVIRONMENT}, or models/omnivoice/*"
    )
    parser.add_argument("--codec", metavar="FOLDER", help="folder of the codec, if the model has no audio_tokenizer/")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, mps, xpu")
    parser.add_argument(
        "--dtype",
        choices=(*DTYPES, FASTEST),
        help="precision; default: the device's best. fastest: bfloat16 on CPUs that are quicker in it",
    )


def load_engine(options: argparse.Namespace) -> Engine:
    """The engine that the options name."""
    device = usable_device(options.device)
    dtype = fastest_dtype(device) if options.dtype == FASTEST else DTYPES.get(options.dtype)
    return Engine.load(find_model(options.model, demo=True), device, dtype, codec_folder=options.codec)


def usable_device(name: str) -> torch.device:
    """The device of that name; raises InputError if there is none here."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {name!r} cannot be used here ({reason}): try --device cpu") from error
    return device


def find_model(named: str | None, *, demo: bool = False) -> Path:
    """The folder named, or the first one found; raises CheckpointError that says where it looked. demo: the demo voice
    will do where there is none, and a line says so."""
    named = named or os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    roots = model_roots()
    for root in roots:
        with contextlib.suppress(OSError):  # not there, or not readable: no model in it
            for folder in sorted(root.iterdir()):
                if is_checkpoint(folder):
                    return folder
    spare = demo_model() if demo else None
    if spare is not None:
        print(DEMO_LINE, file=sys.stderr)
        return spare
    looked = ", ".join(str(root) for root in roots)
    raise CheckpointError(
        f"no OmniVoice model found. Looked in: --model, {ENVIRONMENT}, {looked}. "
        "Get one with: python -m omnivoice download (3.3 GB, weights CC-BY-NC), or name its folder with --model"
    )


def model_roots() -> list[Path]:
    """Folders that may hold model folders, nearest first."""
    roots = [Path.cwd() / "models" / "omnivoice"]
    parents = Path(__file__).resolve().parents  # commands, omnivoice, pack, custom_nodes, ComfyUI
    if len(parents) > 4 and parents[3].name == "custom_nodes":
        roots.append(parents[4] / "models" / "omnivoice")
    return roots
