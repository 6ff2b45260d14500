"""The columns of a list of recordings: their names in a header, and how a line is split into cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..errors import InputError
from ..intake.limits import shown

# The columns of a table with a header, by the field of `rows.Row` that they fill, the preferred one first. Upper and
# lower case are the same, and so are spaces, hyphens and underscores.
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": (
            *("audio_path", "audio", "audio_file", "audio_filepath", "audio_filename", "audio_file_path"),
            *("wav_filename", "wav_path", "wav_file", "wav", "file_name", "filename", "file_path", "filepath", "file"),
            *("path", "recording", "clip", "id"),
        ),
        "text": (
            *("normalized_text", "text_normalized", "normalized_transcription", "text", "transcription", "transcript"),
            *("sentence", "raw_transcription", "raw_text"),
        ),
        "language": ("language_id", "language", "lang", "locale", "language_code"),
        "instruct": ("instruct",),
        "pinyin": ("text_pinyin",),
        "clean_start": ("clean_start_token_idx",),
    }
)
FIELD_OF: Mapping[str, str] = MappingProxyType({name: field for field, names in COLUMNS.items() for name in names})
PART_STARTS = ("offset", "start", "start_time", "begin")  # in seconds or milliseconds: the row is a part of a recording
MARKS = ("|", "\t", ";", ",")
FIRST_ONLY = (" ", ":")  # separators of which only the first one in a line counts
_QUOTED = {mark: re.compile(rf'"((?:[^"]|"")*)"(?:{mark}|\Z)|([^{mark}]*)(?:{mark}|\Z)') for mark in (",", ";")}
MAX_CELLS = 256  # of a row; they are counted before their quotes are looked at
_TOO_MANY = f"it has more than {MAX_CELLS} fields"
_WHOLE_QUOTED = re.compile(r'"(?:[^"]|"")*"')


def folded(name: str) -> str:
    """Return the name of a column as `COLUMNS` writes it."""
    return re.sub(r"[ \-]+", "_", name.strip().strip('"').strip().casefold())


def header_of(line: str, marks: tuple[str, ...], has: Callable[[str], bool], file: str) -> tuple[str, list[str]] | None:
    """Return (separator, names of the columns) if the first line of a list is a header, None if it is a row.

    has: whether a recording of that name exists; such a line is a row. Raises InputError for a header with a column for
    the recording but none for the text, or the other way round.
    """
    best: tuple[str, list[str]] | None = None
    for mark in marks:
        header = [folded(name) for name in line.split(mark)]
        fields = {FIELD_OF.get(name) for name in header}
        if {"audio", "text"} <= fields:
            return mark, header
        cells = line.split(mark)[:MAX_CELLS]
        if best is None and fields & {"audio", "text"} and not any(has(cell.strip()) for cell in cells):
            best = mark, header
    if best is None:
        return None
    names = ", ".join(shown(name) for name in best[1][:10])
    lacks = "text" if any(FIELD_OF.get(name) == "audio" for name in best[1]) else "audio"
    what = {"text": "the text", "audio": "the recording"}[lacks]
    raise InputError(f"{file} has the columns {names}, and none of them is known as {what}: call that column {lacks}")


def split_cells(line: str, mark: str) -> list[str]:
    """Return the cells of a line; raises InputError for too many, and if a quoted cell is not closed properly."""
    if mark in FIRST_ONLY:
        return line.strip().split(None if mark == " " else mark, 1)
    if mark in _QUOTED:
        return _split_quoted(line, mark)
    if line.count(mark) >= MAX_CELLS:
        raise InputError(_TOO_MANY)
    cells = line.split(mark)
    quoted = [_WHOLE_QUOTED.fullmatch(cell.strip()) for cell in cells]
    if mark == "\t" or all(quoted):
        cells = [cell.strip()[1:-1].replace('""', '"') if found else cell for cell, found in zip(cells, quoted)]
    return cells


def _split_quoted(line: str, mark: str) -> list[str]:
    cells, at = list[str](), 0
    while at <= len(line):
        match = _QUOTED[mark].match(line, at)
        if match is None or (match[1] is None and match[2].startswith('"')):
            raise InputError("a quote is not closed: write the row on one line, and double the quotes in a text")
        if len(cells) == MAX_CELLS:
            raise InputError(_TOO_MANY)
        cells.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        if not match[0].endswith(mark):
            break
        at = match.end()
    return cells
