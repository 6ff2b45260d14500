"""Datasets on disk: from a folder or a list of recordings to rows of audio paths and transcripts.

Sources are a folder of audio files with a transcript for each (.txt, .lab), LJSpeech's metadata.csv, a table with a
header, and upstream's JSONL. Every entry of the source becomes a row, or is rejected with a reason. With a root, which
a server sets, only files inside that folder count, after links are followed. `manifest_lines` parses the lines, and
`dataset` cleans the texts and reads the audio.
"""

from __future__ import annotations

import os
from collections import Counter
from os import PathLike
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.limits import MAX_DATASET_ROWS
from ..intake.paths import as_path, shown_name
from .clips import Rejected
from .manifest_lines import Line, Lines, read_jsonl, read_table
from .recordings import OUTSIDE, Finder, is_within
from .rows import JSONL, TABLE, WANTED, Manifest, Row, printable, some_names
from .sidecars import read_sidecars

TABLE_SUFFIXES = (".csv", ".tsv", ".txt", ".lst", ".list")


def read_manifest(source: str | PathLike[str], *, root: str | PathLike[str] | None = None) -> Manifest:
    """Read the rows of a folder, or of a list in a file (.jsonl, or a table: .csv, .tsv, .txt, .lst, .list).

    root: a folder that every file must be in, after links are followed; None trusts the paths in a list.
    Raises InputError for a source that is no dataset, FileError for one that cannot be read.
    """
    where = as_path(source)
    if not isdir(where) and not isfile(where):
        raise FileError(f"{shown_name(where)} does not exist: {WANTED}")
    inside = None if root is None else as_path(root)
    notes: list[str] = []
    file = _list_in(where, notes) if isdir(where) else where
    if file is None:
        return read_sidecars(where, where if inside is None else inside)
    if inside is not None and not is_within(file, inside):
        raise InputError(f"{shown_name(file)}: {OUTSIDE}")
    suffix = file.suffix.lower()
    if suffix != JSONL and suffix not in TABLE_SUFFIXES:
        raise InputError(f"{shown_name(file)} is not a list of recordings: {WANTED}")
    if isdir(where):
        notes.append(f"read from {shown_name(file)}")
    lines = read_jsonl(file) if suffix == JSONL else read_table(file)
    return _from_lines(file, lines, Finder(file.parent, inside, loose=suffix != JSONL), notes)


def _list_in(folder: Path, notes: list[str]) -> Path | None:
    """Return the list in a folder, if any; raises InputError if there are several."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise FileError(f"cannot list folder {shown_name(folder)}: {error.strerror}") from error
    lists = [name for name in names if name.lower().endswith(JSONL) and isfile(folder / name)]
    table = next((name for name in names if name.lower() == TABLE and isfile(folder / name)), None)
    if table:
        notes += [f"{some_names(lists)} not read: {table} is used instead"] if lists else []
        return folder / table
    if len(lists) > 1:
        raise InputError(f"{shown_name(folder)} has {len(lists)} lists, {some_names(lists)}: keep or name one of them")
    return folder / lists[0] if lists else None


def _from_lines(file: Path, lines: Lines, finder: Finder, notes: list[str]) -> Manifest:
    if not lines.rows:
        raise InputError(f"{shown_name(file)} has no rows: {WANTED}")
    if len(lines.rows) > MAX_DATASET_ROWS:
        raise InputError(f"{shown_name(file)} must have at most {MAX_DATASET_ROWS} rows, got {len(lines.rows)}")
    rows: list[Row] = []
    rejected: list[Rejected] = []
    for line in lines.rows:
        try:
            rows.append(_row(line, finder))
        except InputError as error:
            rejected.append(Rejected(printable(line.name), str(error)))
    if lines.unused:
        notes.append(f"not used in {shown_name(file)}: {some_names(lines.unused)}")
    names = Counter(line.name for line in lines.rows if not line.reason)
    if repeated := [printable(name) for name, count in names.items() if count > 1]:
        notes.append(f"names that occur more than once: {some_names(repeated)}; all their rows are used")
    return Manifest(shown_name(file), tuple(rows), tuple(rejected), tuple(notes))


def _row(line: Line, finder: Finder) -> Row:
    if line.reason:
        raise InputError(line.reason)
    values = {field: value for field, value in line.values.items() if value}
    start = values.pop("clean_start", None)
    if start is not None and not (start.isdecimal() and len(start) < 10):
        raise InputError("clean_start_token_idx must be a whole number of frames, 0 or more")
    audio, text = finder.find(values.pop("audio", "")), values.pop("text", "")
    return Row(printable(line.name), audio, text, clean_start=None if start is None else int(start), **values)
