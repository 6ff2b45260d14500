"""`speak`: text to a WAV file, with a cloned, a described or the model's own voice."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace

from ..errors import InputError
from ..generate.written import unused_entries
from ..intake.audio_files import write_wav
from . import narrate
from .disclose_option import Notice, add_disclose_options, chosen_notice, disclosed
from .mark_option import add_mark_option, chosen_mark
from .models import add_lora_options, add_model_options, load_engine
from .speech_options import (
    add_retries_option,
    add_speech_options,
    add_voice_options,
    check_voice_options,
    request_from,
    speaker_of,
    wav_target,
)
from .text_input import read_text_stream, text_argument


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `speak`."""
    parser = commands.add_parser("speak", help="speak a text to a WAV file")
    parser.add_argument("text", help='what to say; "-" reads it from standard input')
    target = parser.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", default="speech.wav", metavar="WAV", help="default: speech.wav")
    target.add_argument(
        "--stream", action="store_true", help="write the WAV to standard output, part by part as it is made"
    )
    add_voice_options(parser)
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="length of the speech")
    parser.add_argument("--exact-length", action="store_true", help="make the file exactly as long as --duration")
    add_speech_options(parser)
    add_retries_option(parser)
    add_disclose_options(parser)
    add_mark_option(parser)
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Load the model, speak, write the file and print a summary."""
    output = None if options.stream else wav_target(options.output, options.voice)
    check_voice_options(options)
    notice = _notice(options)
    text = read_text_stream(sys.stdin) if options.text == "-" else text_argument(options.text, "the text")
    engine = load_engine(options)
    request, warnings = request_from(options, engine, text)
    request = replace(request, duration=options.duration, exact_length=options.exact_length)
    if output is None:
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
        narrate.stream(engine, request, speaker_of(options, engine), chosen_mark(options))
        return
    start, speak = time.perf_counter(), speaker_of(options, engine, progress=True)
    (speech,) = speak(engine.plan([request]))
    waveform, spoken = speech.waveform, [speech]
    if notice is not None:
        waveform, said = disclosed(notice, engine, speech, speak)
        spoken.append(said)
    write_wav(output, waveform, mark=chosen_mark(options))
    took = time.perf_counter() - start
    for warning in dict.fromkeys([*warnings, *(warning for one in spoken for warning in one.warnings)]):
        print(f"warning: {warning}", file=sys.stderr)
    for note in (*speech.notes, *unused_entries([speech])):
        print(note, file=sys.stderr)
    print(f"{output}: {waveform.seconds:.2f} s of speech in {took:.1f} s, seed {speech.seed}")


def _notice(options: argparse.Namespace) -> Notice | None:
    """Return the spoken notice, or None; raises InputError for options that do not go with it."""
    notice = chosen_notice(options)
    if notice is not None and options.stream:
        raise InputError("--stream is written before its loudness is known: leave it out, or leave out --disclose")
    if notice is not None and options.exact_length:
        raise InputError("--exact-length has no room for a notice: leave it out, or leave out --disclose")
    return notice
