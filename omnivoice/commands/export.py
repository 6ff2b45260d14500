"""The commands `export` and `merge`: write a model as one file or a folder, with LoRAs merged in."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..devices import DTYPES
from ..errors import InputError
from ..intake.limits import shown_size
from ..weights.export import export_checkpoint
from ..weights.export_folder import export_folder
from ..weights.lora_read import read_lora
from .models import add_checkpoint_options, add_lora_options, checkpoint_files, named_loras

SUFFIX = ".safetensors"


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of `export` and `merge`."""
    export = commands.add_parser("export", help=f"write a model as one {SUFFIX} file, in any precision")
    merge = commands.add_parser("merge", help="write a model with LoRAs merged in, as a folder or as one file")
    folder = f"a {SUFFIX} file, or a new folder, which the original program can load too"
    for parser, output in ((export, f"the {SUFFIX} file to write"), (merge, folder)):
        add_checkpoint_options(parser)
        add_lora_options(parser, required=parser is merge)
        parser.add_argument("-o", "--output", metavar="PATH", required=True, help=output)
        parser.add_argument(
            "--dtype", choices=tuple(DTYPES), help="precision of the language model; default: as stored"
        )
        parser.add_argument("--overwrite", action="store_true", help="replace a model file (never a folder)")
        parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the model and print what it holds."""
    out, named = Path(options.output), named_loras(options)
    if options.command == "export" and out.suffix != SUFFIX:
        raise InputError(f"the output must end in {SUFFIX}, got {options.output!r}")
    files = checkpoint_files(options.model, options.codec)
    loras = [(read_lora(path, files.lm_config), strength) for path, strength in named]
    if out.suffix == SUFFIX:
        export_checkpoint(files, out, dtype=DTYPES.get(options.dtype), loras=loras, overwrite=options.overwrite)
    else:
        export_folder(files, out, dtype=DTYPES.get(options.dtype), loras=loras)
    written = [path for path in (out.rglob("*") if out.is_dir() else [out]) if path.is_file()]
    size = sum(path.stat().st_size for path in written)
    print(f"wrote {out} ({shown_size(size)} in {len(written)} {'file' if len(written) == 1 else 'files'})")
    for lora, strength in loras:
        consent = f"; consent: {lora.consent}" if lora.consent else ""
        print(f"  with {lora.describe()} of {lora.source} at strength {strength:g}{consent}")
