"""`dialogue`: a script and a cast of voices to one WAV file, with its times; resumes after a stop."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..intake.audio_files import write_wav
from ..intake.files import write_atomic
from ..intake.marks import Mark
from ..productions.cast import Cast, Speaker
from ..productions.dialogue import Dialogue, DialogueOptions, speak_dialogue
from ..productions.kept import KeptSpeech, parts_folder
from ..productions.long import parts_at_once
from ..productions.redo import parse_redo
from ..productions.takes import SpeakWithRetries
from ..productions.timings import srt_of, timed_lines, timings_json
from ..text.rules import TextRules
from ..text.script import Script, folded, parse_script, speaker_names, unused_warnings
from ..types import GenerationRequest, Speech
from .cast_options import add_cast_options, members_from, recordings_of, speaker_from
from .mark_option import add_mark_option, chosen_mark
from .models import add_lora_options, add_model_options, load_identified
from .speech_options import (
    add_redo_option,
    add_retries_option,
    add_speech_options,
    base_request,
    show_progress,
    wav_target,
)
from .text_input import read_text_file, read_text_stream


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `dialogue`."""
    defaults = DialogueOptions()
    parser = commands.add_parser("dialogue", help="speak a script with several speakers to a WAV file")
    parser.add_argument(
        "script", metavar="FILE", help='a UTF-8 text file, see docs/script.md; "-" reads standard input'
    )
    parser.add_argument("-o", "--output", default="dialogue.wav", metavar="WAV", help="default: dialogue.wav")
    add_cast_options(parser)
    parser.add_argument(
        "--speaker", action="append", default=[], metavar="NAME", help="a speaker whose voice the model chooses"
    )
    parser.add_argument(
        "--gap",
        type=float,
        default=defaults.gap_seconds,
        metavar="SECONDS",
        help=f"silence between two lines of one speaker, default {defaults.gap_seconds:g}",
    )
    parser.add_argument(
        "--change",
        type=float,
        default=defaults.change_seconds,
        metavar="SECONDS",
        help=f"silence where another speaker begins, default {defaults.change_seconds:g}",
    )
    parser.add_argument("--equal-loudness", action="store_true", help="make all speakers equally loud")
    add_redo_option(parser, "line")
    add_speech_options(parser, resumes=True)
    add_retries_option(parser)
    add_mark_option(parser)
    add_model_options(parser)
    add_lora_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Speak the script, write the WAV file, its times and subtitles, and print a summary."""
    members, default = members_from(options)
    output, redo = wav_target(options.output, *recordings_of(members, default)), parse_redo(options.redo)
    text = read_text_stream(sys.stdin) if options.script == "-" else read_text_file(options.script)
    names = [*(name for name, _ in members), *options.speaker]
    how = DialogueOptions(options.gap, options.change, options.equal_loudness)
    options.seed = 0 if options.seed is None else options.seed  # a run that resumes needs the same one
    with parts_folder(output) as folder:
        (engine, identity), start = load_identified(options), time.perf_counter()
        script = _script(text, names, engine.rules, has_default=bool(default))
        speakers = [speaker_from(engine, name, given) for name, given in members]
        cast = Cast((*speakers, *map(Speaker, options.speaker)), speaker_from(engine, "", default))
        together = parts_at_once(engine.sampler.device)
        kept = KeptSpeech(folder, engine.generate_plans, model=identity, together=together)
        retrying = SpeakWithRetries(partial(kept, on_step=show_progress), options.retries)

        def speak(requests: Sequence[GenerationRequest], /) -> list[Speech]:
            return retrying(engine.plan(requests))

        base, retries = base_request(options), options.retries
        dialogue = speak_dialogue(script, cast, base, engine.plan, speak, how, redo=redo, retries=retries)
        _write(output, dialogue, engine.rules, chosen_mark(options))
        if not options.keep_parts:
            kept.remove()
    for line in (*(f"warning: {warning}" for warning in dialogue.warnings), *dialogue.notes):
        print(line, file=sys.stderr)
    seconds, took = dialogue.waveform.seconds, time.perf_counter() - start
    first = dialogue.lines[0].request.seed
    resumed = f", {kept.read} from an earlier run" if kept.read else ""
    print(f"{output}: {len(dialogue.lines)} lines, {seconds:.2f} s of speech in {took:.1f} s, seed {first}{resumed}")


def _script(text: str, names: Sequence[str], rules: TextRules, *, has_default: bool) -> Script:
    """Return the script. Without names, or with a voice for all others, every name in it is a speaker."""
    if not has_default:
        return parse_script(text, names or None, rules)
    script = parse_script(text, None, rules)
    spoken = {folded(line.speaker or "") for line in script.lines}
    unused = [name for key, name in speaker_names(names).items() if key not in spoken] if names else []
    return replace(script, warnings=(*script.warnings, *unused_warnings(unused)))


def _write(output: Path, dialogue: Dialogue, rules: TextRules, mark: Mark | None) -> None:
    """Write the WAV file, and next to it the times as JSON and the subtitles as SRT."""
    lines = timed_lines(dialogue.lines, rules)
    write_wav(output, dialogue.waveform, mark=mark)
    write_atomic(output.with_name(f"{output.name}.json"), timings_json(lines, dialogue.waveform.seconds).encode())
    write_atomic(output.with_name(f"{output.name}.srt"), srt_of(lines, rules).encode())
