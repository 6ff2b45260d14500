"""The cast of a node: a growing list of voices, and a text that names them.

`speakers_from` in the engine says which name has which voice; what reaches the sockets is checked here.
"""

from __future__ import annotations

from collections.abc import Mapping

from comfy_api.latest import io

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import shown
from ...omnivoice.productions.cast import Speaker, speakers_from
from ...omnivoice.types import VoiceDesign, VoicePrompt
from ..widgets import Design, Voice

MAX_VOICES = 32
SOCKETS = [f"voice_{number}" for number in range(1, MAX_VOICES + 1)]


def cast_inputs(names: str = "") -> list[io.Input]:
    """Return the inputs `names`, a text with one name on each line, and `voices`, with a new socket for each voice."""
    socket = io.MultiType.Input("voice", types=[Voice, Design], optional=True)
    return [
        io.String.Input("names", multiline=True, default=names, dynamic_prompts=False, optional=True),
        io.Autogrow.Input("voices", template=io.Autogrow.TemplateNames(socket, names=SOCKETS, min=1), optional=True),
    ]


def cast_from(names: object, voices: object) -> tuple[Speaker, ...]:
    """Return the speakers that these inputs give; raises InputError. None means that nothing was given."""
    given = {} if voices is None else voices
    if not isinstance(given, Mapping):
        raise InputError(f"voices must come from nodes that give a voice or a design, got {shown(voices)}")
    numbered: dict[int, VoicePrompt | VoiceDesign] = {}
    for name, voice in given.items():
        if voice is None:
            continue
        if name not in SOCKETS or type(voice) not in (VoicePrompt, VoiceDesign):
            raise InputError(
                f"{shown(name)} of voices must come from Reference Audio, Load Voice, Synthesize or Voice Design "
                f"Attributes, got {shown(voice)}: connect one of them"
            )
        numbered[SOCKETS.index(name) + 1] = voice
    return speakers_from("" if names is None else names, numbered)
