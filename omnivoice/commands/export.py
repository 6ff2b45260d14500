"""The command `export`: write a model as one file, on request in another precision and with a LoRA merged in."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..devices import DTYPES
from ..errors import InputError
from ..weights import locate_checkpoint
from ..weights.export import export_checkpoint
from ..weights.lora_read import read_lora
from .models import find_model


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `export`."""
    parser = commands.add_parser("export", help="write a model as one .safetensors file")
    parser.add_argument("--model", metavar="FOLDER", help="model folder or file; default: as for speak")
    parser.add_argument("--codec", metavar="FOLDER", help="folder of the codec, if the model has no audio_tokenizer/")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write, .safetensors")
    parser.add_argument("--dtype", choices=tuple(DTYPES), help="precision of the language model; default: as stored")
    parser.add_argument("--lora", metavar="PATH", help="LoRA to merge in: a PEFT folder or a .safetensors file")
    parser.add_argument("--strength", type=float, default=1.0, help="strength of the LoRA, -10 to 10; default 1")
    parser.add_argument("--overwrite", action="store_true", help="replace an existing model file")
    parser.set_defaults(run=run_export)


def run_export(options: argparse.Namespace) -> None:
    """Write the file and print what it holds."""
    if not options.output.endswith(".safetensors"):
        raise InputError(f"the output must end in .safetensors, got {options.output!r}")
    files = locate_checkpoint(find_model(options.model), options.codec)
    lora = read_lora(options.lora, files.lm_config) if options.lora else None
    written = export_checkpoint(
        files,
        Path(options.output),
        dtype=DTYPES.get(options.dtype),
        loras=[(lora, options.strength)] if lora else [],
        overwrite=options.overwrite,
    )
    merged = f", with {lora.describe()} of {lora.source} at strength {options.strength:g}" if lora else ""
    print(f"wrote {written} ({written.stat().st_size / 1e9:.2f} GB){merged}")
