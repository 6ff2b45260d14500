"""`dataset`: check and encode recordings with transcripts for training, and report every rejected row."""

from __future__ import annotations

import argparse
from os import PathLike
from os.path import isdir
from pathlib import Path

import torch

from ..codec import CodecEncoder
from ..devices import codec_device
from ..intake.paths import as_path
from ..ops import PLAIN_OPS, with_fast_linear
from ..train.clips import Dataset
from ..train.code_cache import FOLDER
from ..train.dataset import OnClip, build_dataset
from ..train.manifests import WANTED, read_manifest
from ..weights import load_codec_encoder, locate_checkpoint
from .models import ENVIRONMENT, find_model, usable_device
from .speak import show_progress


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `dataset`."""
    parser = commands.add_parser("dataset", help="check and encode recordings to train on", description=WANTED)
    parser.add_argument("source", help="folder, metadata.csv or .jsonl")
    parser.add_argument("--language", help="language of clips without their own, e.g. en; see: languages")
    parser.add_argument("--instruct", metavar="WORDS", help="description of the voice, for clips without their own")
    parser.add_argument("--cache", metavar="FOLDER", help=f"cache for codes; default: {FOLDER} in the dataset")
    parser.add_argument(
        "--model", metavar="FOLDER", help=f"model folder or single file; default: {ENVIRONMENT}, or models/omnivoice/*"
    )
    parser.add_argument("--codec", metavar="FOLDER", help="folder of the codec, if the model has no audio_tokenizer/")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, xpu")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Encode the clips that are not in the cache, and print the report."""
    device = codec_device(usable_device(options.device))
    manifest = read_manifest(options.source)  # first, so that a wrong path is refused before the codec is loaded
    dataset = build_dataset(
        manifest,
        load_encoder(options.model, options.codec, device),
        device,
        cache=default_cache(options.source) if options.cache is None else options.cache,
        language=options.language,
        instruct=options.instruct,
        on_clip=show_progress,
    )
    print(dataset.report())


def load_dataset(
    source: str | PathLike[str],
    *,
    encoder: CodecEncoder,
    device: torch.device | str,
    language: str | None = None,
    instruct: str | None = None,
    cache: str | PathLike[str] | None = None,
    on_clip: OnClip | None = None,
) -> Dataset:
    """Return the dataset in a folder or list, encoded with the help of a cache, by default `.omnivoice_codes` in it.

    Raises InputError or FileError for a source that cannot be read or has no usable clip.
    """
    return build_dataset(
        read_manifest(source),
        encoder,
        device,
        cache=default_cache(source) if cache is None else cache,
        language=language,
        instruct=instruct,
        on_clip=on_clip,
    )


def default_cache(source: str | PathLike[str]) -> Path:
    """Return the default code cache of a dataset."""
    where = as_path(source)
    return (where if isdir(where) else where.parent) / FOLDER


def load_encoder(model: str | None, codec: str | None, device: torch.device) -> CodecEncoder:
    """Load only the codec's encoder, of the named model or the one that is found."""
    files = locate_checkpoint(find_model(model), codec)
    return load_codec_encoder(files.codec_config, files.codec_weights, ops=with_fast_linear(PLAIN_OPS), device=device)
