"""`batch`: thousands of lines, one WAV file each, from a list in JSON Lines; resumes after a stop."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from ..errors import InputError
from ..generate.written import unused_line
from ..intake.folders import make_folder
from ..intake.limits import shown
from ..productions.batch import Batch, BatchResult
from ..productions.batch_rows import read_rows
from ..productions.keys import with_retries
from ..train.trainer import clock
from ..train.world import place_in_world
from .mark_option import add_mark_option, chosen_mark
from .models import add_lora_options, add_model_options, load_identified
from .speech_options import (
    add_retries_option,
    add_speech_options,
    add_voice_options,
    check_voice_options,
    load_voice,
    request_from,
    show_progress,
    speaker_of,
)

SHOWN = 20  # failures on the terminal; the manifest has all


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `batch`."""
    parser = commands.add_parser("batch", help="speak each line of a list to its own WAV file; resumes after a stop")
    parser.add_argument("list", metavar="LIST", help="JSON Lines: id, text, ref_audio, ref_text, instruct, language_id")
    parser.add_argument("-o", "--output", default="speech", metavar="FOLDER", help="default: speech")
    add_voice_options(parser)
    add_speech_options(parser, resumes=True)
    add_retries_option(parser)
    add_mark_option(parser)
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Speak the rows, name those that fail, and raise InputError at the end if any did."""
    check_voice_options(options)
    rows, start = read_rows(Path(options.list)), time.monotonic()
    make_folder(options.output)  # refused now, not after the model is loaded
    world = place_in_world()
    if world.size > 1 and options.device == "cuda":
        options.device = f"cuda:{world.local_rank}"
    options.seed = 0 if options.seed is None else options.seed  # a run that resumes needs the same one
    engine, identity = load_identified(options)
    base, warnings = request_from(options, engine, "")
    speak = speaker_of(options, engine)
    batch = Batch(
        folder=Path(options.output),
        root=Path(options.list).parent,
        base=base,
        model=with_retries(identity, options.retries),
        plan=engine.plan,
        speak=lambda requests: speak(engine.plan(requests)),
        load_voice=partial(load_voice, engine),
        rank=world.rank,
        size=world.size,
        mark=chosen_mark(options),
    )
    result = batch.run(rows, show_progress)
    for warning in (*warnings, *_warnings(result, batch.manifest.name)):
        print(f"warning: {warning}", file=sys.stderr)
    if base.dictionary is not None and world.size == 1 and not result.skipped:  # else other rows may have the words
        for line in unused_line(base.dictionary, result.used_entries):
            print(line, file=sys.stderr)
    took, speech = clock(round(time.monotonic() - start)), clock(round(result.seconds))
    before = f", {result.skipped} were there already" if result.skipped else ""
    print(f"{batch.folder}: {result.spoken} files, {speech} of speech in {took}{before}")
    _report_failures(result, batch.manifest.name)


def _warnings(result: BatchResult, manifest: str) -> list[str]:
    keys = ", ".join(map(shown, result.unknown))
    unknown = [f"these keys of the list are not used: {keys}"] if keys else []
    count = "1 line has" if result.warned == 1 else f"{result.warned} lines have"
    return [*unknown, *([f"{count} warnings; {manifest} has them"] if result.warned else [])]


def _report_failures(result: BatchResult, manifest: str) -> None:
    for place, reason in list(result.failed.items())[:SHOWN]:
        print(f"failed: {place}: {reason}", file=sys.stderr)
    if result.failed:
        count = "1 line" if len(result.failed) == 1 else f"{len(result.failed)} lines"
        raise InputError(f"{count} failed; {manifest} has the reason of each")
