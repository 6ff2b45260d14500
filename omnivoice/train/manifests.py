"""Datasets on disk: from a folder or a list of recordings to rows of audio paths and transcripts.

Sources are a folder of audio files with a transcript for each (.txt, .lab), LJSpeech's metadata.csv, a table with a
header, and upstream's JSONL. Every entry of the source becomes a row, or is rejected with a reason. With a root, which
a server sets, only files inside that folder count, after links are followed. `manifest_lines` parses the lines, and
`dataset` cleans the texts and reads the audio.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.limits import MAX_DATASET_FILES, MAX_DATASET_ROWS, MAX_TRANSCRIPT_BYTES
from ..intake.paths import as_path, shown_name
from ..types import Waveform
from .clips import Rejected
from .manifest_lines import Line, Lines, read_jsonl, read_plain, read_table

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".aac", ".aif", ".aiff", ".webm", ".mka")
TEXT_SUFFIXES = (".txt", ".lab")  # if a recording has both, the first one counts
TABLE, TABLE_SUFFIXES, JSONL = "metadata.csv", (".csv", ".tsv", ".txt", ".lst", ".list"), ".jsonl"
AUDIO_FOLDERS = ("", "wavs", "clips", "audio")  # where a table's recordings may be, relative to the table
OUTSIDE = "it is outside the dataset folder"
WANTED = (
    f"a dataset is a folder with {TABLE} (id|text, or a table with a header), one {JSONL} file, or audio files "
    "(.wav, .flac, .ogg, .mp3 ...), each with a transcript of the same name (.txt or .lab)"
)
_MAX_NAME_CHARS = 80
_MAX_NAMED = 5


@dataclass(frozen=True, eq=False)
class Row:
    """One recording and its labels, as the source gives them; an empty label is None.

    name: for messages. audio: a file, or the samples. clean_start: in frames.
    """

    name: str
    audio: Path | Waveform
    text: str
    language: str | None = None
    instruct: str | None = None
    pinyin: str | None = None
    clean_start: int | None = None


@dataclass(frozen=True, eq=False)
class Manifest:
    """The rows of a source, the rejected rows, and notes on anything else worth knowing."""

    source: str
    rows: tuple[Row, ...]
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()


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
        return _from_sidecars(where, where if inside is None else inside)
    if inside is not None and not is_within(file, inside):
        raise InputError(f"{shown_name(file)}: {OUTSIDE}")
    suffix = file.suffix.lower()
    if suffix != JSONL and suffix not in TABLE_SUFFIXES:
        raise InputError(f"{shown_name(file)} is not a list of recordings: {WANTED}")
    if isdir(where):
        notes.append(f"read from {shown_name(file)}")
    lines = read_jsonl(file) if suffix == JSONL else read_table(file)
    return _from_lines(file, lines, _Finder(file.parent, inside, loose=suffix != JSONL), notes)


def is_within(path: Path, root: Path) -> bool:
    """Whether `path` is `root` or inside it, after links are followed.

    A path that is outside as it is written is not looked up on the disk.
    """
    return _is_within(path, *_forms(root))


def _forms(root: Path) -> tuple[Path, Path]:
    """Return a root as it is written and with links followed, both absolute."""
    return Path(os.path.abspath(root)), Path(os.path.realpath(root))


def _is_within(path: Path, root: Path, real_root: Path) -> bool:
    written = Path(os.path.abspath(path))
    as_written = written.is_relative_to(root) or written.is_relative_to(real_root)
    return as_written and Path(os.path.realpath(path)).is_relative_to(real_root)


def dataset_stamp(folder: Path) -> str:
    """Return a hash that changes when a file in the folder is added, edited, renamed or replaced.

    A replaced file has another inode or change time even where its size and modification time are the old ones. No
    file is read: a host asks for this before every run, and a folder may hold thousands of recordings.
    """
    digest = hashlib.sha256()
    for path in _walk(folder):
        with contextlib.suppress(OSError):  # deleted since the folder was listed
            status = os.lstat(path)
            values = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            line = f"{path.relative_to(folder).as_posix()} {values}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _walk(folder: Path, unread: dict[Path, str] | None = None) -> Iterator[Path]:
    """Yield every file below `folder` that is not hidden, sorted by name; linked folders are not entered.

    unread: receives every visible folder that was not entered, with the reason.
    """
    count, skipped = 0, {} if unread is None else unread

    def refused(error: OSError) -> None:
        skipped[Path(error.filename)] = f"{error.strerror}"

    for place, folders, files in os.walk(folder, onerror=refused, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        linked = (Path(place, name) for name in folders if os.path.islink(os.path.join(place, name)))
        skipped.update(dict.fromkeys(linked, "links to folders are not followed"))
        for name in sorted(files):
            count += 1
            if count > MAX_DATASET_FILES:
                raise FileError(f"{shown_name(folder)} must have at most {MAX_DATASET_FILES} files: split it")
            if not name.startswith("."):
                yield Path(place, name)


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


# Folders of recordings and transcripts.


def _from_sidecars(folder: Path, root: Path) -> Manifest:
    recordings: list[Path] = []
    texts: dict[Path, list[Path]] = {}
    others: dict[Path, Path] = {}
    unread: dict[Path, str] = {}
    for path in _walk(folder, unread):
        suffix = path.suffix.lower()
        if suffix in AUDIO_SUFFIXES:
            recordings.append(path)
        elif suffix in TEXT_SUFFIXES:
            texts.setdefault(path.with_suffix(""), []).append(path)
        else:
            others.setdefault(path.with_suffix(""), path)
    if not recordings and not texts:
        raise InputError(f"{shown_name(folder)} contains no dataset: {WANTED}")

    def name_of(path: Path) -> str:
        return _name(path.relative_to(folder).as_posix())

    rows: list[Row] = []
    rejected: list[Rejected] = []
    unused: list[str] = []
    used: set[Path] = set()
    for path in recordings:
        stem = path.with_suffix("")
        own = sorted(texts.get(stem, ()), key=lambda text: (TEXT_SUFFIXES.index(text.suffix.lower()), text.name))
        try:
            rows.append(Row(name_of(path), path, _transcript(path, own, root)))
        except (FileError, InputError) as error:
            rejected.append(Rejected(name_of(path), str(error)))
        if stem not in used:
            unused += [text.name for text in own[1:]]
            used.add(stem)
    orphans = [path for stem, paths in texts.items() if stem not in used for path in paths]
    rejected += [Rejected(name_of(path), _why_alone(path, others)) for path in orphans]
    notes = [f"{some_names(unused)} not read: the recording has another transcript"] if unused else []
    notes += [f"{name_of(path)} not entered: {why}" for path, why in unread.items()]
    return Manifest(shown_name(folder), tuple(rows), tuple(rejected), tuple(notes))


def _why_alone(text: Path, others: Mapping[Path, Path]) -> str:
    """Return why a transcript has no recording, where there is something else of its name."""
    stem = text.with_suffix("")
    if stem in others:
        return f"{shown_name(others[stem])} is not an audio file ({', '.join(AUDIO_SUFFIXES)}): convert it to WAV"
    places = (stem.with_name(stem.name + suffix) for suffix in AUDIO_SUFFIXES)
    taken = next((place for place in places if isdir(place)), None)
    return "it has no recording of the same name" if taken is None else f"{shown_name(taken)} is a folder, not a file"


def _transcript(path: Path, texts: Sequence[Path], root: Path) -> str:
    if not texts:
        raise InputError(f"it has no transcript: write its words into {shown_name(path.with_suffix('.txt'))}")
    if not is_within(path, root) or not is_within(texts[0], root):
        raise InputError(OUTSIDE)
    return read_plain(texts[0], limit=MAX_TRANSCRIPT_BYTES)


# Lists.


class _Finder:
    """Finds the recordings of a list next to it; loose: also in the usual folders, and without their extension."""

    def __init__(self, base: Path, root: Path | None, *, loose: bool):
        self._places, self._loose = [base / folder for folder in (AUDIO_FOLDERS if loose else ("",))], loose
        self._roots = None if root is None else _forms(root)
        self._listed: dict[Path, dict[str, str]] = {}

    def find(self, name: str) -> Path:
        """Return the file; raises InputError with the reason to reject the row."""
        if not name:
            raise InputError("it names no audio file")
        try:
            os.fsencode(as_path(name))
        except (FileError, UnicodeError):
            raise InputError("its audio path is not valid") from None
        candidates = [p for p in (place / name for place in self._places) if self._may_be_used(p)]
        found = next((path for path in candidates if isfile(path)), None)
        if found is None and self._loose:
            found = next(filter(None, map(self._with_extension, candidates)), None)
        if found is None and len(candidates) == len(self._places):
            is_folder = any(map(isdir, candidates))
            raise InputError(f"{shown_name(name)} {'is a folder, not a file' if is_folder else 'does not exist'}")
        if found is None or not self._may_be_used(found):  # with its extension it may be a link
            raise InputError(OUTSIDE)
        if found.suffix.lower() not in AUDIO_SUFFIXES:
            raise InputError(f"{shown_name(found)} is not an audio file ({', '.join(AUDIO_SUFFIXES)})")
        return found

    def _may_be_used(self, path: Path) -> bool:
        return self._roots is None or _is_within(path, *self._roots)

    def _with_extension(self, path: Path) -> Path | None:
        if path.parent not in self._listed:
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = sorted(os.listdir(path.parent), reverse=True)
            audio = [name for name in names if name.lower().endswith(AUDIO_SUFFIXES)]
            self._listed[path.parent] = {os.path.splitext(name)[0]: name for name in audio}
        name = self._listed[path.parent].get(path.name)
        return None if name is None else path.parent / name


def _from_lines(file: Path, lines: Lines, finder: _Finder, notes: list[str]) -> Manifest:
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
            rejected.append(Rejected(_name(line.name), str(error)))
    if lines.unused:
        notes.append(f"not used in {shown_name(file)}: {some_names(lines.unused)}")
    names = Counter(line.name for line in lines.rows if not line.reason)
    if repeated := [_name(name) for name, count in names.items() if count > 1]:
        notes.append(f"names that occur more than once: {some_names(repeated)}; all their rows are used")
    return Manifest(shown_name(file), tuple(rows), tuple(rejected), tuple(notes))


def _row(line: Line, finder: _Finder) -> Row:
    if line.reason:
        raise InputError(line.reason)
    values = {field: value for field, value in line.values.items() if value}
    start = values.pop("clean_start", None)
    if start is not None and not (start.isdecimal() and len(start) < 10):
        raise InputError("clean_start_token_idx must be a whole number of frames, 0 or more")
    audio, text = finder.find(values.pop("audio", "")), values.pop("text", "")
    return Row(_name(line.name), audio, text, clean_start=None if start is None else int(start), **values)


def _name(text: str) -> str:
    """Return a short printable name for messages."""
    return "".join(char if char.isprintable() else "?" for char in text[-_MAX_NAME_CHARS:])


def some_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED} more" * (len(names) > _MAX_NAMED))
