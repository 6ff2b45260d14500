"""`voice save | import | show`: voice files for `speak --voice`, from a recording or from upstream's prompt.pt.

Upstream's prompts are pickles. `upstream_prompt.py` reads them as data and executes nothing.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ..constants import FRAME_RATE
from ..errors import InputError
from ..intake.limits import MAX_CONSENT_CHARS
from ..intake.voice_files import clean_label
from ..types import VoicePrompt
from ..voice import CONSENT_KINDS
from .models import add_model_options, load_engine
from .speech_options import VOICE_SUFFIX, load_voice
from .text_input import text_argument
from .upstream_prompt import read_upstream_prompt

WORDS = ", ".join(CONSENT_KINDS)


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of `voice` and its three actions."""
    parser = commands.add_parser("voice", help="save, import or show a voice file")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    save = actions.add_parser("save", help="encode a recording into a voice file")
    save.add_argument("recording")
    save.add_argument("--transcript", default="", metavar="TEXT", help="the transcript of the recording, word for word")
    add_model_options(save)
    convert = actions.add_parser("import", help="convert a prompt.pt that upstream's OmniVoice saved")
    convert.add_argument("prompt")
    show = actions.add_parser("show", help="show what a voice file contains")
    show.add_argument("voice")
    for action in (save, convert):
        action.add_argument(
            "--consent", default="", metavar="NOTE", help=f"who allowed the use of this voice; begin with {WORDS}"
        )
        action.add_argument("-o", "--output", metavar="FILE", help="default: the same name, .safetensors")
        action.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
        action.set_defaults(run=run_write)
    show.set_defaults(run=run_show)


def run_write(options: argparse.Namespace) -> None:
    """Encode a recording, or convert a prompt.pt, and write the voice file."""
    note = clean_label(text_argument(options.consent, "--consent"), "--consent", MAX_CONSENT_CHARS)
    source = options.recording if options.action == "save" else options.prompt
    output = Path(options.output) if options.output else Path(source).with_suffix(VOICE_SUFFIX)
    if output.suffix.lower() != VOICE_SUFFIX:
        raise InputError(f"a voice file must end in {VOICE_SUFFIX}, got {output.name}")
    if output.exists() and not options.overwrite:
        raise InputError(f"{output} exists: choose another name with -o, or add --overwrite")
    if options.action == "save":
        voice = load_voice(load_engine(options), source, options.transcript)
    else:
        voice = read_upstream_prompt(source)
    voice = replace(voice, consent=note or voice.consent)
    for warning in voice.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    voice.save(output)
    print(f"{output}: {_describe(voice)}")


def run_show(options: argparse.Namespace) -> None:
    """Print what a voice file contains."""
    voice = VoicePrompt.load(options.voice)
    print(f"{options.voice}: {_describe(voice)}\ntranscript: {voice.text or '(none)'}")
    print(f"consent: {voice.consent or '(not noted)'}")


def _describe(voice: VoicePrompt) -> str:
    K, T = voice.codes.shape
    return f"{T / FRAME_RATE:.2f} s, {K} codebooks, level {voice.rms:.4f}, codec {voice.codec or 'unknown'}"
