"""`download`: get a published model, pinned to one commit and checked byte for byte (see `weights.published`)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..intake.limits import shown_size
from ..weights.published import download_model, published_model
from .models import model_roots

MODEL = "OmniVoice"


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `download` to the commands."""
    parser = commands.add_parser("download", help="download the published model (3.3 GB)")
    parser.add_argument("--to", metavar="FOLDER", help=f"where to put it (default: models/omnivoice/{MODEL})")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the size and the licences, download the missing files, and check all of them."""
    model = published_model(MODEL)
    target = Path(options.to) if options.to else model_roots()[-1] / model.name
    print(f"{model.repository} at {model.revision[:12]}, {shown_size(model.size)}, to {target}")
    print(model.licence_text())
    for line in download_model(model, target, place=str(target), on_progress=show_bytes):
        print(f"  {line}")
    print(f'done. Speak with: python -m omnivoice speak "Hello" --model {target}')


def show_bytes(done: int, total: int) -> None:
    """Draw a counter on the terminal; nothing when stderr is a file."""
    if sys.stderr is not None and sys.stderr.isatty():
        end = "\n" if done == total else ""
        print("\r" + f"{shown_size(done)} of {shown_size(total)}".ljust(24), end=end, file=sys.stderr, flush=True)
