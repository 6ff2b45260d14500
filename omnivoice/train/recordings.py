"""Where the recordings of a dataset are: which files count, walking a folder, and finding what a list names.

With a root, which a server sets, only files inside that folder count, after links are followed. Nothing here opens a
file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.limits import MAX_DATASET_FILES
from ..intake.paths import as_path, shown_name

AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".aac", ".aif", ".aiff", ".webm", ".mka")
AUDIO_FOLDERS = ("", "wavs", "clips", "audio")  # where a list's recordings may be, relative to the list
OUTSIDE = "it is outside the dataset folder"


def is_within(path: Path, root: Path) -> bool:
    """Whether `path` is `root` or inside it, after links are followed.

    A path that is outside as it is written is not looked up on the disk.
    """
    return _within(path, *root_forms(root))


def root_forms(root: Path) -> tuple[Path, Path]:
    """Return a root as it is written and with links followed, both absolute."""
    return Path(os.path.abspath(root)), Path(os.path.realpath(root))


def _within(path: Path, root: Path, real_root: Path) -> bool:
    written = Path(os.path.abspath(path))
    as_written = written.is_relative_to(root) or written.is_relative_to(real_root)
    return as_written and Path(os.path.realpath(path)).is_relative_to(real_root)


def dataset_stamp(folder: Path) -> str:
    """Return a hash that changes when a file in the folder is added, edited, renamed or replaced.

    A replaced file has another inode or change time even where its size and modification time are the old ones. No
    file is read: a host asks for this before every run, and a folder may hold thousands of recordings.
    """
    digest = hashlib.sha256()
    for path in walk(folder):
        with contextlib.suppress(OSError):  # deleted since the folder was listed
            status = os.lstat(path)
            values = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            line = f"{path.relative_to(folder).as_posix()} {values}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def walk(folder: Path, unread: dict[Path, str] | None = None) -> Iterator[Path]:
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


class Finder:
    """Finds the recordings of a list next to it; loose: also in the usual folders, and without their extension."""

    def __init__(self, base: Path, root: Path | None, *, loose: bool):
        self._places, self._loose = [base / folder for folder in (AUDIO_FOLDERS if loose else ("",))], loose
        self._roots = None if root is None else root_forms(root)
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
        return self._roots is None or _within(path, *self._roots)

    def _with_extension(self, path: Path) -> Path | None:
        if path.parent not in self._listed:
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = sorted(os.listdir(path.parent), reverse=True)
            audio = [name for name in names if name.lower().endswith(AUDIO_SUFFIXES)]
            self._listed[path.parent] = {os.path.splitext(name)[0]: name for name in audio}
        name = self._listed[path.parent].get(path.name)
        return None if name is None else path.parent / name
