"""`narrate`: a long text to a WAV file, resumed after a stop; and `speak --stream`, which writes it as it is made."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from ..constants import SAMPLE_RATE
from ..engine import Engine
from ..errors import InputError
from ..intake.audio_files import write_long_wav
from ..intake.files import write_atomic
from ..intake.marks import Mark
from ..intake.riff import mark_chunks, pcm16_head
from ..productions.kept import parts_folder
from ..productions.keys import with_retries
from ..productions.long import MadePart, Progress, parts_at_once, samples_of, speak_long
from ..productions.long_plan import FIRST_SECONDS, plan_long
from ..productions.long_times import chapter_marks, long_timings, timed_parts
from ..productions.parts import PartsInMemory, PartStore
from ..productions.redo import parse_redo
from ..productions.takes import SpeakWithRetries
from ..train.trainer import clock
from ..types import GenerationRequest
from .mark_option import add_mark_option, chosen_mark
from .models import add_lora_options, add_model_options, load_identified
from .speech_options import (
    add_redo_option,
    add_retries_option,
    add_speech_options,
    add_voice_options,
    check_voice_options,
    request_from,
    speaker_of,
    wav_target,
)
from .text_input import read_text_file, read_text_stream

TIMES = ".json"


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `narrate`."""
    parser = commands.add_parser(
        "narrate", help="speak a long text, such as a book, to a WAV file; resumes after a stop"
    )
    parser.add_argument("text", metavar="FILE", help='a UTF-8 text file; "-" reads standard input')
    parser.add_argument("-o", "--output", default="narration.wav", metavar="WAV", help="default: narration.wav")
    add_redo_option(parser, "part")
    add_voice_options(parser)
    add_speech_options(parser, resumes=True)
    add_retries_option(parser)
    add_mark_option(parser)
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Make the parts that are missing, join them to a WAV file, and print a summary."""
    output = wav_target(options.output, options.voice)
    check_voice_options(options)
    redo = parse_redo(options.redo)
    text = read_text_stream(sys.stdin) if options.text == "-" else read_text_file(options.text)
    options.seed = 0 if options.seed is None else options.seed  # a run that resumes needs the same one
    with parts_folder(output) as folder:
        _narrate(options, text, output, PartStore(folder), redo)


def _narrate(options: argparse.Namespace, text: str, output: Path, store: PartStore, redo: Mapping[int, int]) -> None:
    engine, identity = load_identified(options)
    request, warnings = request_from(options, engine, text)
    long = plan_long(request, engine.plan, retries=options.retries)
    start, speak = time.monotonic(), speaker_of(options, engine)
    model, together = with_retries(identity, options.retries), parts_at_once(engine.sampler.device)
    made = speak_long(long, speak, store, model=model, on_part=_show, redo=redo, max_batch=together)
    count = made[-1].end + long.tail
    pieces, chapters = samples_of(made, store, tail=long.tail), chapter_marks(long, made)
    mark = chosen_mark(options)
    write_long_wav(output, pieces, samples=count, sample_rate=SAMPLE_RATE, mark=mark, chapters=chapters)
    write_atomic(
        output.with_name(output.name + TIMES), long_timings(long, made, timed_parts(made, store, engine.rules)).encode()
    )
    if not options.keep_parts:
        store.remove([*store.used])
    for line in (*(f"warning: {warning}" for warning in (*warnings, *long.warnings, *speak.reports)), *long.notes):
        print(line, file=sys.stderr)
    old = sum(not part.is_new for part in made)
    resumed = f", {old} of {len(made)} parts from an earlier run" if old else ""
    seconds, took = clock(round(count / SAMPLE_RATE)), clock(round(time.monotonic() - start))
    print(f"{output}: {seconds} of speech in {took}, seed {long.seed}{resumed}")


def stream(engine: Engine, request: GenerationRequest, speak: SpeakWithRetries, mark: Mark | None) -> None:
    """Speak a text to standard output as a WAV file of unknown length, each part as soon as it is made."""
    out = standard_output()
    early, store = replace(request, first_seconds=FIRST_SECONDS), PartsInMemory()
    long = plan_long(early, engine.plan, retries=speak.retries)
    out.write(pcm16_head(None, SAMPLE_RATE, before=mark_chunks(mark)))
    out.flush()

    def on_part(part: MadePart, samples: Tensor, progress: Progress) -> None:
        out.write(samples.numpy().astype("<i2", copy=False).tobytes())
        out.flush()
        _show(part, samples, progress)

    together = parts_at_once(engine.sampler.device)
    made = speak_long(long, speak, store, model="", on_part=on_part, max_batch=together)
    out.write(bytes(2 * long.tail))
    summary = f"{(made[-1].end + long.tail) / SAMPLE_RATE:.2f} s of speech, seed {long.seed}"
    for line in (*(f"warning: {warning}" for warning in (*long.warnings, *speak.reports)), *long.notes, summary):
        print(line, file=sys.stderr)


def standard_output() -> BinaryIO:
    """Return standard output for bytes; raises InputError for a terminal, which would show them as text."""
    if sys.stdout is None or sys.stdout.isatty():
        raise InputError("--stream writes audio to standard output: pipe it into a player or a file, as in ... | aplay")
    return sys.stdout.buffer


def _show(part: MadePart, samples: Tensor, progress: Progress) -> None:
    """Show progress on the terminal, or nothing if stderr is a file."""
    if sys.stderr is not None and sys.stderr.isatty():
        end = "\n" if progress.parts == progress.total else ""
        left = clock(round(progress.seconds_left))
        print(f"\rpart {progress.parts} of {progress.total}, {left} left   ", end=end, file=sys.stderr, flush=True)
