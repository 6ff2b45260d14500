"""Pauses written in the text: `[pause 0.5s]`, `[pause 300ms]`, `[pause]`, and SSML's `<break time="500ms"/>`.

The model cannot be told to be silent for a time (punctuation pauses are random), so text is cut at each mark, the
pieces are spoken apart, and exactly that many zero samples are put between. Unusual: the marks are found before any
cleaning, since that would take their brackets apart. No other SSML is understood: its tags go, its text stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import TextError
from ..intake.limits import MAX_PAUSE_SECONDS, MAX_PAUSES, MAX_PAUSES_SECONDS

DEFAULT_SECONDS = 0.5  # of a pause without a time
_TIME = r"(\d{1,9}(?:\.\d{1,9})?)[ \t]*(ms|s)?"
_PAUSE = re.compile(
    rf"\[[ \t]*pause(?:[ \t]+{_TIME})?[ \t]*\]"
    rf"|<break(?:[ \t]+time[ \t]*=[ \t]*[\"']{_TIME}[\"'])?[ \t]*/?>(?:</break>)?",
    re.IGNORECASE,
)
_ATTEMPT = re.compile(r"\[[ \t]*pause\b[^\[\]\n]{0,60}\]|<break\b[^<>\n]{0,100}>", re.IGNORECASE)
_SSML = re.compile(
    r"</?(?:speak|voice|prosody|emphasis|say-as|phoneme|sub|lang|audio|mark|[ps])"
    r"(?:[ \t]+[\w:-]+=[\"'][^\"'<>\n]{0,200}[\"'])*[ \t]*/?>",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Piece:
    """A stretch of text and the seconds of silence before it; the last piece's text may be empty."""

    pause_seconds: float
    text: str


def split_pauses(text: str) -> list[Piece]:
    """`text` cut at its pause marks, without them; one piece, with no pause, if there are none.

    Pauses without text between add up. Raises TextError for a mark that cannot be read, a pause above 30 s, more
    than 2,000 of them or more than 10 minutes in all.
    """
    text = _SSML.sub(" ", text)
    pieces: list[Piece] = []
    end, pause, count, total = 0, 0.0, 0, 0.0
    for mark in _PAUSE.finditer(text):
        before = text[end : mark.start()]
        if before.strip():
            pieces.append(Piece(pause, before))
            pause = 0.0
        seconds = _seconds(mark)
        count, total, pause, end = count + 1, total + seconds, pause + seconds, mark.end()
        if count > MAX_PAUSES or total > MAX_PAUSES_SECONDS:
            raise TextError(
                f"a text may hold {MAX_PAUSES} pauses and {MAX_PAUSES_SECONDS} s of them in all, got more: split it"
            )
    pieces.append(Piece(pause, text[end:]))
    if not pieces[-1].text.strip() and len(pieces) > 1 and pause == 0:
        pieces.pop()
    for piece in pieces:
        if odd := _ATTEMPT.search(piece.text):
            raise TextError(f"the pause {odd[0][:60]!r} cannot be read: write [pause 0.5s] or [pause 300ms]")
    return pieces


def _seconds(mark: re.Match[str]) -> float:
    number, unit = (mark[1], mark[2]) if mark[1] else (mark[3], mark[4])
    if number is None:
        return DEFAULT_SECONDS
    seconds = float(number) / (1000 if (unit or "s").lower() == "ms" else 1)
    if seconds > MAX_PAUSE_SECONDS:
        raise TextError(f"a pause must be 0-{MAX_PAUSE_SECONDS} s, got {mark[0]}: use several, or silence of your own")
    return seconds
