"""`redo --line`: lines of a finished recording are spoken again, from its audio and its timings."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import InputError
from ..generate.filling import ORDERS
from ..intake.audio_files import fits_pcm16, read_audio, write_wav
from ..intake.files import write_atomic
from ..intake.mark_reader import mark_of_edit
from ..intake.marks import Mark
from ..productions.redo_places import RedoRequest
from ..productions.redo_speech import RedoneLines, parse_lines, redo_lines, redo_tools
from ..productions.timings import parse_timings, timings_json
from ..types import GenerationRequest, Sampling, Waveform
from .mark_option import chosen_mark
from .models import load_engine
from .speech_options import load_voice, show_progress
from .text_input import read_text_file

_OF_LINES = ("timings", "voice", "transcript", "design", "keep_length")
_OF_WORDS = ("text", "words", "span", "word_times", "context", "quick")


def add_line_options(parser: argparse.ArgumentParser) -> None:
    """Add the options with which `redo` speaks whole lines again."""
    lines = parser.add_argument_group("whole lines of a dialogue, a long text or subtitles, in place of words")
    lines.add_argument("--line", metavar="NUMBER", help="the line to speak again, from 1, or several such as 3,7")
    lines.add_argument(
        "--timings", metavar="FILE", help="the recording's times, as dialogue and narrate write them: NAME.wav.json"
    )
    lines.add_argument(
        "--voice",
        metavar="FILE",
        help="recording to clone, or a saved voice (.safetensors); default: the speaker's other lines",
    )
    lines.add_argument("--transcript", default="", metavar="TEXT", help="what the recording of --voice says")
    lines.add_argument("--design", metavar="WORDS", help="attributes of the voice, in place of --voice")
    lines.add_argument("--keep-length", action="store_true", help="as long as the old line: nothing after it moves")


def check_line_options(options: argparse.Namespace) -> bool:
    """Return whether lines are to be spoken again; raises InputError for options that do not go together."""
    if options.line is None:
        if given := [name for name in _OF_LINES if getattr(options, name)]:
            raise InputError(f"{_shown(given[0])} needs --line: say which line to speak again")
        if not options.text:
            raise InputError("redo needs --text and --words or --span, or --timings and --line")
        return False
    given = [name for name in _OF_WORDS if getattr(options, name)]
    if given or options.order != ORDERS[0]:
        raise InputError(
            f"{_shown((given or ['order'])[0])} is for words, but --line speaks a whole line: leave it out"
        )
    if not options.timings:
        raise InputError("--line needs --timings: the file of times that dialogue or narrate wrote with the recording")
    if options.transcript and not options.voice:
        raise InputError("--transcript needs --voice: it is the transcript of that recording")
    return True


def _shown(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def run_lines(options: argparse.Namespace, outputs: Sequence[Path]) -> None:
    """Speak the lines again, write a WAV file and its times for each take, and print what was done."""
    numbers, timings = parse_lines(options.line), parse_timings(read_text_file(options.timings))
    recording = read_audio(options.recording)
    mark = chosen_mark(options, mark_of_edit(options.recording))
    engine, start = load_engine(options), time.perf_counter()
    base = GenerationRequest(
        text="",
        design=options.design,
        language=options.language,
        seed=options.seed,
        sampling=Sampling(guidance=options.guidance),
        text_as_written=True if options.as_written else None,
    )
    if options.voice:
        voice = load_voice(engine, options.voice, options.transcript)
        for warning in voice.warnings:
            print(f"warning: {options.voice}: {warning}", file=sys.stderr)
        base = replace(base, voice=voice)
    tools = replace(redo_tools(engine), speak=partial(engine.generate_plans, on_step=show_progress))
    request = RedoRequest(recording, timings, numbers, base, options.keep_length)
    _write(outputs, recording, redo_lines(tools, request, len(outputs)), start, mark)


def _write(
    outputs: Sequence[Path], recording: Waveform, takes: Sequence[RedoneLines], start: float, mark: Mark | None
) -> None:
    subtype = "pcm16" if fits_pcm16(recording) else "float32"
    for warning in takes[0].warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for output, take in zip(outputs, takes):
        write_wav(output, take.waveform, subtype=subtype, mark=mark)
        times = timings_json(take.lines, take.waveform.seconds)
        write_atomic(output.with_name(f"{output.name}.json"), times.encode())
        print(f"{output}: {take.waveform.seconds:.2f} s, seed {take.seed}")
        for line in _report(take):
            print(f"  {line}")
    print(f"done in {time.perf_counter() - start:.1f} s")


def _report(take: RedoneLines) -> Iterator[str]:
    """Yield what was done in a take, a line of text for each line."""
    rate = take.waveform.sample_rate
    for piece, source, findings in zip(take.replaced, take.prepared.voices, take.findings):
        place = piece.place
        faults = "; ".join(one.text for one in findings) or "no fault found"
        yield (
            f"line {place.number}: {place.start / rate:.2f}-{place.end / rate:.2f} s became "
            f"{piece.start / rate:.2f}-{piece.end / rate:.2f} s, in {source}; joints {piece.joints[0]:.2f}, "
            f"{piece.joints[1]:.2f}; {faults}"
        )
