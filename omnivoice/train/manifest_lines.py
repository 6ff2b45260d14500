"""Lists of recordings, line by line: LJSpeech's `id|text|normalized text`, tables with a header, upstream's JSONL.

Every line is one row, so a stray quote spoils only its own row. Every line that is not blank gives the values of a row
or a reason to reject it. Lines end with LF, CRLF or CR; U+2028 and form feeds belong to the text. This file looks up no
path and cleans no text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ..errors import FileError, InputError
from ..intake.files import read_bytes
from ..intake.limits import MAX_DATASET_ROWS, MAX_MANIFEST_BYTES, MAX_ROW_CHARS, shown
from ..intake.paths import shown_name
from ..intake.strict_json import parse_json

# The columns of a table with a header, by the field of `rows.Row` that they fill, the preferred one first.
COLUMNS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "audio": ("audio_path", "audio", "audio_file", "audio_filepath", "file_name", "filename", "file", "path", "id"),
        "text": ("normalized_text", "text", "transcription", "transcript", "sentence"),
        "language": ("language_id", "language", "lang", "locale"),
        "instruct": ("instruct",),
        "pinyin": ("text_pinyin",),
        "clean_start": ("clean_start_token_idx",),
    }
)
_FIELD_OF = {column: field for field, columns in COLUMNS.items() for column in columns}
# Upstream's JSONL: key -> field.
_UPSTREAM = ("audio_path", "text", "language_id", "instruct", "text_pinyin", "clean_start_token_idx")
JSON_KEYS: Mapping[str, str] = MappingProxyType({"id": "name", **{key: _FIELD_OF[key] for key in _UPSTREAM}})
_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(?:,|\Z)|([^,]*)(?:,|\Z)')

Values = dict[str, str]  # by field, with the name of the row


class Line(NamedTuple):
    """One line that is not blank. values: by the fields of `rows.Row`. reason: why the row is rejected, or ""."""

    name: str
    values: Values
    reason: str = ""


@dataclass(frozen=True)
class Lines:
    """The lines of one list, and the columns or keys that are not used."""

    rows: list[Line]
    unused: list[str]


def read_table(path: Path) -> Lines:
    """Read an LJSpeech list, or a table with a header, separated by commas, tabs or bars; raises FileError.

    Quoting exists only with commas, as spreadsheets write it; elsewhere a quote is an ordinary character.
    """
    lines = _lines(path)
    first = next(lines, (0, ""))
    for mark in ("|", "\t", ","):
        header = [name.strip().strip('"').strip().casefold() for name in first[1].split(mark)]
        if {"audio", "text"} <= {_FIELD_OF.get(name) for name in header}:
            unused = dict.fromkeys(shown(name) for name in header if name not in _FIELD_OF)
            return Lines(_parsed(lines, partial(_by_header, header=header, mark=mark)), list(unused))
    return Lines(_parsed(chain([first], lines) if first[1] else (), _by_place), [])


def read_jsonl(path: Path) -> Lines:
    """Read upstream's JSONL (`JSON_KEYS`); raises FileError."""
    unused: dict[str, None] = {}
    return Lines(_parsed(_lines(path), lambda line: _from_json(line, unused)), list(unused))


def read_plain(path: Path, *, limit: int) -> str:
    """Return the content of a text file in UTF-8, or in UTF-16 with a byte order mark.

    Raises FileError, which names the first line in another encoding.
    """
    data = read_bytes(path, limit=limit)
    coding = "utf-16" if data[:2] in _WIDE_BOMS else "utf-8-sig"
    try:
        return data.decode(coding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(coding, "ignore").count("\n") + 1
        kind = coding.upper().removesuffix("-SIG")
        raise FileError(f"{shown_name(path)} is not {kind} in line {line}: save it as UTF-8") from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of every line that is not blank; blank lines count for the number."""
    text = read_plain(path, limit=MAX_MANIFEST_BYTES)
    if text.count("\n") + text.count("\r") > 2 * MAX_DATASET_ROWS:
        raise FileError(f"{shown_name(path)} must have at most {MAX_DATASET_ROWS} lines: split it into parts")
    start = 0
    for number, end in enumerate(chain(_LINE_ENDS.finditer(text), [None]), start=1):
        line = text[start : end.start() if end else None]
        start = end.end() if end else start
        if line.strip():
            yield number, line


def _parsed(lines: Iterable[tuple[int, str]], parse: Callable[[str], Values]) -> list[Line]:
    found: list[Line] = []
    for number, line in lines:
        try:
            if len(line) > MAX_ROW_CHARS:
                raise InputError(f"it must have at most {MAX_ROW_CHARS} characters")
            values = parse(line)
        except (FileError, InputError) as error:
            found.append(Line(f"line {number}", {}, str(error)))
        else:
            found.append(Line(values.pop("name", "") or f"line {number}", values))
    return found


def _by_header(line: str, header: list[str], mark: str) -> Values:
    cells = _split_quoted(line) if mark == "," else line.split(mark)
    if len(cells) > len(header):
        raise InputError(f"it has {len(cells)} fields, the header {len(header)}: put texts with commas in quotes")
    given = {name: cell.strip() for name, cell in zip(reversed(header[: len(cells)]), reversed(cells)) if cell.strip()}
    found = {what: next((given[name] for name in known if name in given), "") for what, known in COLUMNS.items()}
    return {**found, "name": Path(found["audio"]).name}


def _split_quoted(line: str) -> list[str]:
    """Return the fields of a comma-separated line; raises InputError if a quoted field is not closed properly."""
    cells, at = [], 0
    while at <= len(line):
        match = _QUOTED.match(line, at)
        if match is None or (match[1] is None and match[2].startswith('"')):
            raise InputError("a quote is not closed: write the row on one line, and double the quotes in a text")
        cells.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        if not match[0].endswith(","):
            break
        at = match.end()
    return cells


def _by_place(line: str) -> Values:
    """Return a row of LJSpeech's metadata.csv: id|text, or id|text|normalized text, which is preferred."""
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) not in (2, 3):
        raise InputError(f"it has {len(cells)} fields between |, not id|text or id|text|normalized text")
    return {"name": cells[0], "audio": cells[0], "text": cells[-1] or cells[1]}


def _from_json(line: str, unused: dict[str, None]) -> Values:
    row = parse_json(line.strip().encode("utf-8", "surrogatepass"), "it")
    if not isinstance(row, dict):
        raise InputError("it is not a JSON object")
    unused.update(dict.fromkeys(shown(key) for key in row if key not in JSON_KEYS))
    values: Values = {}
    for key, field in JSON_KEYS.items():
        value = row.get(key)
        texts, integers = field != "clean_start", field in ("name", "clean_start")
        if texts and isinstance(value, str):
            values[field] = value.strip()
        elif integers and isinstance(value, int) and not isinstance(value, bool):
            values[field] = str(value)
        elif value is not None:
            kinds = ["a string"] * texts + ["a whole number"] * integers
            raise InputError(f"{key} must be {' or '.join(kinds)}, got {shown(value)}")
    return values
