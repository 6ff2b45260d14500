"""Datasets on disk: from a folder or a list of recordings to rows of audio paths and transcripts.

Sources are a folder of audio files with a transcript for each (`sidecars`), and lists: tables with a header or without
one, JSON, and Kaldi's two files. Every entry of the source becomes a row, or is rejected with a reason. With a root,
which a server sets, only files inside that folder count, after links are followed. `manifest_lines` parses the lines,
and `dataset` cleans the texts and reads the audio.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from os import PathLike
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_DATASET_ROWS, MAX_UNUSABLE_ROWS
from ..intake.paths import as_path, shown_name
from .clips import Rejected
from .kaldi import TEXT, WAV_SCP, read_kaldi
from .list_columns import FIRST_ONLY, MARKS
from .manifest_lines import Line, Lines, plain_lines, read_json_list, read_table
from .recordings import AUDIO_SUFFIXES, OTHER_SUFFIXES, OUTSIDE, Finder, is_within, walk
from .rows import JSONL, TABLE, WANTED, Manifest, Row, placed, printable, some_names
from .sidecars import read_sidecars

TABLE_SUFFIXES, TEXT_LIST = (".csv", ".tsv", ".lst", ".list", ".psv"), ".txt"
JSON_SUFFIXES = (JSONL, ".json", ".ndjson")
# Files that hold lists in a form that is not read, and what to do.
_CONVERT = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".numbers"), "save the sheet as CSV in UTF-8"),
    **dict.fromkeys((".parquet", ".arrow", ".feather"), "export it as CSV or JSON lines, with the audio as files"),
    **dict.fromkeys((".srt", ".vtt", ".ass", ".textgrid"), "cut the recording into files, each with its own text"),
}
_TRIED = 20  # lines of a text file that may be a list


def read_manifest(source: str | PathLike[str], *, root: str | PathLike[str] | None = None) -> Manifest:
    """Read the rows of a folder, or of a list in a file: a table (.csv, .tsv, .txt, .lst, .list, .psv) or JSON.

    root: a folder that every file must be in, after links are followed; None trusts the paths in a list.
    Raises InputError for a source that is no dataset, FileError for one that cannot be read.
    """
    where = as_path(source)
    inside = None if root is None else as_path(root)
    if isdir(where):
        return _from_folder(where, inside)
    if not isfile(where):
        raise FileError(f"{shown_name(where)} does not exist: {WANTED}")
    return _from_list(where, inside, [])


def _from_folder(folder: Path, root: Path | None) -> Manifest:
    """Read metadata.csv or a .jsonl file; else transcripts next to recordings; else any other list."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith(".") and isfile(folder / name))
    except OSError as error:
        raise FileError(f"cannot list folder {shown_name(folder)}: {error.strerror}") from error
    table = [name for name in names if name.lower() == TABLE][:1]
    first = table or [name for name in names if name.lower().endswith(JSONL)]
    if first:
        unread = [name for name in names if name not in first and name.lower().endswith(JSONL)]
        notes = [f"{some_names(unread)} not read: {first[0]} is used instead"] if unread else []
        made = _from_list(_only(folder, first), root, [*notes, f"read from {first[0]}"])
        return _with_unnamed(made, folder, root)
    found = read_sidecars(folder, root)
    if found.rows:
        return found
    if lists := _other_lists(folder, names, root):
        return _with_unnamed(_from_list(_only(folder, lists), root, [f"read from {lists[0]}"]), folder, root)
    if not found.rejected:
        raise InputError(f"{shown_name(folder)} contains no dataset: {WANTED}")
    return _from_text_lists(folder, root, found)


def _with_unnamed(made: Manifest, folder: Path, root: Path | None) -> Manifest:
    """Return the manifest of a list in a folder, with a note on the recordings there that no usable row names."""
    named = {row.audio for row in made.rows}
    kinds = (*AUDIO_SUFFIXES, *OTHER_SUFFIXES)
    files = (path for path in walk(folder, follow=root is None) if path.suffix.lower() in kinds)
    left = [path for path in files if path not in named]
    linked = {os.path.realpath(path) for path in named if isinstance(path, Path)} if left else set()
    others = [printable(path.relative_to(folder).as_posix()) for path in left if os.path.realpath(path) not in linked]
    note = f"recordings in the folder that no usable row of the list names: {some_names(others)}"
    return replace(made, notes=(*made.notes, note)) if others else made


def _other_lists(folder: Path, names: Sequence[str], root: Path | None) -> list[str]:
    """Return the lists in a folder that are neither metadata.csv nor .jsonl; of text files, those that name recordings.

    A .json file that is named like a recording is about that recording.
    """
    if WAV_SCP in names and TEXT in names:
        return [WAV_SCP]
    stems = {os.path.splitext(name)[0] for name in names if name.lower().endswith(AUDIO_SUFFIXES)}
    lists = [name for name in names if name.lower().endswith((*TABLE_SUFFIXES, *JSON_SUFFIXES))]
    lists = [name for name in lists if os.path.splitext(name)[0] not in stems]
    tables = [name for name in lists if name.lower().endswith(TABLE_SUFFIXES)]
    if found := tables or lists:
        return found
    finder = Finder(folder, root)
    texts = [name for name in names if name.lower().endswith(TEXT_LIST)]
    return [name for name in texts if _names_recordings(folder / name, root, finder)]


def _from_text_lists(folder: Path, root: Path | None, found: Manifest) -> Manifest:
    """Return the rows of all text files in a folder that list recordings, as LibriSpeech has one in each subfolder.

    found: the same folder, read without such lists; its rejected rows that are not used here stay.
    """
    files = [*walk(folder, follow=root is None)]
    recordings = [path for path in files if path.suffix.lower() in AUDIO_SUFFIXES]
    stems = Counter(path.stem for path in recordings)
    by_stem = {path.stem: path for path in recordings if stems[path.stem] == 1}
    finders = {path.parent: Finder(path.parent, root, by_stem) for path in files}
    texts = [path for path in files if path.suffix.lower() == TEXT_LIST]
    texts = [path for path in texts if _names_recordings(path, root, finders[path.parent])]
    rows: list[Row] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    for path in texts:
        made = _from_list(path, root, [], by_stem)
        name = shown_name(path)
        rows += [replace(row, place=f"{row.place} of {name}") for row in made.rows]
        rejected += [Rejected(f"{one.name} of {name}", one.reason) for one in made.rejected]
        notes += made.notes
    read = (*texts, *(row.audio for row in rows if isinstance(row.audio, Path)))
    used = {printable(path.relative_to(folder).as_posix()) for path in read}
    rejected += [one for one in found.rejected if one.name not in used]
    return Manifest(found.source, tuple(rows), tuple(rejected), (*found.notes, *notes))


def _names_recordings(file: Path, root: Path | None, finder: Finder) -> bool:
    """Whether one of the first lines of a text file, cut at the first space or mark, is the name of a recording."""
    if root is not None and not is_within(file, root):
        return False
    try:
        lines = list(islice(plain_lines(file), _TRIED))
    except FileError:
        return False
    return any(
        finder.has(line.split(mark)[0].strip()) for line in lines for mark in (*MARKS, *FIRST_ONLY) if mark in line
    )


def _only(folder: Path, lists: Sequence[str]) -> Path:
    if len(lists) > 1:
        raise InputError(
            f"{shown_name(folder)} has {len(lists)} lists, {some_names(lists)}: leave only one of them in the folder"
        )
    return folder / lists[0]


def _from_list(file: Path, root: Path | None, notes: list[str], by_stem: Mapping[str, Path] | None = None) -> Manifest:
    """Return the rows of one list; by_stem: recordings that it may name without a path."""
    name, suffix = shown_name(file), file.suffix.lower()
    if root is not None and not is_within(file, root):
        raise InputError(f"{name}: {OUTSIDE}")
    finder = Finder(file.parent, root, by_stem)
    if file.name in (WAV_SCP, TEXT) and isfile(file.with_name(WAV_SCP)):
        if root is not None and not is_within(file.with_name(TEXT), root):
            raise InputError(f"{TEXT}: {OUTSIDE}")
        lines = read_kaldi(file.parent)
    elif suffix in JSON_SUFFIXES:
        lines = read_json_list(file)
    elif suffix in (*TABLE_SUFFIXES, TEXT_LIST):
        lines = read_table(file, finder.has)
    elif suffix in _CONVERT:
        raise InputError(f"{name} is not a list that can be read: {_CONVERT[suffix]}")
    else:
        raise InputError(f"{name} is not a list of recordings: {WANTED}")
    return _from_lines(name, lines, finder, notes)


def _from_lines(file: str, lines: Lines, finder: Finder, notes: list[str]) -> Manifest:
    """Return the rows of a list. Raises InputError for none, for too many, and for a list that starts with
    `MAX_UNUSABLE_ROWS` rows of which none can be used: each costs a search in several folders."""
    found: list[tuple[str, Row]] = []
    rejected: list[Rejected] = []
    finder.elsewhere.clear()  # of what was only tried
    for count, line in enumerate(cancellable(lines.rows), 1):
        if count > MAX_DATASET_ROWS:
            raise InputError(f"{file} must have at most {MAX_DATASET_ROWS} rows: split it into parts")
        if count > MAX_UNUSABLE_ROWS and not found:
            raise InputError(
                f"none of the first {MAX_UNUSABLE_ROWS} rows of {file} can be used; the first is {rejected[0].name}: "
                f"{rejected[0].reason}. Leave out rows without a recording"
            )
        try:
            found.append((line.values.get("audio", ""), _row(line, finder)))
        except InputError as error:
            rejected.append(Rejected(placed(printable(line.name), line.place), str(error)))
    if not found and not rejected:
        raise InputError(f"{file} has no rows: {WANTED}")
    rows = _without_doubtful(found, finder, rejected)
    notes += lines.notes
    if lines.unused:
        notes.append(f"not used in {file}: {some_names([*lines.unused])}")
    if moved := [printable(path) for path in finder.elsewhere]:
        notes.append(f"not at the path of the list, but found next to it by the last part: {some_names(moved)}")
    if again := _again(rows):
        notes.append(f"rows with the recording of an earlier row and another text: {some_names(again)}")
    return Manifest(file, tuple(rows), tuple(rejected), tuple(notes))


def _without_doubtful(found: Sequence[tuple[str, Row]], finder: Finder, rejected: list[Rejected]) -> list[Row]:
    """Return the rows, without those whose recording was found by the last part of its path if others claim it too.

    found: (path in the list, row).
    """
    claims: dict[object, set[str]] = {}
    for path, row in found:
        claims.setdefault(row.audio, set()).add(path)
    doubtful = {path for path, file in finder.elsewhere.items() if len(claims.get(file, ())) > 1}
    rejected += [Rejected(row.label, finder.why_missing(path)) for path, row in found if path in doubtful]
    for path in doubtful:
        del finder.elsewhere[path]
    return [row for path, row in found if path not in doubtful]


def _again(rows: Sequence[Row]) -> list[str]:
    """Return the rows whose recording an earlier row has with another text."""
    texts: dict[object, str] = {}
    return [row.label for row in rows if row.text and texts.setdefault(row.audio, row.text) != row.text]


def _row(line: Line, finder: Finder) -> Row:
    if line.reason:
        raise InputError(line.reason)
    values = {field: value for field, value in line.values.items() if value}
    start = values.pop("clean_start", None)
    if start is not None and not (start.isdecimal() and len(start) < 10):
        raise InputError("clean_start_token_idx must be a whole number of frames, 0 or more")
    audio, text = finder.find(values.pop("audio", "")), values.pop("text", "")
    frames = None if start is None else int(start)
    return Row(printable(line.name), audio, text, clean_start=frames, place=line.place, **values)
