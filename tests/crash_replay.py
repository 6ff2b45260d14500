"""Replays every crash of a piece of work on files: what a kill, or a power cut, can leave of it at any moment.

`recorded` notes what changes in a folder: at each call of the functions of `os` that create, rename, link, remove or
flush, the whole tree is compared with the tree before. `crashes` then yields what can be on the disk after every prefix
of these changes. As in SQLite's crash tests, content that was not flushed is there, missing, or torn in the middle, and
names that were not flushed (with an fsync of their folder) are changed or not, in any prefix or with any one missing.
A kill without a power cut is one of these cases: everything is there.
"""

from __future__ import annotations

import builtins
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePosixPath

import pytest

CALLS = ("open", "replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "truncate", "ftruncate", "close")
TEMPORARY = ".ovtmp"
_FOLDER = -1  # in place of a number, where a name is a folder
Content = dict[str, bytes | None]  # {path: content of the file, None for a folder}
Tree = dict[str, tuple[int, bytes | None]]  # the same with an inode, or a number


@dataclass(frozen=True)
class Change:
    """One change. kind: "create", "rename", "remove", "write", "sync file", "sync folder" or "reached".

    number: of the file, _FOLDER for a folder. old: the name before a rename. data: what the file holds from now on.
    """

    kind: str
    path: str = ""
    number: int = _FOLDER
    old: str = ""
    data: bytes = b""


@dataclass(eq=False)
class Log:
    """What happened in a folder. start: {path: (number, data)} of what was there before, as if flushed long ago."""

    start: Tree
    changes: list[Change] = field(default_factory=list)
    reached: Callable[[str], None] = print  # notes that something was promised
    look: Callable[[], None] = print  # notes what has been written so far

    @property
    def prefixes(self) -> int:
        """How many moments there are at which a crash can come."""
        return len(self.changes) + 1


@dataclass(frozen=True, eq=False)
class Crash:
    """What a crash leaves. after: number of changes before it. reached: what `Log.reached` was told before it."""

    after: int
    reached: tuple[str, ...]
    content: Content

    def write(self, folder: Path) -> Path:
        """Replace `folder` by what the crash leaves, and return it."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path, data in sorted(self.content.items()):
            if data is None:
                (folder / path).mkdir(parents=True, exist_ok=True)
            else:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(data)
        return folder

    def without_temporaries(self) -> Content:
        """What is under final names."""
        return {path: data for path, data in self.content.items() if TEMPORARY not in path}


@contextmanager
def recorded(folder: Path) -> Iterator[Log]:
    """Yield a log that fills up while the block works in `folder`. Call its `reached` where something is promised."""
    with pytest.MonkeyPatch.context() as patch:
        watcher = _Watcher(folder)
        watcher.log.reached, watcher.log.look = watcher.reached, watcher.look
        for name in CALLS:
            if hasattr(os, name):
                patch.setattr(os, name, watcher.before(getattr(os, name)))
        patch.setattr(builtins, "open", watcher.before(open))
        patch.setattr(os, "fsync", watcher.fsync(os.fsync))
        yield watcher.log
        watcher.look()


class _Watcher:
    """Compares the tree with the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._numbers, self._looking = folder, count(), False
        self._tree = self._scan()
        self._number = {inode: next(self._numbers) for inode, data in self._tree.values() if data is not None}
        self.log = Log({path: (self._number.get(inode, _FOLDER), data) for path, (inode, data) in self._tree.items()})

    def before(self, real: Callable[..., object]) -> Callable[..., object]:
        """Return the function with a look at the tree before each call."""

        def call(*args: object, **kwargs: object) -> object:
            self.look()
            return real(*args, **kwargs)

        return call

    def fsync(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(handle: int) -> None:
            self.look()
            real(handle)
            inode = os.fstat(handle).st_ino
            if inode == os.stat(self.folder).st_ino:
                self.log.changes.append(Change("sync folder", ""))
            for path, (found, data) in self._tree.items():
                if found == inode:
                    kind = "sync folder" if data is None else "sync file"
                    self.log.changes.append(Change(kind, path, self._number.get(inode, _FOLDER)))
                    break

        return call

    def reached(self, what: str) -> None:
        self.look()
        self.log.changes.append(Change("reached", what))

    def look(self) -> None:
        """Add what has changed since the last look."""
        if self._looking:
            return
        self._looking = True
        try:
            old, self._tree = self._tree, self._scan()
            self._compare(old, self._tree)
        finally:
            self._looking = False

    def _scan(self) -> Tree:
        found: Tree = {}
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            for entry in os.scandir(self.folder / prefix):
                path = f"{prefix}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    found[path] = entry.inode(), None
                    waiting.append(f"{path}/")
                else:
                    found[path] = entry.inode(), _read(entry.path)
        return found

    def _compare(self, old: Tree, new: Tree) -> None:
        log, before = self.log.changes, {inode: path for path, (inode, _) in old.items()}
        after = {inode: path for path, (inode, _) in new.items()}
        moved: dict[str, str] = {}
        for path in sorted(new):
            inode, data = new[path]
            known = inode in before and (old[before[inode]][1] is None) == (data is None)
            if old.get(path, (None,))[0] == inode or any(path.startswith(f"{one}/") for one in moved):
                continue
            if not known:
                if data is not None:
                    self._number[inode] = next(self._numbers)
                log.append(Change("create", path, self._number[inode] if data is not None else _FOLDER))
            elif before[inode] in new and new[before[inode]][0] == inode:
                log.append(Change("create", path, self._number[inode]))  # a link
            else:
                moved[path] = before[inode]
                log.append(Change("rename", path, self._number.get(inode, _FOLDER), before[inode]))
        for path in sorted(old, reverse=True):
            renamed = any(f"{path}/".startswith(f"{one}/") for one in moved.values()) and old[path][0] in after
            if path not in new and not renamed:
                log.append(Change("remove", path))
        for inode, path in after.items():
            data = new[path][1]
            if data is not None and data != (old[before[inode]][1] if inode in before else b""):
                log.append(Change("write", path, self._number[inode], data=data))


def _read(path: str) -> bytes:
    handle = _OPEN(path, os.O_RDONLY)
    try:
        return b"".join(iter(lambda: os.read(handle, 1 << 22), b""))
    finally:
        _CLOSE(handle)


_OPEN, _CLOSE = os.open, os.close


class _Disk:
    """What is flushed, and what is not yet. names: {path: number} that are flushed."""

    def __init__(self, start: Tree) -> None:
        self.names = {path: number for path, (number, _) in start.items()}
        self.flushed = {number: data for number, data in start.values() if data is not None}
        self.now, self.pending = dict(self.flushed), list[Change]()

    def apply(self, change: Change) -> None:
        if change.kind == "write":
            self.now[change.number] = change.data
        elif change.kind == "sync file":
            self.flushed[change.number] = self.now[change.number]
        elif change.kind == "sync folder":
            self._sync_folder(change.path)
        elif change.kind != "reached":
            self.pending.append(change)
            if change.kind == "create" and change.number != _FOLDER:
                self.now.setdefault(change.number, b"")
                self.flushed.setdefault(change.number, b"")

    def _sync_folder(self, folder: str) -> None:
        mine = [one for one in self.pending if folder in {_parent(one.path), _parent(one.old or one.path)}]
        for change in mine:
            _rename_all(self.names, change)
            self.pending.remove(change)
            if change.kind == "rename" and change.number == _FOLDER:
                self.pending = [_below(one, change.old, change.path) for one in self.pending]

    def states(self) -> Iterator[Content]:
        """Yield everything that a crash can leave now."""
        for names in self._names():
            for version in range(5):
                content: Content = {}
                for path, number in names.items():
                    above = [str(one) for one in PurePosixPath(path).parents][:-1]
                    if all(names.get(one) == _FOLDER for one in above):
                        data = self._version(number, version)
                        content[path] = None if number == _FOLDER else data
                yield content

    def _names(self) -> Iterator[dict[str, int]]:
        chosen = [self.pending[:end] for end in range(len(self.pending) + 1)]
        chosen += [self.pending[:at] + self.pending[at + 1 :] for at in range(len(self.pending) - 1)]
        for changes in chosen:
            names = dict(self.names)
            for change in changes:
                _rename_all(names, change)
            yield names

    def _version(self, number: int, version: int) -> bytes:
        """Return the content of a file: as it is, as it was flushed, or torn in three ways."""
        if number == _FOLDER:
            return b""
        now, old = self.now[number], self.flushed[number]
        if version == 0 or now == old:
            return now
        if version == 1 or old.startswith(now):
            return old
        start = len(old) if now.startswith(old) else 0
        middle = (start + len(now)) // 2
        return (now[:middle], now[:start] + bytes(middle - start) + now[middle:], now[:-1])[version - 2]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _below(change: Change, old: str, new: str) -> Change:
    """Return the change with the names that it has once the folder above it is renamed."""

    def moved(path: str) -> str:
        return f"{new}{path[len(old) :]}" if path.startswith(f"{old}/") else path

    return Change(change.kind, moved(change.path), change.number, moved(change.old), change.data)


def _rename_all(names: dict[str, int], change: Change) -> None:
    """Apply a change of names."""
    if change.kind == "create":
        names[change.path] = change.number
    elif change.kind == "remove":
        names.pop(change.path, None)
    else:
        for path in [one for one in names if f"{one}/".startswith(f"{change.old}/")]:
            names[f"{change.path}{path[len(change.old) :]}"] = names.pop(path)


def crashes(log: Log) -> Iterator[Crash]:
    """Yield everything that a crash can leave, each different thing once for what was reached before it."""
    disk, reached, seen = _Disk(log.start), tuple[str, ...](), set[object]()
    for after in range(log.prefixes):
        if after:
            change = log.changes[after - 1]
            disk.apply(change)
            reached = (*reached, change.path) if change.kind == "reached" else reached
        for content in disk.states():
            key = (reached, frozenset(content.items()))
            if key not in seen:
                seen.add(key)
                yield Crash(after, reached, content)
