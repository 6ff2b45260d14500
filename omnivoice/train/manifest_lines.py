"""Lists of recordings, line by line: LJSpeech's `id|text|normalized text`, tables with a header, upstream's JSONL.

Every line is one row, so a stray quote spoils that row and never swallows the following ones. Every line that is not
blank gives fields or a reason to reject it. Lines end with LF, CRLF or CR; U+2028 and form feeds belong to a text. No
path is looked up here, and no text is cleaned.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from ..errors import FileError
from ..intake.files import read_bytes
from ..intake.limits import MAX_DATASET_ROWS, MAX_MANIFEST_BYTES, MAX_ROW_CHARS, shown
from ..intake.paths import shown_name
from ..intake.strict_json import parse_json

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
JSON_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "id": "name",
        "audio_path": "audio",
        "text": "text",
        "language_id": "language",
        "instruct": "instruct",
        "text_pinyin": "pinyin",
        "clean_start_token_idx": "clean_start",
    }
)
_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_QUOTED = re.compile(r'"((?:[^"]|"")*)"(?:,|\Z)|([^,]*)(?:,|\Z)')
_TOO_LONG = f"it must have at most {MAX_ROW_CHARS} characters"
_KINDS: Mapping[str, str] = MappingProxyType({"name": "a string or a whole number", "clean_start": "a whole number"})


@dataclass(frozen=True)
class Fields:
    """The values of a row, all as strings. audio: the path as written. reason: why the row is rejected, or ""."""

    name: str
    audio: str = ""
    text: str = ""
    language: str = ""
    instruct: str = ""
    pinyin: str = ""
    clean_start: str = ""
    reason: str = ""


@dataclass
class Lines:
    """The rows of one list, and the names of the columns or keys that are not used."""

    rows: list[Fields] = field(default_factory=list)
    unused: dict[str, None] = field(default_factory=dict)


def read_table(path: Path) -> Lines:
    """Read an LJSpeech list, or a table with a header, separated by commas, tabs or bars; raises FileError.

    Quoting exists only with commas, as spreadsheets write it; elsewhere a quote is an ordinary character.
    """
    found, lines = Lines(), _lines(path)
    first = next(lines, None)
    if first is None:
        return found
    columns, mark = _header(first[1], found)
    for number, line in lines if columns else chain([first], lines):
        if len(line) > MAX_ROW_CHARS:
            found.rows.append(_refused(number, _TOO_LONG))
        else:
            found.rows.append(_by_header(number, line, columns, mark) if columns else _by_place(number, line))
    return found


def read_jsonl(path: Path) -> Lines:
    """Read upstream's JSONL (`JSON_KEYS`); raises FileError."""
    found = Lines()
    found.rows += (_from_json(number, line, found.unused) for number, line in _lines(path))
    return found


def read_plain(path: Path, *, limit: int) -> str:
    """Return the content of a text file in UTF-8, or in UTF-16 with a byte order mark.

    Raises FileError, which names the first line in another encoding.
    """
    data = read_bytes(path, limit=limit)
    wide = data[:2] in _WIDE_BOMS
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].decode("utf-16" if wide else "utf-8-sig", "ignore").count("\n") + 1
        kind = "UTF-16" if wide else "UTF-8"
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


def _header(line: str, found: Lines) -> tuple[dict[str, list[int]] | None, str]:
    """Return ({field: its columns, best first}, delimiter) if the line is a header, else (None, "")."""
    for mark in ("|", "\t", ","):
        names = [name.strip().strip('"').strip().casefold() for name in line.split(mark)]
        columns = {what: [names.index(name) for name in known if name in names] for what, known in COLUMNS.items()}
        if columns["audio"] and columns["text"]:
            known = {name for names in COLUMNS.values() for name in names}
            found.unused.update(dict.fromkeys(shown(name) for name in names if name not in known))
            return columns | {"all": list(range(len(names)))}, mark
    return None, ""


def _by_header(number: int, line: str, columns: Mapping[str, list[int]], mark: str) -> Fields:
    cells = _split_quoted(line) if mark == "," else line.split(mark)
    if cells is None:
        return _refused(number, "a quote is not closed: write the row on one line, and double the quotes in a text")
    if len(cells) > len(columns["all"]):
        return _refused(
            number, f"it has {len(cells)} fields, the header {len(columns['all'])}: put texts with commas in quotes"
        )
    cells += [""] * (len(columns["all"]) - len(cells))
    values = {what: next((cells[at].strip() for at in columns[what] if cells[at].strip()), "") for what in COLUMNS}
    return Fields(name=Path(values["audio"]).name or f"line {number}", **values)


def _split_quoted(line: str) -> list[str] | None:
    """Return the fields of a comma-separated line; None if a quoted field is not closed properly."""
    cells, at = [], 0
    while at <= len(line):
        match = _QUOTED.match(line, at)
        if match is None or (match[1] is None and match[2].startswith('"')):
            return None
        cells.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        if not match[0].endswith(","):
            break
        at = match.end()
    return cells


def _by_place(number: int, line: str) -> Fields:
    """Return a row of LJSpeech's metadata.csv: id|text, or id|text|normalized text, which is preferred."""
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) not in (2, 3):
        return _refused(number, f"it has {len(cells)} fields between |, not id|text or id|text|normalized text")
    return Fields(name=cells[0] or f"line {number}", audio=cells[0], text=cells[-1] or cells[1])


def _from_json(number: int, line: str, unused: dict[str, None]) -> Fields:
    if len(line) > MAX_ROW_CHARS:
        return _refused(number, _TOO_LONG)
    try:
        row = parse_json(line.strip().encode("utf-8", "surrogatepass"), "it")
    except FileError as error:
        return _refused(number, str(error))
    if not isinstance(row, dict):
        return _refused(number, "it is not a JSON object")
    unused.update(dict.fromkeys(shown(key) for key in row if key not in JSON_KEYS))
    values: dict[str, str] = {}
    for key, what in JSON_KEYS.items():
        value = row.get(key)
        if value is None:
            continue
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (isinstance(value, str) and what != "clean_start") and not (whole and what in ("name", "clean_start")):
            return _refused(number, f"{key} must be {_KINDS.get(what, 'a string')}, got {shown(value)}")
        values[what] = str(value).strip()
    return Fields(**{**values, "name": values.get("name") or f"line {number}"})


def _refused(number: int, reason: str) -> Fields:
    return Fields(name=f"line {number}", reason=reason)
