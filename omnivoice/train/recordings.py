"""Where the recordings of a dataset are: which files count, walking a folder, and finding what a list names.

With a root, which a server sets, only files inside that folder count, after links are followed. Without one, paths and
links are the user's own. Nothing here opens a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import unicodedata
from collections.abc import Iterator, Mapping
from os.path import isdir, isfile  # unlike Path.is_file, they never raise
from pathlib import Path, PureWindowsPath

from ..errors import FileError, InputError
from ..intake.cancel import cancellable, hear_cancel
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
    count, skipped, seen, waiting = 0, {} if unread is None else unread, set[str](), [folder]

    def refused(error: OSError) -> None:
        skipped[Path(error.filename)] = f"{error.strerror}"

    while waiting:
        start = waiting.pop(0)
        for place, folders, files in cancellable(os.walk(start, onerror=refused, followlinks=False)):
            if follow and (real := os.path.realpath(place)) in seen:
                skipped[Path(place)] = "its files are read already"
                folders.clear()
                continue
            if follow:
                seen.add(real)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            linked = [Path(place, name) for name in folders if os.path.islink(os.path.join(place, name))]
            if follow:
                waiting += linked
            else:
                skipped.update(dict.fromkeys(linked, "links to folders are not followed"))
            for name in sorted(files):
                count += 1
                hear_cancel()
                if count > MAX_DATASET_FILES:
                    raise FileError(f"{shown_name(folder)} must have at most {MAX_DATASET_FILES} files: split it")
                if not name.startswith("."):
                    yield Path(place, name)


class Finder:
    """Finds the recordings of a list, wherever people keep them.

    A name is looked up next to the list, in the usual folders there, and from the two folders above. It may have
    separators of Windows, another case or Unicode form, and no suffix. A path that leads nowhere here is looked up by
    its last two parts, then by its last one. elsewhere: {name: path} of what was found that last way. by_stem: other
    recordings, by their names without suffix.
    """

    def __init__(self, base: Path, root: Path | None, by_stem: Mapping[str, Path] | None = None):
        self._places = [place for folder in AUDIO_FOLDERS if isdir(place := base / folder)]
        self._above = [*Path(os.path.abspath(base)).parents[:_FOLDERS_ABOVE]]
        self._roots = None if root is None else root_forms(root)
        self._by_stem = by_stem or {}
        self._inside: dict[Path, bool] = {}
        self._listed: dict[Path, set[str]] = {}
        self._alike: dict[Path, dict[str, str]] = {}
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
        if found is None and (known := self._by_stem.get(_stem(name))) and self._allowed(known):
            found = known
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
        paths = list(dict.fromkeys(place / name for name in names for place in places))
        for path in paths:
            if path.name in self._names(path.parent) and self._allowed(path) and isfile(path):
                return path
        for path in paths:
            self._names(path.parent)
            like = self._alike[path.parent].get(_folded(path.name))
            if like is not None and self._allowed(path.with_name(like)) and isfile(path.with_name(like)):
                return path.with_name(like)
        return None

    def _names(self, folder: Path) -> set[str]:
        """Return the names in a folder, which is listed only once, and none if it may not be used.

        Sets `_alike` too: {name without case, Unicode form and, for a recording, also without suffix: name}.
        """
        if folder not in self._listed:
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = sorted(os.listdir(folder), reverse=True) if self._folder_allowed(folder) else []
            stems = {_folded(os.path.splitext(one)[0]): one for one in names if one.lower().endswith(AUDIO_SUFFIXES)}
            self._listed[folder] = set(names)
            self._alike[folder] = {**stems, **{_folded(one): one for one in names}}
        return self._listed[folder]

    def _folder_allowed(self, folder: Path) -> bool:
        if self._roots is None:
            return True
        if folder not in self._inside:
            self._inside[folder] = _within(folder, *self._roots)
        return self._inside[folder]

    def _allowed(self, path: Path) -> bool:
        """Whether a file may be used; only links are followed one by one, which is slow."""
        if self._roots is None:
            return True
        known = path.name not in ("", "..") and self._folder_allowed(path.parent)
        return known and (not os.path.islink(path) or _within(path, *self._roots))

    def why_missing(self, name: str) -> str:
        """Return the reason to reject a row whose recording is not at its path."""
        paths = [place / spelled for spelled in spellings(name) for place in self._places]
        if "://" in name:
            return f"{shown_name(name)} is an address, and nothing is downloaded: save the file and name it in the list"
        if not all(map(self._allowed, paths)):
            return OUTSIDE
        return f"{shown_name(name)} {'is a folder, not a file' if any(map(isdir, paths)) else 'does not exist'}"


def spellings(name: str) -> list[str]:
    """Return a name as it is written, and then with the separators of Windows as `/`."""
    return list(dict.fromkeys([name, name.replace("\\", "/")]))


def last_parts(name: str) -> list[str]:
    """Return the last two parts and the last part of a path of any system; nothing for a bare name or an address."""
    windows = PureWindowsPath(name)
    if ".." in windows.parts or "://" in name:
        return []
    parts = windows.parts[1:] if windows.anchor else windows.parts
    return ["/".join(parts[-count:]) for count in (2, 1) if len(parts) >= count and (windows.anchor or parts[1:])]


def _stem(name: str) -> str:
    """Return a name without the suffix of a recording."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in AUDIO_SUFFIXES else name


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
