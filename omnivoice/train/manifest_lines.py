"""Lists of recordings, line by line: tables with a header or without one, and JSON.

Every line is one row, so a stray quote spoils only its own row. Every line that is not blank gives the values of a row
or a reason to reject it. Lines end with LF, CRLF or CR; U+2028 and form feeds belong to the text. `list_columns` knows
what the columns of a table mean. This file looks up no path and cleans no text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import NamedTuple, TypeVar

from ..errors import FileError, InputError
from ..intake.cancel import cancellable, hear_cancel
from ..intake.files import read_bytes
from ..intake.limits import MAX_DATASET_ROWS, MAX_MANIFEST_BYTES, MAX_ROW_CHARS, shown
from ..intake.paths import shown_name
from ..intake.strict_json import parse_json
from .list_columns import COLUMNS, FIELD_OF, MARKS, PART_STARTS, folded, header_of, split_cells
from .list_layout import Layout, find_layout

_BLOCK_CHARS = 1 << 20  # of a list; block by block, its lines take little memory
_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_HEARD_EVERY = 1_024  # lines, after which Cancel is asked for
_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?', re.IGNORECASE)  # the first line of a list for Excel

Values = dict[str, str]  # by field, with the name of the row
Source = TypeVar("Source")  # of a row: a line, or an item of a JSON array


class Line(NamedTuple):
    """One line that is not blank. values: by the fields of `rows.Row`. reason: why the row is rejected, or "".

    place: "line 3", or "item 3" of a JSON array.
    """

    name: str
    place: str
    values: Values
    reason: str = ""


@dataclass(frozen=True)
class Lines:
    """The lines of one list, parsed as they are asked for, the columns or keys that are not used (known once all lines
    are parsed), and how the list was read where that is a guess."""

    rows: Iterable[Line]
    unused: Collection[str] = ()
    notes: tuple[str, ...] = ()


def read_table(path: Path, has: Callable[[str], bool]) -> Lines:
    """Read a list with one recording per line, with a header or without; raises FileError.

    has: whether a recording of that name exists, by which the columns of a list without a header are told apart.
    Quoting exists with commas and semicolons, as spreadsheets write it, and for a whole cell between tabs; between bars
    a quote is an ordinary character. Raises InputError for a list whose columns cannot be told apart.
    """
    lines, name = [*cancellable(_lines(path), _HEARD_EVERY)], shown_name(path)
    if len(lines) > MAX_DATASET_ROWS + 1:  # one may be the header
        raise FileError(f"{name} must have at most {MAX_DATASET_ROWS} rows, got {len(lines)}: split it into parts")
    marks: tuple[str, ...] = MARKS
    if lines and (forced := _SEPARATOR.fullmatch(lines[0][1].strip())):
        marks, lines = (forced[1],), lines[1:]
    if not lines:
        return Lines([])
    if len(lines[0][1]) > MAX_ROW_CHARS:
        raise InputError(f"line {lines[0][0]} of {name} must have at most {MAX_ROW_CHARS} characters")
    if header := header_of(lines[0][1], marks, has, name):
        mark, columns = header
        return Lines(_parsed(lines[1:], partial(_by_header, header=columns, mark=mark)), _unused(columns))
    layout = find_layout([line for _, line in lines if len(line) <= MAX_ROW_CHARS], marks, has, name)
    return Lines(_parsed(lines, partial(_by_place, layout=layout)), notes=layout.notes(name))


def read_json_list(path: Path) -> Lines:
    """Read one JSON object per line, or an array of objects; raises FileError, InputError for a list of another kind.

    The keys are the column names of tables; `id` is the name of a row.
    """
    unused: dict[str, None] = {}
    whole = _whole_json(path)
    if whole is None:
        rows = _parsed(_lines(path), lambda line: _from_json(_json(line), unused))
    elif isinstance(whole, list):
        rows = (
            _row_of(f"item {number}", item, lambda item: _from_json(item, unused))
            for number, item in enumerate(whole, 1)
        )
    elif "segments" in whole:
        raise InputError(
            f"{shown_name(path)} has the parts of one recording: cut it into files, and give each its own text"
        )
    else:
        raise InputError(f"{shown_name(path)} must be a JSON array of objects, or have one JSON object per line")
    return Lines(rows, unused.keys())


def read_plain(path: Path, *, limit: int) -> str:
    """Return the content of a text file in UTF-8 or UTF-16.

    Raises FileError, which names the first line in another encoding.
    """
    data = read_bytes(path, limit=limit)
    coding = _coding(data[:4])
    hear_cancel()
    try:
        return data.decode(coding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(coding, "ignore").count("\n") + 1
        kind = coding.upper().removesuffix("-SIG")
        raise FileError(f"{shown_name(path)} is not {kind} in line {line}: save it as UTF-8") from None


def plain_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a list that are not blank; raises FileError."""
    return (line for _, line in _lines(path))


def _coding(start: bytes) -> str:
    """Return the encoding of a text from its first four bytes; UTF-16 is known by its mark or by zero bytes."""
    if start[:2] in _WIDE_BOMS:
        return "utf-16"
    zeros = "".join("0" if byte == 0 else "x" for byte in start)
    return {"x0x0": "utf-16-le", "0x0x": "utf-16-be"}.get(zeros, "utf-8-sig")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of every line that is not blank; blank lines count for the number."""
    text = read_plain(path, limit=MAX_MANIFEST_BYTES)
    hear_cancel()
    if text.count("\n") + text.count("\r") > 2 * MAX_DATASET_ROWS:
        raise FileError(f"{shown_name(path)} must have at most {MAX_DATASET_ROWS} lines: split it into parts")
    first = 1
    for block in _blocks(text):
        lines = block.split("\n")
        for number, line in enumerate(lines, first):
            if line.strip():
                yield number, line
        first += len(lines)


def _blocks(text: str) -> Iterator[str]:
    """Yield whole lines, about `_BLOCK_CHARS` at a time; they are separated by LF, however the text separates them."""
    start, stop = 0, _BLOCK_CHARS
    while start < len(text):
        end = len(text)
        if stop < end:
            end = 1 + max(text.rfind("\n", start, stop), text.rfind("\r", start, stop))
            end += text.startswith("\r\n", end - 1)
        if end > start:
            yield text[start:end].replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
            start = end
            stop = start + _BLOCK_CHARS
        else:
            stop += stop - start  # the line goes on beyond the block


def _parsed(lines: Iterable[tuple[int, str]], parse: Callable[[str], Values]) -> Iterator[Line]:
    return (_row_of(f"line {number}", line, parse) for number, line in lines)


def _row_of(place: str, source: Source, parse: Callable[[Source], Values]) -> Line:
    try:
        if isinstance(source, str) and len(source) > MAX_ROW_CHARS:
            raise InputError(f"it must have at most {MAX_ROW_CHARS} characters")
        values = parse(source)
    except (FileError, InputError) as error:
        return Line(place, place, {}, str(error))
    return Line(values.pop("name", "") or place, place, values)


def _by_header(line: str, header: list[str], mark: str) -> Values:
    cells = split_cells(line, mark)
    if len(cells) > len(header):
        advice = "put texts with commas in quotes" if mark in ",;" else "take the separator out of the text"
        raise InputError(f"it has {len(cells)} fields, the header {len(header)}: {advice}")
    given = {name: cell.strip() for name, cell in zip(reversed(header[: len(cells)]), reversed(cells)) if cell.strip()}
    _refuse_part(given)
    found = {what: next((given[name] for name in known if name in given), "") for what, known in COLUMNS.items()}
    return {**found, "name": PureWindowsPath(found["audio"]).name}


def _by_place(line: str, layout: Layout) -> Values:
    """Return a row of a list without a header."""
    cells = [cell.strip() for cell in split_cells(line, layout.mark)]
    while len(cells) > max(2, layout.width) and not cells[-1]:
        cells.pop()
    if len(cells) == 1:
        raise InputError(f"it has no text: write audio{layout.mark}text")
    last = max(layout.audio, layout.text if layout.spare is None else layout.spare)
    if not last < len(cells) <= layout.width:
        advice = "put texts with commas in quotes" if layout.mark in ",;" and len(cells) > 2 else "check the line"
        raise InputError(f"it has {len(cells)} fields where {layout.width} are expected: {advice}")

    def cell(place: int | None) -> str:
        return "" if place is None or place >= len(cells) else cells[place]

    text = cell(layout.text) or cell(layout.spare)
    return {"name": cell(layout.audio), "audio": cell(layout.audio), "text": text, "language": cell(layout.language)}


def _unused(columns: list[str]) -> list[str]:
    """Return the columns of a header that are not read, also the second of two of one name."""
    known = FIELD_OF.keys() | PART_STARTS
    again = (name for place, name in enumerate(columns) if name in columns[:place])
    return [shown(name) for name in dict.fromkeys([*(name for name in columns if name not in known), *again]) if name]


def _refuse_part(given: dict[str, str]) -> None:
    """Raise InputError for a row about a part of a recording: its text does not belong to the whole."""
    for name in PART_STARTS:
        try:
            start = float(given.get(name, "0"))
        except ValueError:
            continue
        if start > 0:
            raise InputError(f"it is a part of a recording ({name} {given[name][:20]}): cut the part into its own file")


def _whole_json(path: Path) -> list[object] | dict[str, object] | None:
    """Return the array or object that a file is as a whole, None if it has one object per line.

    Raises FileError for a .json file with an array that is not valid.
    """
    text = read_plain(path, limit=MAX_MANIFEST_BYTES).strip()
    hear_cancel()
    first, _, more = text.partition("\n")
    is_row = first.startswith("{") and _is_object(first) and (more or '"segments"' not in first)
    if is_row or not text.startswith(("[", "{")):
        return None
    try:
        whole = parse_json(text, shown_name(path))
    except FileError:
        if text.startswith("[") and path.suffix.lower() == ".json":
            raise
        return None  # its lines are rows, and each bad one is named
    return whole if isinstance(whole, (list, dict)) else None


def _is_object(line: str) -> bool:
    """Whether a line is a complete JSON object."""
    try:
        return isinstance(_json(line), dict)
    except FileError:
        return False


def _json(line: str) -> object:
    return parse_json(line.strip(), "it")


def _from_json(row: object, unused: dict[str, None]) -> Values:
    if not isinstance(row, dict):
        raise InputError("it is not a JSON object")
    keys = {folded(key): key for key in row}
    known = FIELD_OF.keys() | PART_STARTS
    unused.update(dict.fromkeys(shown(key) for name, key in keys.items() if name not in known))
    _refuse_part({name: str(row[keys[name]]) for name in PART_STARTS if name in keys})
    values: Values = {}
    for what, names in {"name": ("id",), **COLUMNS}.items():
        for name in names:
            value = row.get(keys.get(name))
            if value is None or (name == "id" and what != "name"):
                continue
            values[what] = _text_of(what, keys[name], value)
            break
    return values


def _text_of(what: str, key: str, value: object) -> str:
    """Return a value of JSON as the text of a cell; raises InputError for one of the wrong kind."""
    if what == "audio" and isinstance(value, dict):  # as Hugging Face's datasets write it
        value = value.get("path") or value
    texts, integers = what != "clean_start", what in ("name", "clean_start")
    if texts and isinstance(value, str):
        return value.strip()
    if integers and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    kinds = ["a string"] * texts + ["a whole number"] * integers
    raise InputError(f"{key} must be {' or '.join(kinds)}, got {shown(value)}")
