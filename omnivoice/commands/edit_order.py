"""`edit-order`: which order of the codebooks `edit` can use with a model, measured on recordings with transcripts."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ..engine import Engine
from ..errors import FileError, InputError
from ..intake.audio_files import read_audio
from ..intake.limits import check_integer
from ..intake.paths import as_path, shown_name
from ..productions.edit_order import order_loss
from ..train.clips import Rejected
from ..train.dataset import build_dataset
from ..train.manifests import read_manifest
from ..train.recordings import AUDIO_SUFFIXES
from ..train.rows import WANTED, Manifest, Row
from .models import add_lora_options, add_model_options, load_engine
from .speech_options import show_progress

CLIPS = 100
ABOUT = (
    "Tell which order of the codebooks suits a model when words in a recording are edited. The recordings should be "
    f"ones that the model has not been trained on; twenty short ones are enough. {WANTED[0].upper()}{WANTED[1:]}."
)


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `edit-order`."""
    parser = commands.add_parser("edit-order", help="tell which --order of edit suits a model", description=ABOUT)
    parser.add_argument("source", nargs="+", help="a folder or a list, as for dataset; or recordings, with --text")
    parser.add_argument(
        "--text", action="append", default=[], help="what a recording says, word for word; once for each recording"
    )
    parser.add_argument("--language", help="language of clips without their own, e.g. en; see: languages")
    parser.add_argument("--instruct", metavar="WORDS", help="description of the voice, for clips without their own")
    parser.add_argument(
        "--clips",
        type=int,
        default=CLIPS,
        metavar="N",
        help=f"how many clips of the list to use, evenly spread; default {CLIPS}",
    )
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Measure and print both losses, and the order to choose."""
    manifest = some_rows(manifest_of(options.source, options.text), check_integer("clips", options.clips))
    engine = load_engine(options)
    print(measured(engine, manifest, options.language, options.instruct))


def measured(engine: Engine, manifest: Manifest, language: str | None, instruct: str | None) -> str:
    """Return the report on the clips and on the order; raises InputError if no clip is usable."""
    data = build_dataset(
        manifest,
        engine.codec.encoder,
        engine.codec.device,
        language=language,
        instruct=instruct,
        on_clip=show_progress,
        rules=engine.rules,
    )
    return f"{data.report()}\n{order_loss(engine, data.clips, on_step=show_progress).report()}"


def manifest_of(sources: list[str], texts: list[str]) -> Manifest:
    """Return the rows of a dataset, or of recordings with one text each; raises InputError or FileError."""
    if texts:
        return _recordings(sources, texts)
    if any(source.lower().endswith(AUDIO_SUFFIXES) for source in sources):
        raise InputError("a recording needs its words: add --text for each, or give a folder or a list")
    if len(sources) > 1:
        raise InputError(f"give one folder or list, got {len(sources)}; for recordings, add --text for each")
    return read_manifest(sources[0])


def _recordings(sources: list[str], texts: list[str]) -> Manifest:
    if len(sources) != len(texts):
        raise InputError(f"--text must be given once for each recording, got {len(texts)} for {len(sources)}")
    rows: list[Row] = []
    rejected: list[Rejected] = []
    for source, text in zip(sources, texts):
        name = shown_name(as_path(source))
        try:
            rows.append(Row(name, read_audio(source), text))
        except (FileError, InputError) as error:
            rejected.append(Rejected(name, str(error)))
    return Manifest("the recordings", tuple(rows), tuple(rejected))


def some_rows(manifest: Manifest, most: int) -> Manifest:
    """Return the manifest with at most that many rows, evenly spread; a note tells how many there are."""
    count = len(manifest.rows)
    if count <= most:
        return manifest
    rows = tuple(manifest.rows[i * count // most] for i in range(most))
    return replace(manifest, rows=rows, notes=(*manifest.notes, f"{most} of the {count} clips are used"))
