"""Finds the cues in the lines of an SRT or WebVTT file.

The times make a cue, so missing numbers, missing blank lines and blank lines inside a text do no harm. A text goes on
until the number, or in WebVTT the name, of the next cue. WebVTT's NOTE, STYLE and REGION blocks are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from ..errors import TextError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_CUE_CHARS, MAX_CUES, shown
from .cue_times import read_times

_LINE_END = re.compile("\r\n|[\r\n\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}]")
_NUMBER = re.compile(r"\d{1,9}")
_COMMENT = re.compile(r"(?:NOTE|STYLE|REGION)(?:[ \t:].*)?")
_OTHER_FORMATS = (
    (re.compile(r"\[Script Info\]|^Dialogue:", re.MULTILINE), "ASS subtitles"),
    (re.compile(r"^\{\d+\}\{\d+\}", re.MULTILINE), "MicroDVD subtitles"),
    (re.compile(r"<(?:tt|sami)\b", re.IGNORECASE), "TTML or SAMI subtitles"),
    (re.compile(r"^\d+:\d\d:\d\d\.\d+,\d+:\d\d:\d\d\.\d+", re.MULTILINE), "SBV subtitles"),
    (re.compile(r"^\[\d+:\d\d[.:]\d+\]", re.MULTILINE), "LRC lyrics"),
)


@dataclass(frozen=True)
class Block:
    """A cue as it stands in the file. rows: its text without blank lines. had_number: whether the file numbers it.
    gapped: blank lines stood inside its text."""

    number: int
    line: int
    start_ms: int
    end_ms: int | None
    rows: tuple[str, ...]
    had_number: bool
    gapped: bool = False


@dataclass(frozen=True)
class Blocks:
    """The cues in the order of the file, the rows before the first one as (line, row), the kinds of the comments, and
    whether it is WebVTT."""

    cues: tuple[Block, ...]
    before: tuple[tuple[int, str], ...]
    comments: tuple[str, ...]
    is_vtt: bool


def find_blocks(text: str) -> Blocks:
    """Return the cues of a subtitle file.

    Raises TextError for a text without any times, for more than 10,000 cues, for a cue of more than 10,000
    characters, and for times that cannot be read.
    """
    rows = [row.strip(" \t\xa0\u3000") for row in _LINE_END.split(text)]
    first = next((row for row in rows if row), "")
    is_vtt = re.match(r"WEBVTT(?![\w])", first) is not None
    found_times = ((i, found) for i, row in enumerate(cancellable(rows, 1_024)) if (found := read_times(row, i + 1)))
    times = dict(islice(found_times, MAX_CUES + 1))
    if not times:
        raise TextError(_no_cues(text, is_vtt))
    if len(times) > MAX_CUES:
        line = [*times][MAX_CUES] + 1
        raise TextError(f"line {line}: subtitles can have at most {MAX_CUES} cues: split the file")
    comments = _take_comments(rows, times) if is_vtt else []
    cues: list[Block] = []
    before: list[tuple[int, str]] = []
    number, head = 0, rows.index(first) + 1 if is_vtt else 0
    for place, found in cancellable(times.items(), 256):
        own, start = _number_above(rows, place, head, {number + 1, len(cues) + 1}, is_vtt)
        own = own if found.number is None else found.number
        if cues:
            cues[-1] = _with_rows(cues[-1], rows[head:start])
        else:
            before = [(i + 1, rows[i]) for i in range(head, start) if rows[i]]
        number, head = number + 1 if own is None else own, place + 1
        cues.append(Block(number, place + 1, found.start_ms, found.end_ms, (found.text,), own is not None))
    cues[-1] = _with_rows(cues[-1], rows[head:])
    return Blocks(tuple(cues), tuple(before), tuple(comments), is_vtt)


def _take_comments(rows: list[str], times: Collection[int]) -> list[str]:
    """Empty the rows of NOTE, STYLE and REGION blocks, which start after a blank row and go on to the next one or to
    the times of a cue; return the kinds in order."""
    kinds: list[str] = []
    inside = blank = False
    for i, row in enumerate(rows):
        if not row or i in times:
            inside = False
        elif blank and i + 1 not in times and _COMMENT.fullmatch(row):
            inside = True
            kinds.append(re.split(r"[ \t:]", row)[0])
        blank = not row
        if inside:
            rows[i] = ""
    return kinds


def _number_above(
    rows: Sequence[str], place: int, head: int, expected: Collection[int], is_vtt: bool
) -> tuple[int | None, int]:
    """Return the number of the cue whose times are in row `place`, None without one, and the row where the cue starts.

    head: the first row below the times of the cue before. A number counts if a blank row separates it from the text
    above, or if it is one of the expected ones; with a blank row below it, only if both hold.
    """
    above = place - 1
    while above >= head and not rows[above]:
        above -= 1
    if above < head:
        return None, place
    separate = not rows[above - 1] if above > head else 1 in expected  # the first cue has nothing above it
    if not _NUMBER.fullmatch(rows[above]):
        named = is_vtt and separate and above == place - 1
        return None, above if named else place
    number = int(rows[above])
    if above == place - 1:
        return (number, above) if separate or number in expected else (None, place)
    return (number, above) if separate and number in expected else (None, place)


def _with_rows(cue: Block, rows: Sequence[str]) -> Block:
    """Return `cue` with the rows of its text."""
    kept = [row for row in (*cue.rows, *rows) if row]
    if sum(map(len, kept)) > MAX_CUE_CHARS:
        raise TextError(
            f"line {cue.line}: the text of a cue can have at most {MAX_CUE_CHARS} characters: split the cue"
        )
    texts = "\n".join(rows).strip("\n")
    return replace(cue, rows=tuple(kept), gapped="\n\n" in texts)


def _no_cues(text: str, is_vtt: bool) -> str:
    """Return why a text without times is refused."""
    for pattern, name in _OTHER_FORMATS:
        if pattern.search(text):
            return f"these are {name}: convert them to SRT or WebVTT first, for example with Subtitle Edit or ffmpeg"
    line = text.strip()
    if re.fullmatch(r"[^\n]{1,500}\.(?:srt|vtt)", line, re.IGNORECASE):
        return f"subtitles are given as their text, got the name of a file, {shown(line)}: open it and copy its content"
    got = "only a WEBVTT header" if is_vtt else shown(line) if line else "an empty text"
    return f"subtitles must have times such as 00:00:01,500 --> 00:00:02,000, got {got}"
