"""The command `merge`: merge LoRAs into a model, written as a folder that upstream loads or as one file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..devices import DTYPES
from ..errors import InputError
from ..weights import locate_checkpoint
from ..weights.export import export_checkpoint
from ..weights.export_folder import export_folder
from ..weights.lora import LoRA
from ..weights.lora_read import read_lora
from .models import find_model


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `merge`."""
    parser = commands.add_parser("merge", help="write a model with LoRAs merged in, as a folder or as one file")
    parser.add_argument(
        "--lora",
        metavar="PATH",
        action="append",
        required=True,
        help="a PEFT folder or a .safetensors file; may be repeated, and the changes add up",
    )
    parser.add_argument(
        "--strength",
        metavar="NUMBER",
        action="append",
        type=float,
        default=[],
        help="strength of each LoRA, -10 to 10, in the order of the --lora options; default 1 for each",
    )
    parser.add_argument("--model", metavar="FOLDER", help="model folder or file; default: as for speak")
    parser.add_argument("--codec", metavar="FOLDER", help="folder of the codec, if the model has no audio_tokenizer/")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        required=True,
        help="a name that ends in .safetensors for one file, or a new folder, which the original program can load too",
    )
    parser.add_argument("--dtype", choices=tuple(DTYPES), help="precision of the language model; default: as stored")
    parser.add_argument("--overwrite", action="store_true", help="replace a model file (never a folder)")
    parser.set_defaults(run=run_merge)


def run_merge(options: argparse.Namespace) -> None:
    """Write the model and print what it holds."""
    strengths = _strengths(options.strength, len(options.lora))
    files = locate_checkpoint(find_model(options.model), options.codec)
    loras = [(read_lora(path, files.lm_config), strength) for path, strength in zip(options.lora, strengths)]
    out, dtype = Path(options.output), DTYPES.get(options.dtype)
    if out.suffix == ".safetensors":
        export_checkpoint(files, out, dtype=dtype, loras=loras, overwrite=options.overwrite)
    else:
        export_folder(files, out, dtype=dtype, loras=loras)
    written = [path for path in (out.rglob("*") if out.is_dir() else [out]) if path.is_file()]
    size = sum(path.stat().st_size for path in written) / 1e9
    print(f"wrote {out} ({size:.2f} GB in {len(written)} {'file' if len(written) == 1 else 'files'}), with")
    for lora, strength in loras:
        print(f"  {_described(lora, strength)}")


def _strengths(given: Sequence[float], count: int) -> Sequence[float]:
    if given and len(given) != count:
        raise InputError(
            f"--strength must be given once for each of the {count} --lora, or not at all, got {len(given)}"
        )
    return given or [1.0] * count


def _described(lora: LoRA, strength: float) -> str:
    return f"{lora.describe()} of {lora.source} at strength {strength:g}"
