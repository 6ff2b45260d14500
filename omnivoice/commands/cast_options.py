"""The options that give speakers their voices, and the cast that they describe."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from ..engine import Engine
from ..errors import FileError, InputError
from ..intake.limits import MAX_CONFIG_BYTES, shown
from ..intake.strict_json import read_json
from ..productions.cast import Speaker
from .speech_options import load_voice

_CAST_KEYS = {"voice", "transcript", "design", "language"}


def add_cast_options(parser: argparse.ArgumentParser) -> None:
    """Add --voice and --cast."""
    parser.add_argument(
        "--voice",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="a recording to clone or a saved voice (.safetensors), for the speaker NAME or for all others",
    )
    parser.add_argument("--cast", metavar="JSON", help="voices by name, see docs/subtitles.md")


def members_from(options: argparse.Namespace) -> tuple[list[tuple[str, Mapping[str, str]]], Mapping[str, str]]:
    """Return [(name, what is given)] of the cast, and what is given for the default voice, without loading any."""
    members = _cast_file(Path(options.cast)) if options.cast else {}
    default = dict(members.pop("", {}))
    for given in options.voice:
        name, sign, file = given.partition("=")
        if os.path.lexists(given) or not sign:
            name, file = "", given
        own = default if not name else {}
        if "voice" in own or name in members:
            raise InputError(f"{shown(name) if name else 'the default voice'} is given twice: leave out one of them")
        own["voice"] = file
        if name:
            members[name] = own
    for key in ("transcript", "design"):
        if value := getattr(options, key, None):
            default[key] = value
    return [*members.items()], default


def recordings_of(members: Sequence[tuple[str, Mapping[str, str]]], default: Mapping[str, str]) -> list[str]:
    """Return the files of all voices."""
    return [given["voice"] for given in (*(own for _, own in members), default) if "voice" in given]


def _cast_file(path: Path) -> dict[str, Mapping[str, str]]:
    """Return {name: {"voice": file, "transcript": …, "design": …, "language": …}} of a JSON file; files are relative to
    its folder, and a name may have just the file. Raises FileError for anything else."""
    found = read_json(path, limit=MAX_CONFIG_BYTES)
    if not isinstance(found, dict):
        raise FileError(f'{path.name} must be an object of names, such as {{"Alice": {{"voice": "alice.wav"}}}}')
    members: dict[str, Mapping[str, str]] = {}
    for name, given in found.items():
        values = {"voice": given} if isinstance(given, str) else given
        if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise FileError(f"{path.name}: {shown(name)} must have a voice, transcript, design or language, all texts")
        if wrong := values.keys() - _CAST_KEYS:
            raise FileError(
                f"{path.name}: {shown(name)} has {shown(min(wrong))}, allowed are {', '.join(sorted(_CAST_KEYS))}"
            )
        own = cast("dict[str, str]", values)
        members[name] = {**own, "voice": str(path.parent / own["voice"])} if "voice" in own else own
    return members


def speaker_from(engine: Engine, name: str, given: Mapping[str, str]) -> Speaker:
    """Return one of the cast, with the recording encoded or the voice file read."""
    if given.get("transcript") and "voice" not in given:
        raise InputError(
            f"the transcript of {shown(name) if name else 'the default voice'} needs its recording: a voice"
        )
    voice = load_voice(engine, given["voice"], given.get("transcript", "")) if "voice" in given else None
    for warning in voice.warnings if voice else ():
        print(f"warning: {given['voice']}: {warning}", file=sys.stderr)
    return Speaker(name, voice, given.get("design"), given.get("language"))
