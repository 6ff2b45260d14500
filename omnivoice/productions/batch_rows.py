"""The rows of a batch list: JSON Lines with upstream's keys (`omnivoice-infer-batch`), checked one by one.

    {"id": "a1", "text": "Hello.", "ref_audio": "anna.wav", "ref_text": "Good morning.", "language_id": "en"}

Only `text` is needed. A row that cannot be used is kept with its reason, so that every row ends as a file or as a named
failure.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FileError, InputError, OmniVoiceError, TextError
from ..intake.cancel import cancellable
from ..intake.files import read_bytes, write_atomic
from ..intake.limits import MAX_BATCH_ROWS, MAX_MANIFEST_BYTES, MAX_ROW_CHARS, shown
from ..intake.paths import check_file_name, shown_name
from ..intake.strict_json import parse_json

TEXTS = ("id", "text", "ref_audio", "ref_text", "instruct", "language_id", "voice")
NUMBERS = ("duration", "speed", "seed")
SPOKEN, FAILED, WRITING = STATES = ("spoken", "failed", "writing")  # of a row, in the manifest
NAMES = {"language_name": "language_id", "language": "language_id"}  # other spellings


@dataclass(frozen=True)
class Row:
    """One row. line: in the list, from 1. name: of its file without suffix. values: by upstream's keys, without empty
    ones. unknown: keys that mean nothing here. fault: why it cannot be spoken, empty if it can."""

    line: int
    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    fault: str = ""


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a list in order, without blank lines.

    Raises FileError for a list that cannot be read, InputError for one without rows or with too many.
    """
    data = read_bytes(path, limit=MAX_MANIFEST_BYTES)
    if (count := data.count(b"\n") + data.count(b"\r")) > 4 * MAX_BATCH_ROWS:  # with blank lines, and CR before LF
        raise InputError(
            f"{shown_name(path)} has {count} line ends, at most {MAX_BATCH_ROWS} rows are allowed: split it"
        )
    lines = [
        (number, line) for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").splitlines(), 1) if line.strip()
    ]
    if not lines:
        raise InputError(f"{shown_name(path)} has no row: write one JSON object on each line, with a text")
    if len(lines) > MAX_BATCH_ROWS:
        raise InputError(f"{shown_name(path)} has {len(lines)} rows, at most {MAX_BATCH_ROWS} are allowed: split it")
    return list(_unique(_row(number, line) for number, line in cancellable(lines)))


def _unique(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows, with a fault where a file name was taken by an earlier one; case does not tell names apart."""
    taken: dict[str, int] = {}
    for row in rows:
        first = taken.setdefault(row.name.casefold(), row.line)
        if first != row.line and not row.fault:
            yield Row(row.line, row.name, fault=f"the id {shown(row.name)} is that of line {first}: give it its own")
        else:
            yield row


def _row(number: int, line: bytes) -> Row:
    name = f"line-{number:06d}"
    try:
        if len(line) > MAX_ROW_CHARS:
            raise TextError(f"it has {len(line)} bytes, at most {MAX_ROW_CHARS} are allowed: use narrate for it")
        table = parse_json(line, "the row")
        if not isinstance(table, dict):
            raise InputError('it is not an object: write for example {"id": "a1", "text": "Hello."}')
        given = table.get("id")
        if type(given) is int or (isinstance(given, str) and given):
            name = check_file_name(str(given))
        values, unknown = _values(table)
        return Row(number, name, values, unknown)
    except OmniVoiceError as error:
        return Row(number, name, fault=str(error))


def _values(table: Mapping[str, object]) -> tuple[dict[str, Any], tuple[str, ...]]:
    values: dict[str, Any] = {}
    unknown = []
    for key, value in table.items():
        name = NAMES.get(key, key)
        if name not in TEXTS and name not in NUMBERS:
            unknown.append(key)
        elif value is None or value == "" or (name == "id" and type(value) is int):
            continue
        elif name in TEXTS and not isinstance(value, str):
            raise InputError(f"{key} must be a text, got {shown(value)}")
        elif name in NUMBERS and type(value) not in (int, float):
            raise InputError(f"{key} must be a number, got {shown(value)}")
        elif key == name or name not in values:
            values[name] = value
    if "text" not in values:
        raise TextError("it has no text")
    if "ref_text" in values and "ref_audio" not in values:
        raise InputError("ref_text needs ref_audio: it is the transcript of that recording")
    if "voice" in values and "ref_audio" in values:
        raise InputError("voice and ref_audio both give the voice: leave out one")
    return values, tuple(unknown)


def manifest_entries(path: Path) -> list[Mapping[str, Any]]:
    """Return the entries that a batch has written into a manifest; nothing for a missing one.

    Lines of others, and those that a kill cut short, are left out. Raises FileError if the manifest cannot be read.
    """
    return [entry for line in _manifest(path).splitlines() if (entry := _entry(line)) is not None]


def mend_manifest(path: Path) -> None:
    """Remove a last line that a kill cut short or a power cut damaged; raises FileError for a manifest of another
    program."""
    data = _manifest(path)
    *before, last = data.splitlines() or [b""]
    lines = [line for line in (*before, last) if line.strip() and not _is_torn(line)]
    if lines and all(_entry(line) is None for line in lines) and (data.endswith(b"\n") or len(lines) > 1):
        raise FileError(f"{shown_name(path)} in the output folder was not written by batch: choose another folder")
    if data and (_is_torn(last) or not data.endswith(b"\n")):
        ending = last + b"\n" if _entry(last) else b""
        write_atomic(path, b"".join(line + b"\n" for line in before) + ending)


def _is_torn(line: bytes) -> bool:
    """Whether a line begins with zeros: its first block was not on the disk when the power failed."""
    rest = line.lstrip(b"\0")
    return rest != line and rest.endswith(b"}") and b"\0" not in rest


def _manifest(path: Path) -> bytes:
    return read_bytes(path, limit=MAX_MANIFEST_BYTES) if os.path.lexists(path) else b""


def _entry(line: bytes) -> Mapping[str, Any] | None:
    with contextlib.suppress(FileError):
        entry = parse_json(line, "the manifest")
        if isinstance(entry, dict) and isinstance(entry.get("id"), str) and entry.get("status") in STATES:
            return entry
    return None
