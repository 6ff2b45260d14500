"""The commands `languages` and `info`: what the model can speak, and what is installed."""

from __future__ import annotations

import argparse
import sys

import torch

from ..devices import best_dtype, dtype_name
from ..errors import InputError
from ..intake.limits import shown_size
from ..text.languages import language_options
from ..text.tokenizer import own_tokens
from .models import add_checkpoint_options, checkpoint_files


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of `languages` and `info`."""
    languages = commands.add_parser("languages", help="list the languages, all or by a search word")
    languages.add_argument("search", nargs="?", default="", help="part of an id or name")
    languages.set_defaults(run=run_languages)
    info = commands.add_parser("info", help="describe a model and this machine")
    add_checkpoint_options(info)
    info.set_defaults(run=run_info)


def run_languages(options: argparse.Namespace) -> None:
    """Print one line per language: id and name."""
    wanted = options.search.casefold()
    rows = [(code, name) for code, name in language_options() if wanted in code.casefold() or wanted in name.casefold()]
    if not rows:
        raise InputError(f"no language matches {options.search!r}: run it without a search word to see all")
    for code, name in rows:
        print(f"{code}\t{name}")


def run_info(options: argparse.Namespace) -> None:
    """Print what the machine and the model are. Checks the model's files and configurations, but reads no weights."""
    accelerators = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    accelerators += ["mps"] if torch.backends.mps.is_available() else []
    devices = ["cpu", *accelerators]
    precision = ", ".join(f"{name} ({dtype_name(best_dtype(torch.device(name)))})" for name in devices)
    print(f"python {sys.version.split()[0]}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"devices: {precision}")
    files = checkpoint_files(options.model, options.codec)
    lm, codec = files.lm_config, files.codec_config
    weights = {*files.lm_weights, *files.codec_weights}
    size = shown_size(sum(path.stat().st_size for path in weights))
    print(f"model: {files.folder} ({size} in {len(weights)} {'file' if len(weights) == 1 else 'files'})")
    print(f"language model: {lm.layers} layers, width {lm.hidden_size}, {lm.vocab_size} text tokens")
    settings = files.settings(own_tokens(files.tokenizer_json()))
    if told := settings.told():
        print(f"the model says: {told}")
    print(f"codec: {codec.sample_rate} Hz, {codec.codebooks} codebooks, {codec.frame_rate} frames a second")
