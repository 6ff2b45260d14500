"""Where the recordings of a dataset are: which files count, walking a folder, and finding what a list names.

With a root, which a server sets, only files inside that folder count, after links are followed. Without one, paths and
links are the user's own. Nothing here opens a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import unicodedata
from collections.abc import Iterator
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path, PurePosixPath, PureWindowsPath

from ..errors import FileError, InputError
from ..intake.limits import MAX_DATASET_FILES
from ..intake.paths import as_path, shown_name

AUDIO_SUFFIXES = (
    *(".wav", ".wave", ".w64", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".mp4", ".aac"),
    *(".aif", ".aiff", ".aifc", ".webm", ".weba", ".mka"),
)
# Recordings and films that are not read: a folder that holds one reports it.
OTHER_SUFFIXES = (
    *(".wma", ".amr", ".awb", ".ape", ".wv", ".caf", ".au", ".snd", ".mp2", ".ac3", ".dts", ".m4b", ".m4v", ".mov"),
    *(".mkv", ".avi", ".wmv", ".3gp", ".spx", ".ra", ".rm", ".tta", ".mpc", ".dsf", ".voc", ".gsm", ".sph", ".pcm"),
)
AUDIO_FOLDERS = ("", "wavs", "wav", "clips", "audio")  # where a list's recordings may be, relative to the list
OUTSIDE = "it is outside the dataset folder"
_FOLDERS_ABOVE = 2  # a list may be in a folder of its own, with paths that start at the project's folder


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


def why_no_audio(path: Path) -> str:
    """Return the reason to reject a file whose name has another suffix than `AUDIO_SUFFIXES`."""
    return f"{shown_name(path)} is not an audio file that is read here ({', '.join(AUDIO_SUFFIXES)}): convert it to WAV"


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


def walk(folder: Path, unread: dict[Path, str] | None = None, *, follow: bool = False) -> Iterator[Path]:
    """Yield every file below `folder` that is not hidden, sorted by name.

    unread: receives every visible folder that was not entered, with the reason. follow: links to folders are entered
    too, after everything else and each folder only once, so that links in a circle end.
    """
    count, skipped, seen, waiting = 0, {} if unread is None else unread, set[tuple[int, int]](), [folder]

    def refused(error: OSError) -> None:
        skipped[Path(error.filename)] = f"{error.strerror}"

    def is_new(place: str | Path) -> bool:
        with contextlib.suppress(OSError):
            status = os.stat(place)
            if (status.st_dev, status.st_ino) in seen:
                return False
            seen.add((status.st_dev, status.st_ino))
        return True

    while waiting:
        start = waiting.pop(0)
        for place, folders, files in os.walk(start, onerror=refused, followlinks=False):
            if follow and not is_new(place):
                skipped[Path(place)] = "its files are read already"
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            linked = [Path(place, name) for name in folders if os.path.islink(os.path.join(place, name))]
            if follow:
                waiting += linked
            else:
                skipped.update(dict.fromkeys(linked, "links to folders are not followed"))
            for name in sorted(files):
                count += 1
                if count > MAX_DATASET_FILES:
                    raise FileError(f"{shown_name(folder)} must have at most {MAX_DATASET_FILES} files: split it")
                if not name.startswith("."):
                    yield Path(place, name)


class Finder:
    """Finds the recordings of a list, wherever people keep them.

    A name is looked up next to the list, in the usual folders there, and from the two folders above. It may have
    separators of Windows, another case or Unicode form, and no suffix. An absolute path that is not on this machine is
    looked up by its last two parts, then by its last one. elsewhere: {name: path} of what was found that last way.
    """

    def __init__(self, base: Path, root: Path | None):
        self._places = [base / folder for folder in AUDIO_FOLDERS]
        whole = Path(os.path.abspath(base))
        self._above = [*whole.parents[:_FOLDERS_ABOVE]]
        self._roots = None if root is None else root_forms(root)
        self._listed: dict[Path, dict[str, str]] = {}
        self.elsewhere: dict[str, Path] = {}

    def find(self, name: str) -> Path:
        """Return the file; raises InputError with the reason to reject the row."""
        if not name:
            raise InputError("it names no audio file")
        try:
            os.fsencode(as_path(name))
        except (FileError, UnicodeError):
            raise InputError("its audio path is not valid") from None
        found = self._first(spellings(name), [*self._places, *self._above])
        if found is None and (moved := self._first(last_parts(name), self._places)):
            found = self.elsewhere[name] = moved
        if found is None:
            raise InputError(self.why_missing(name))
        if found.suffix.lower() not in AUDIO_SUFFIXES:
            raise InputError(why_no_audio(found))
        return found

    def has(self, name: str) -> bool:
        """Whether `find` returns a file."""
        with contextlib.suppress(InputError):
            return bool(self.find(name))
        return False

    def _first(self, names: list[str], places: list[Path]) -> Path | None:
        """Return the first of `names` in `places`, as it is written or else in another spelling."""
        paths = [place / name for name in names for place in places]
        exact = (path for path in paths if self._allowed(path) and isfile(path))
        alike = (like for path in paths if self._allowed(path) and (like := self._alike(path)))
        return next(exact, None) or next((path for path in alike if self._allowed(path) and isfile(path)), None)

    def _allowed(self, path: Path) -> bool:
        return self._roots is None or _within(path, *self._roots)

    def why_missing(self, name: str) -> str:
        """Return the reason to reject a row whose recording is not at its path."""
        paths = [place / spelled for spelled in spellings(name) for place in self._places]
        if not all(map(self._allowed, paths)):
            return OUTSIDE
        return f"{shown_name(name)} {'is a folder, not a file' if any(map(isdir, paths)) else 'does not exist'}"

    def _alike(self, path: Path) -> Path | None:
        """Return the entry of the same folder whose name differs only in case, Unicode form or a missing suffix."""
        folder = path.parent
        if folder not in self._listed:
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = sorted(os.listdir(folder), reverse=True) if self._allowed(folder) else []
            stems = {_folded(os.path.splitext(one)[0]): one for one in names if one.lower().endswith(AUDIO_SUFFIXES)}
            self._listed[folder] = {**stems, **{_folded(one): one for one in names}}
        name = self._listed[folder].get(_folded(path.name))
        return None if name is None else folder / name


def spellings(name: str) -> list[str]:
    """Return a name as it is written, and then with the separators of Windows as `/`."""
    return list(dict.fromkeys([name, name.replace("\\", "/")]))


def last_parts(name: str) -> list[str]:
    """Return the last two parts and the last part of an absolute path of any system; nothing for a relative path."""
    windows, posix = PureWindowsPath(name), PurePosixPath(name)
    if not (windows.drive or windows.root or posix.is_absolute()) or ".." in windows.parts:
        return []
    parts = windows.parts[1:] if windows.anchor else windows.parts
    return ["/".join(parts[-count:]) for count in (2, 1) if len(parts) >= count]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
