"""Pauses written in the text: `[pause 0.5s]`, `[pause 300ms]`, `[pause]`, and SSML's `<break time="500ms"/>`.

The model cannot be silent for a given time, and its pauses at punctuation vary. So the text is cut at each mark, the
pieces are spoken separately, and exactly that many zero samples are put between them. Marks are found before cleaning,
which would remove their brackets. Other SSML tags are removed and their text stays.
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
    """A piece of text and the seconds of silence before it; the text of the last piece may be empty."""

    pause_seconds: float
    text: str


def split_pauses(text: str) -> list[Piece]:
    """Return `text` cut at its pause marks, without the marks; a text without marks is one piece with no pause.

    Pauses without text between them add up. Raises TextError for a mark that cannot be read, for a pause above 30 s,
    and for more than 2,000 pauses or 10 minutes of them in all.
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
                f"a text can have at most {MAX_PAUSES} pauses and {MAX_PAUSES_SECONDS} s of them in all, got more: "
                "split the text"
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
        raise TextError(
            f"a pause must be 0-{MAX_PAUSE_SECONDS} s, got {mark[0]}: use several, or insert silence afterwards"
        )
    return seconds
