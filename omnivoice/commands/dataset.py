"""`dataset`: check and encode recordings with transcripts for training, and report every rejected row."""

from __future__ import annotations

import argparse
from os import PathLike
from os.path import isdir

import torch

from ..devices import codec_device
from ..intake.paths import as_path
from ..ops import PLAIN_OPS, with_fast_linear
from ..text.tokenizer import own_tokens
from ..train.clips import Dataset
from ..train.code_cache import FOLDER
from ..train.dataset import build_dataset
from ..train.manifests import read_manifest
from ..train.rows import WANTED
from ..weights import load_codec_encoder
from .models import add_checkpoint_options, add_device_option, checkpoint_files, usable_device
from .speech_options import show_progress

AnyPath = str | PathLike[str] | None


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `dataset`."""
    parser = commands.add_parser("dataset", help="check and encode recordings to train on", description=WANTED)
    parser.add_argument("source", help="folder, or a list (.csv, .tsv, .txt, .list, .jsonl, .json)")
    parser.add_argument("--language", help="language of clips without their own, e.g. en; see: languages")
    parser.add_argument("--instruct", metavar="WORDS", help="description of the voice, for clips without their own")
    parser.add_argument("--cache", metavar="FOLDER", help=f"cache for codes; default: {FOLDER} in the dataset")
    add_checkpoint_options(parser)
    add_device_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Encode the clips that are not in the cache, and print the report."""
    names = ("model", "codec", "cache", "language", "instruct")
    given = {name: getattr(options, name) for name in names}
    print(load_dataset(options.source, device=usable_device(options.device), **given).report())


def load_dataset(
    source: str | PathLike[str],
    *,
    device: torch.device,
    model: AnyPath = None,
    codec: AnyPath = None,
    cache: AnyPath = None,
    language: str | None = None,
    instruct: str | None = None,
) -> Dataset:
    """Return the dataset in a folder or list, encoded by the codec of the model that `find_model` finds.

    cache: for codes; by default, `.omnivoice_codes` in the dataset. Raises InputError or FileError for a source that
    cannot be read or has no usable clip.
    """
    manifest = read_manifest(source)  # first, so that a wrong path is refused before the codec is loaded
    where, place = as_path(source), codec_device(device)
    files = checkpoint_files(model, codec, demo=True)
    encoder = load_codec_encoder(files.codec_config, files.codec_weights, ops=with_fast_linear(PLAIN_OPS), device=place)
    own = own_tokens(files.tokenizer_json())
    return build_dataset(
        manifest,
        encoder,
        place,
        cache=(where if isdir(where) else where.parent) / FOLDER if cache is None else cache,
        language=language,
        instruct=instruct,
        on_clip=show_progress,
        rules=files.settings(own).rules(own),
    )
