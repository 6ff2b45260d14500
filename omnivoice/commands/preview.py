"""`preview`: what will be spoken, without speaking and, unless one is named, without a model."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from ..errors import InputError
from ..generate.plan import make_plan
from ..generate.preview import preview_report, spoken_text
from ..voice import VoicePrompt
from .models import add_model_options, load_engine
from .speech_options import VOICE_SUFFIX, add_speech_options, base_request
from .text_input import read_text_stream, text_argument


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of `preview`."""
    parser = commands.add_parser("preview", help="show what would be spoken, and how long, without speaking")
    parser.add_argument("text", help='what to say; "-" reads it from standard input')
    parser.add_argument("--voice", metavar="FILE", help="a saved voice (.safetensors), whose speaking rate counts")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="length of the speech")
    parser.add_argument(
        "--text-only", action="store_true", help="print the text as it will be spoken, and nothing else"
    )
    add_speech_options(parser)
    add_model_options(parser)
    parser.set_defaults(run=run, lora=[], strength=[])


def run(options: argparse.Namespace) -> None:
    """Print the report; with --model, that model's rules, vocabulary and recommendations count."""
    text = read_text_stream(sys.stdin) if options.text == "-" else text_argument(options.text, "the text")
    if options.voice and not options.voice.lower().endswith(VOICE_SUFFIX):
        raise InputError("preview takes a saved voice (.safetensors): save the recording with: voice save")
    voice = VoicePrompt.load(options.voice) if options.voice else None
    request = replace(base_request(options, text), voice=voice, duration=options.duration)
    tags: tuple[str, ...] = ()
    if options.model is None:
        plan = make_plan(request)
    else:
        engine = load_engine(options)
        (plan,), tags = engine.plan([request]), engine.rules.tags
    print(spoken_text(plan) if options.text_only else preview_report(plan, tags))
