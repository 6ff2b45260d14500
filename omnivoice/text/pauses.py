"""Pauses written in the text: `[pause 0.5s]`, `[pause 300ms]`, `[pause]`, SSML's `<break time="500ms"/>`, scene breaks.

The model cannot be silent for a given time, and its pauses at punctuation vary. So the text is cut at each mark, the
pieces are spoken separately, and exactly that many zero samples are put between them. Marks are found before cleaning,
which would remove their brackets. A scene break is a line of marks, such as `* * *` or `———`, between two texts; it
lasts as long as `[pause]`. Other markup is removed and its text stays.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from ..errors import TextError
from ..intake.limits import MAX_PAUSE_SECONDS, MAX_PAUSES, MAX_PAUSES_SECONDS
from .characters import is_content
from .clean import plain_text
from .removed import Removed
from .rules import PUBLISHED, TextRules

DEFAULT_SECONDS = 0.5  # of a pause without a time
_TIME = r"(\d{1,9}(?:\.\d{1,9})?)[ \t]*(ms|s)?"
PAUSE = re.compile(
    rf"\[[ \t]*pause(?:[ \t]+{_TIME})?[ \t]*\]"
    rf"|<break(?:[ \t]+time[ \t]*=[ \t]*[\"']{_TIME}[\"'])?[ \t]*/?>(?:</break>)?",
    re.IGNORECASE,
)
ATTEMPT = re.compile(r"\[[ \t]*pause\b[^\[\]\n]{0,60}\]|<break\b[^<>\n]{0,100}>", re.IGNORECASE)
_SCENE_MARKS = frozenset("*＊⁎⁑⁂⁕※#＃§†‡•·∙⋅・.…⋯/\\%:&@☙\ufe0f")  # besides symbols, dashes and underscores


class PauseError(TextError):
    """A pause that cannot be read or is too long. mark: as it stands in the text."""

    def __init__(self, message: str, mark: str = "") -> None:
        super().__init__(message)
        self.mark = mark


@dataclass(frozen=True)
class Piece:
    """A piece of text and the seconds of silence before it; the text of the last piece may be empty."""

    pause_seconds: float
    text: str


def split_pauses(text: str, removed: Removed | None = None, rules: TextRules = PUBLISHED) -> list[Piece]:
    """Return the plain text cut at its pause marks, without them; a text without marks is one piece with no pause.
    A text that stays as written is one piece, too.

    Pauses without text between them add up. `removed` notes the markup. Raises PauseError for a mark that cannot be
    read, for a pause above 30 s, and for more than 2,000 pauses or 10 minutes of them in all.
    """
    removed = removed or Removed()
    text = plain_text(text, removed, rules)
    if rules.as_written:
        return [Piece(0.0, text)]
    pieces: list[Piece] = []
    end, pause, count, total = 0, 0.0, 0, 0.0
    for start, stop, seconds in _pauses(text):
        before = _words(text[end:start], removed)
        if before:
            pieces.append(Piece(pause, before))
            pause = 0.0
        count, total, pause, end = count + 1, total + seconds, pause + seconds, stop
        if count > MAX_PAUSES or total > MAX_PAUSES_SECONDS:
            raise PauseError(
                f"a text can have at most {MAX_PAUSES} pauses and {MAX_PAUSES_SECONDS} s of them in all, got more: "
                "split the text",
                text[start:stop],
            )
    if not pieces or pause or any(map(is_content, text[end:])):
        pieces.append(Piece(pause, _words(text[end:], removed) if pieces else text[end:]))
    else:
        removed.add("symbols", *text[end:])
    for piece in pieces:
        attempts = (mark for mark in ATTEMPT.finditer(piece.text) if mark[0][1:-1] not in rules.tags)
        if odd := next(attempts, None):
            given = rules.restored(odd[0])
            reason = f"the pause {given[:60]!r} cannot be read: write [pause 0.5s] or [pause 300ms]"
            raise PauseError(reason, given)
    return pieces


def _words(piece: str, removed: Removed) -> str:
    """Return `piece`, or nothing if there is no word in it, which would leave the model without a text."""
    if any(map(is_content, piece)):
        return piece
    removed.add("symbols", *piece)
    return ""


def _pauses(text: str) -> list[tuple[int, int, float]]:
    """Return (start, end, seconds) of every pause mark and of every scene break that is between two words, in order."""
    found = [(mark.start(), mark.end(), pause_seconds(mark)) for mark in PAUSE.finditer(text)]
    scenes = _scene_breaks(text)
    if not scenes:
        return found
    words = PAUSE.sub(lambda mark: " " * len(mark[0]), text)
    spoken = [place for place, char in enumerate(words) if is_content(char)] or [0]
    inside = ((start, end, DEFAULT_SECONDS) for start, end in scenes if spoken[0] < start < spoken[-1])
    return sorted([*found, *inside])


def _scene_breaks(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of the lines of marks; such lines with nothing but blanks between them are one."""
    breaks: list[tuple[int, int]] = []
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if is_scene_break(line):
            joined = bool(breaks) and not text[breaks[-1][1] : start].strip()
            breaks.append((breaks.pop()[0] if joined else start, end))
        start = end + 1
    return breaks


def is_scene_break(line: str) -> bool:
    """Whether a line consists of scene-break marks."""
    return bool(line.strip()) and all(map(_is_scene_mark, line.strip()))


def _is_scene_mark(char: str) -> bool:
    drawn = unicodedata.category(char) in ("Sm", "So", "Sk", "Pd", "Pc") and char != "|"  # a table's rule has bars
    return drawn or char in _SCENE_MARKS or char in " \t"


def pause_seconds(mark: re.Match[str]) -> float:
    """Return the seconds of a match of `PAUSE`; raises PauseError above 30 s."""
    number, unit = (mark[1], mark[2]) if mark[1] else (mark[3], mark[4])
    if number is None:
        return DEFAULT_SECONDS
    seconds = float(number) / (1000 if (unit or "s").lower() == "ms" else 1)
    if seconds > MAX_PAUSE_SECONDS:
        raise PauseError(
            f"a pause must be 0-{MAX_PAUSE_SECONDS} s, got {mark[0]}: use several, or insert silence afterwards",
            mark[0],
        )
    return seconds
