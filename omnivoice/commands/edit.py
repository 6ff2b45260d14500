"""`edit` and `redo`: words inside a recording are changed, or spoken again, and the rest keeps its samples."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..engine import Engine
from ..errors import InputError
from ..generate.filling import ORDERS
from ..intake.audio_files import fits_pcm16, read_audio, write_wav
from ..intake.limits import check_integer
from ..intake.mark_reader import mark_of_edit
from ..intake.marks import Mark
from ..productions.edit import Edited, EditRequest, EditTools, edit_tools, finish_edits, prepare_edit
from ..productions.edit_places import parse_spans
from ..productions.edit_report import edit_report
from ..productions.timings import TimedWord, parse_timings
from ..types import Sampling
from .mark_option import add_mark_option, chosen_mark
from .models import add_lora_options, add_model_options, load_engine
from .redo_line import add_line_options, check_line_options, run_lines
from .speech_options import show_progress, wav_target
from .text_input import read_text_file, text_argument


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of `edit` and `redo`."""
    edit = commands.add_parser("edit", help="change, insert or delete words inside a recording")
    edit.add_argument("recording", metavar="FILE", help="the recording, in any format that can be read")
    edit.add_argument("--old", required=True, metavar="TEXT", help="what it says, word for word; @FILE reads a file")
    edit.add_argument(
        "--new", required=True, metavar="TEXT", help="the same with some words changed; @FILE reads a file"
    )
    edit.add_argument(
        "--seconds",
        type=float,
        metavar="SECONDS",
        help="length of the new words; default: at the pace of the recording",
    )
    _add_options(edit, "the words to change, one span for each change; default: they are looked for")
    edit.set_defaults(run=run_edit)
    redo = commands.add_parser("redo", help="speak some words or whole lines of a recording again")
    redo.add_argument("recording", metavar="FILE", help="the recording, in any format that can be read")
    redo.add_argument("--text", metavar="TEXT", help="what it says, word for word; @FILE reads a file")
    redo.add_argument("--words", metavar="WORDS", help="the words to speak again, as they stand in the text")
    _add_options(redo, "the places to speak again, in place of --words")
    add_line_options(redo)
    redo.set_defaults(run=run_redo)


def _add_options(parser: argparse.ArgumentParser, span_help: str) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="WAV", help="the WAV file to write")
    parser.add_argument(
        "--takes",
        type=int,
        default=1,
        metavar="N",
        help="takes with seeds in a row, written as OUT-1.wav, OUT-2.wav ...",
    )
    parser.add_argument("--span", default="", metavar="START-END", help=f"in seconds, e.g. 1.2-1.85: {span_help}")
    parser.add_argument(
        "--word-times", metavar="FILE", help="a JSON file of times, as narrate and the node Transcribe make it"
    )
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default=ORDERS[0],
        help="of the codebooks; edit-order tells which suits a model; default codebooks",
    )
    parser.add_argument("--quick", action="store_true", help="half as many steps")
    parser.add_argument("--context", type=float, metavar="SECONDS", help="the least sound that the model is shown")
    parser.add_argument("--language", help="id, tag or name, e.g. en, pt-BR, Japanese; see: languages")
    parser.add_argument("--seed", type=int, help="same seed, same speech; default: a new seed, which is printed")
    parser.add_argument("--guidance", type=float, default=Sampling().guidance, help="guidance scale, default 2")
    parser.add_argument("--as-written", action="store_true", help="read the new text as it is written")
    add_mark_option(parser)
    add_model_options(parser)
    add_lora_options(parser)


def run_edit(options: argparse.Namespace) -> None:
    """Edit the recording, write a WAV file for each take and print the report."""
    outputs = _outputs(options)
    request = _request(options, _text(options.old, "--old"), _text(options.new, "--new"), seconds=options.seconds)
    _run(options, outputs, request)


def run_redo(options: argparse.Namespace) -> None:
    """Speak words or lines again, write a WAV file for each take and print the report."""
    outputs = _outputs(options)
    if check_line_options(options):
        run_lines(options, outputs)
        return
    if bool(options.span) == bool(options.words):
        raise InputError("redo needs either --words or --span: say which words to speak again")
    text = _text(options.text, "--text")
    _run(options, outputs, _request(options, text, text, again=options.words or ""))


def _outputs(options: argparse.Namespace) -> list[Path]:
    """Return the file of each take; raises InputError or FileError for one that cannot be written."""
    takes, output = check_integer("takes", options.takes), Path(options.output)
    names = [output.with_name(f"{output.stem}-{take + 1}{output.suffix}") for take in range(takes)]
    recordings = (options.recording, getattr(options, "voice", None))
    return [wav_target(str(name), *recordings) for name in (names if takes > 1 else [output])]


def _run(options: argparse.Namespace, outputs: Sequence[Path], request: EditRequest) -> None:
    mark = chosen_mark(options, mark_of_edit(options.recording))
    engine, start = load_engine(options), time.perf_counter()
    tools = _tools(engine)
    prepared = prepare_edit(engine, request, tools.encode)
    seeds = [(prepared.seed + take) % 2**64 for take in range(len(outputs))]
    _write(outputs, finish_edits([prepared.with_seed(seed) for seed in seeds], tools), start, mark)


def _request(options: argparse.Namespace, old: str, new: str, **more: object) -> EditRequest:
    return EditRequest(
        recording=read_audio(options.recording),
        old_text=old,
        new_text=new,
        spans=parse_spans(options.span),
        word_times=_word_times(options.word_times),
        language=options.language,
        seed=options.seed,
        order=options.order,
        quick=options.quick,
        context_seconds=options.context,
        sampling=Sampling(guidance=options.guidance),
        text_as_written=True if options.as_written else None,
        **more,  # type: ignore[arg-type]
    )


def _text(given: str, name: str) -> str:
    text = text_argument(given, name)
    return read_text_file(text[1:]) if text.startswith("@") else text


def _word_times(file: str | None) -> tuple[TimedWord, ...]:
    if file is None:
        return ()
    return tuple(word for line in parse_timings(read_text_file(file)) for word in line.words)


def _tools(engine: Engine) -> EditTools:
    """Return the engine's tools with a bar on the terminal."""
    tools = edit_tools(engine)
    return EditTools(tools.encode, partial(engine.fill, on_step=show_progress), tools.decode)


def _write(outputs: Sequence[Path], takes: Sequence[Edited], start: float, mark: Mark | None) -> None:
    """Write each take, with as many bits as the recording's own samples need, and print what was done."""
    recording = takes[0].prepared.request.recording
    for output, edited in zip(outputs, takes):
        write_wav(output, edited.waveform, subtype="pcm16" if fits_pcm16(recording) else "float32", mark=mark)
    took = time.perf_counter() - start
    for warning in takes[0].warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for output, edited in zip(outputs, takes):
        print(f"{output}: {edited.waveform.seconds:.2f} s, seed {edited.seed}")
    print(edit_report(takes[0]))
    print(f"done in {took:.1f} s")
