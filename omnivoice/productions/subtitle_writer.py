"""Writes cues as SRT or WebVTT, which `subtitle_parser` reads back to the same times, speakers and texts."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from .cue_times import time_text
from .cues import Cue

_ARROW = re.compile(r"(?=.*\d).*(?:[-=\u2013\u2014] ?>|[\u2192\u21d2])")
_HEAD = re.compile("[>\u2192\u21d2]")
_OTHER_ARROW = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"


def srt_text(cues: Sequence[Cue]) -> str:
    """Return the cues as SRT, numbered from 1. A speaker stands before the text, as in `Alice: Hello`."""
    blocks = []
    for number, cue in enumerate(cues, 1):
        speaker = f"{cue.speaker}: " if cue.speaker else ""
        times = f"{time_text(cue.start_ms)} --> {time_text(cue.end_ms)}"
        blocks.append(f"{number}\n{times}\n{speaker}{_text(cue)}\n")
    return "\n".join(blocks)


def vtt_text(cues: Sequence[Cue]) -> str:
    """Return the cues as WebVTT, numbered from 1. A speaker is a voice tag, as in `<v Alice>Hello`."""
    blocks = ["WEBVTT\n"]
    for number, cue in enumerate(cues, 1):
        speaker = f"<v {html.escape(cue.speaker, quote=False)}>" if cue.speaker else ""
        times = f"{time_text(cue.start_ms, '.')} --> {time_text(cue.end_ms, '.')}"
        blocks.append(f"{number}\n{times}\n{speaker}{html.escape(_text(cue), quote=False)}\n")
    return "\n".join(blocks)


def _text(cue: Cue) -> str:
    """Return the text of a cue. A row with an arrow and a digit, which may be taken for times, gets other arrows."""
    rows = cue.text.split("\n")
    return "\n".join(_HEAD.sub(_OTHER_ARROW, row) if _ARROW.search(row) else row for row in rows)
