"""`voice save | import | show`: voice files for `speak --voice`, from a recording or from upstream's prompt.pt.

Upstream's prompts are pickles. `upstream_prompt.py` reads them as data and executes nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..constants import FRAME_RATE
from ..errors import InputError
from ..types import VoicePrompt
from .models import add_model_options, load_engine
from .speak import VOICE_SUFFIX, load_voice
from .upstream_prompt import read_upstream_prompt


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register `voice` and its three actions."""
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
    for action, run in ((save, run_save), (convert, run_import)):
        action.add_argument("-o", "--output", metavar="FILE", help="default: the same name, .safetensors")
        action.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
        action.set_defaults(run=run)
    show.set_defaults(run=run_show)


def run_save(options: argparse.Namespace) -> None:
    """Encode a recording and write the voice file."""
    output = output_path(options.output, options.recording, overwrite=options.overwrite)
    voice = load_voice(load_engine(options), options.recording, options.transcript)
    for warning in voice.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    voice.save(output)
    print(f"{output}: {describe(voice)}")


def run_import(options: argparse.Namespace) -> None:
    """Convert a prompt.pt and write the voice file."""
    output = output_path(options.output, options.prompt, overwrite=options.overwrite)
    voice = read_upstream_prompt(options.prompt)
    voice.save(output)
    print(f"{output}: {describe(voice)}")


def run_show(options: argparse.Namespace) -> None:
    """Print what a voice file contains."""
    voice = VoicePrompt.load(options.voice)
    print(f"{options.voice}: {describe(voice)}\ntranscript: {voice.text or '(none)'}")


def output_path(named: str | None, source: str, *, overwrite: bool) -> Path:
    """Return the path to write to; refuses to replace a file without --overwrite."""
    path = Path(named) if named else Path(source).with_suffix(VOICE_SUFFIX)
    if path.suffix.lower() != VOICE_SUFFIX:
        raise InputError(f"a voice file must end in {VOICE_SUFFIX}, got {path.name}")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists: choose another name with -o, or add --overwrite")
    return path


def describe(voice: VoicePrompt) -> str:
    """Return one line about a voice."""
    K, T = voice.codes.shape
    return f"{T / FRAME_RATE:.2f} s, {K} codebooks, level {voice.rms:.4f}, codec {voice.codec or 'unknown'}"
