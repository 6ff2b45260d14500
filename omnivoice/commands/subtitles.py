"""`subtitles`: SRT or WebVTT to a WAV file on the times of its cues, with a cast of voices."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from ..constants import SAMPLE_RATE
from ..errors import FileError, InputError, OmniVoiceError
from ..intake.audio_files import write_long_wav
from ..intake.encodings import read_text_file
from ..intake.files import write_atomic
from ..intake.limits import MAX_SUBTITLE_BYTES
from ..productions.cast import Cast
from ..productions.cue_output import CuesOnDisk
from ..productions.kept import KeptSpeech, parts_folder
from ..productions.keys import with_retries
from ..productions.long import parts_at_once
from ..productions.subtitle_parser import parse_subtitles
from ..productions.subtitle_report import not_spoken, subtitle_report, summary
from ..productions.subtitle_schedule import DEFAULT_REQUEST, MODES, SubtitleOptions
from ..productions.subtitle_writer import srt_text, vtt_text
from ..productions.subtitles import SpokenSubtitles, speak_subtitles
from ..productions.takes import run_with_retries
from .cast_options import add_cast_options, members_from, recordings_of, speaker_from
from .mark_option import add_mark_option, chosen_mark
from .models import add_lora_options, add_model_options, load_identified
from .speech_options import add_retries_option, add_speech_options, base_request, show_progress, wav_target

_SHOWN = 10  # texts that are not spoken, if a report has all
_WRITERS = {".srt": srt_text, ".vtt": vtt_text}


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `subtitles`."""
    defaults = SubtitleOptions()
    parser = commands.add_parser("subtitles", help="speak subtitles (SRT, WebVTT) on their times to a WAV file")
    parser.add_argument("file", help="the subtitles, .srt or .vtt")
    parser.add_argument("-o", "--output", metavar="WAV", help="default: the name of the subtitles with .wav")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=defaults.mode,
        help="fit (default): speech takes exactly the time of its cue; natural: its own time, and later cues wait; "
        "fill: its own time up to the next cue",
    )
    add_cast_options(parser)
    parser.add_argument("--transcript", default="", metavar="TEXT", help="of the recording in --voice FILE")
    parser.add_argument("--design", metavar="WORDS", help='attributes of the default voice, e.g. "female, low pitch"')
    parser.add_argument("--total", type=float, default=0.0, metavar="SECONDS", help="length; default: to the last cue")
    parser.add_argument(
        "--slowest-rate",
        type=float,
        default=defaults.slowest_rate,
        metavar="RATE",
        help=f"fit stretches no text below this part of its natural rate; default {defaults.slowest_rate:g}, 0 = none",
    )
    parser.add_argument("--encoding", help="of the file; default: found from its content")
    parser.add_argument(
        "--subtitles", metavar="FILE", help="write subtitles with the times of the speech, .srt or .vtt"
    )
    parser.add_argument("--report", metavar="FILE", help="write a report about every cue, .txt")
    parser.add_argument("--keep-parts", action="store_true", help="keep the folder of finished cues, for later edits")
    add_speech_options(parser, resumes=True)
    add_retries_option(parser)
    add_mark_option(parser)
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Speak the file, write the results and print a summary; warnings and what is not spoken go to stderr."""
    members, default = members_from(options)
    named = options.output or Path(options.file).with_suffix(".wav").name
    output = wav_target(named, *recordings_of(members, default))
    _check_text_target(options.subtitles, [*_WRITERS], options.file)
    _check_text_target(options.report, [".txt"], options.file)
    text, encoding = read_text_file(options.file, limit=MAX_SUBTITLE_BYTES, encoding=options.encoding)
    parse_subtitles(text, [name for name, _ in members])  # names what is wrong before the model is loaded
    options.seed = 0 if options.seed is None else options.seed  # a run that resumes needs the same one
    pads = {name: getattr(DEFAULT_REQUEST, name) for name in ("pad_seconds", "fade_seconds")}
    request = replace(base_request(options), **pads)
    how = SubtitleOptions(options.mode, options.total, options.slowest_rate, request).checked()
    with parts_folder(output) as folder:
        engine, identity = load_identified(options)
        subtitles = parse_subtitles(text, [name for name, _ in members], engine.rules)
        speakers = tuple(speaker_from(engine, name, given) for name, given in members)
        start = time.perf_counter()
        speak = run_with_retries(engine.generate_plans, options.retries)
        together = parts_at_once(engine.sampler.device)
        kept = KeptSpeech(folder, speak, model=with_retries(identity, options.retries), together=together)
        members_cast = Cast(speakers, speaker_from(engine, "", default))
        disk = CuesOnDisk(kept.speech_of)
        result = speak_subtitles(
            engine, subtitles, members_cast, how, run=kept, on_step=show_progress, output=disk, retries=options.retries
        )
        mark = chosen_mark(options)
        write_long_wav(output, disk.pieces(), samples=result.samples, sample_rate=SAMPLE_RATE, mark=mark)
        took = time.perf_counter() - start
        if encoding not in ("utf-8", options.encoding):
            print(
                f"warning: the file is taken for {encoding}: if letters are wrong, name its --encoding", file=sys.stderr
            )
        _write_texts(options, result)
        if not options.keep_parts:
            kept.remove()
    most = _SHOWN if options.report else None
    warnings = [f"warning: {note}" for note in (*subtitles.notes, *result.warnings)]
    for line in (*not_spoken(result, most), *warnings, *result.notes):
        print(line, file=sys.stderr)
    resumed = f", {kept.read} pieces from an earlier run" if kept.read else ""
    print(f"{output}: {summary(result)}, in {took:.1f} s{resumed}")


def _check_text_target(path: str | None, suffixes: list[str], source: str) -> None:
    """Refuse a text file that cannot be written, before any work. Only a file of the same kind is replaced."""
    if path is None:
        return
    where = Path(path)
    if where.suffix.lower() not in suffixes:
        raise InputError(f"{where.name} must end in {' or '.join(suffixes)}")
    if os.path.realpath(path) == os.path.realpath(source):
        raise InputError(f"{where.name} is the file that is spoken: choose another name")
    if not os.path.isdir(where.parent):
        raise FileError(f"the folder of {where.name} does not exist: make it first")
    if os.path.lexists(where):
        try:
            text, _ = read_text_file(where, limit=MAX_SUBTITLE_BYTES)
            if suffixes == [".txt"] and " cues spoken, " not in text.partition("\n")[0]:
                raise FileError("it is no report")
            if suffixes != [".txt"]:
                parse_subtitles(text)
        except OmniVoiceError:
            raise FileError(f"{where.name} exists and is something else: choose another name") from None


def _write_texts(options: argparse.Namespace, result: SpokenSubtitles) -> None:
    if options.subtitles:
        writer = _WRITERS[Path(options.subtitles).suffix.lower()]
        write_atomic(options.subtitles, writer([one.adjusted for one in result.spoken]).encode())
    if options.report:
        write_atomic(options.report, f"{subtitle_report(result)}\n".encode())
