"""Reading whole files, strict JSON, and writes that survive every fault: old or new, never half."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest

from omnivoice.errors import DiskFullError, FileError
from omnivoice.intake import files, strict_json
from omnivoice.intake.files import (
    append_line,
    file_stamp,
    open_regular,
    read_bytes,
    remove_file,
    sha256_of,
    write_atomic,
)
from omnivoice.intake.limits import MIB
from omnivoice.intake.strict_json import parse_json, read_json
from tests import warm_children

needs_posix = pytest.mark.skipif(os.name == "nt", reason="pipes, umask and fork are POSIX")
OLD, NEW = b"old" * 1000, b"new" * 2000
STEPS = ("open", "fdopen", "fsync", "replace", "link", "unlink", "close")


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# ---------------------------------------------------------------- reading


def test_read_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", limit=5) == b"12345"
    with pytest.raises(FileError, match=r"^a must be at most 4 bytes, got 5$"):
        read_bytes(tmp_path / "a", limit=4)
    with pytest.raises(FileError, match=r"^b does not exist$"):
        read_bytes(tmp_path / "b", limit=4)
    with pytest.raises(FileError, match=r"is a folder, not a file$"):
        read_bytes(tmp_path, limit=4)
    with pytest.raises(FileError, match=r"^cannot open x+: "):
        read_bytes(tmp_path / ("x" * 5000), limit=4)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, "Permission denied: change its permissions"),
        (errno.EPERM, "Operation not permitted: change its permissions"),
        (errno.EIO, "Input/output error: check its disk, or use a copy of it"),
        (errno.ESTALE, ".*: check its disk, or use a copy of it"),
    ],
)
def test_a_file_that_cannot_be_opened_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, advice: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    (tmp_path / "a").write_bytes(b"12345")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(FileError, match=f"^cannot open a: {advice}$"):
        read_bytes(tmp_path / "a", limit=9)


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EROFS])
def test_a_temporary_that_cannot_be_removed_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, overwrite: bool
) -> None:
    """The file is written, or the reason why it is not is told; what stays behind is collected a day later."""

    def refuse(path: object, **_: object) -> None:
        raise OSError(code, os.strerror(code))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert write_atomic(tmp_path / "a", NEW, overwrite=overwrite) == tmp_path / "a"
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskFullError, match="the disk is full"):
            write_atomic(tmp_path / "b", NEW, overwrite=overwrite)
    assert (tmp_path / "a").read_bytes() == NEW and not (tmp_path / "b").exists()
    left = [name for name in names(tmp_path) if name != "a"]
    assert left and all(files._TEMP.fullmatch(name) for name in left)


def test_a_folder_where_it_cannot_even_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def windows(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", windows)
    with pytest.raises(FileError, match=r"is a folder, not a file$"):
        read_bytes(tmp_path, limit=4)


def test_an_error_of_the_disk_while_reading(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(FileError, match=r"^cannot read a: bad sector: check its disk"), open_regular(tmp_path / "a"):
        raise OSError(errno.EIO, "bad sector")


def test_a_size_over_the_limit_is_never_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    start = time.process_time()
    with pytest.raises(FileError, match=r"must be at most 10 bytes, got 1099511627776$"):
        read_bytes(tmp_path / "sparse", limit=10)
    assert time.process_time() - start < 1


@needs_posix
def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(FileError, match=r"is not a regular file$"):
            read_bytes(path, limit=10)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
def test_refusals_leave_no_file_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a").write_bytes(b"12345")
    before = len(os.listdir("/proc/self/fd"))
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "a", tmp_path / "b"):
        for _ in range(5):
            with pytest.raises(FileError):
                read_bytes(path, limit=3)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    real = os.fstat

    def grow(handle: int) -> os.stat_result:
        status = real(handle)
        with (tmp_path / "a").open("ab") as file:
            file.write(b"6")
        return status

    monkeypatch.setattr(os, "fstat", grow)
    with pytest.raises(FileError, match=r"^a changed while it was read: try again$"):
        read_bytes(tmp_path / "a", limit=100)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not valid JSON"),
        (b"{", "is not valid JSON"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b"[Infinity]", "Infinity is not a JSON number"),
        (b"[-Infinity]", "-Infinity is not a JSON number"),
        (b"[1e999]", "a number is too large"),
        (b"[" + b"9" * 5000 + b"]", "more than 20 digits"),
        (b'{"a": 1, "a": 1}', "a key occurs twice"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "a key occurs twice"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"\xff\xfe[\x00]\x00", "is not UTF-8"),
        (b'["\xed\xa0\x80"]', "is not UTF-8"),
        (b"\xef\xbb\xbf[]", "is not valid JSON"),
        (b"[1] [2]", "is not valid JSON"),
        (b'{"a": ["\\ud800"]}', "half of a surrogate pair"),
        (b'{"a\\uDfFf": 1}', "half of a surrogate pair"),
        (b'["\\ude00\\ud83d"]', "half of a surrogate pair"),
        (b'["\\\\\\ud83d"]', "half of a surrogate pair"),
        (b"['a']", "is not valid JSON"),
        (b'["a\nb"]', "is not valid JSON"),
        (b"[1,]", "is not valid JSON"),
        (b"[01]", "is not valid JSON"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is not valid JSON"),
    ],
    ids=lambda value: ascii(value[:20]),
)
def test_strict_json(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(FileError, match=message) as caught:
        read_json(tmp_path / "x.json", limit=1_000_000)
    assert str(caught.value).startswith("x.json is not ") and len(str(caught.value)) < 200


def test_json_that_is_fine() -> None:
    assert parse_json(b' {"a": [1, -2, 0.5, null, true, "\xc3\xa9"]}\n', "x") == {"a": [1, -2, 0.5, None, True, "\xe9"]}
    assert parse_json(b"18446744073709551615", "x") == 2**64 - 1
    assert parse_json(rb'["\ud83d\ude00", "\\ud83d"]', "x") == ["\U0001f600", "\\ud83d"]


# ---------------------------------------------------------------- writing


def test_write_new_replace_and_refuse(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    assert write_atomic(path, OLD) == path and path.read_bytes() == OLD
    assert write_atomic(str(path), NEW) == path and path.read_bytes() == NEW
    with pytest.raises(FileError, match=r"^cannot write a\.bin: a file of that name exists already: choose another"):
        write_atomic(path, OLD, overwrite=False)
    assert path.read_bytes() == NEW and names(tmp_path) == ["a.bin"]
    assert write_atomic(tmp_path / "b.bin", b"", overwrite=False).read_bytes() == b""


@needs_posix
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
@pytest.mark.parametrize("overwrite", [True, False])
def test_mode_follows_the_umask(tmp_path: Path, umask: int, mode: int, overwrite: bool) -> None:
    before = os.umask(umask)
    try:
        path = write_atomic(tmp_path / "a", NEW, overwrite=overwrite)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def test_long_and_foreign_names(tmp_path: Path) -> None:
    for name in ("\u4e2d" * 80, "x" * 255, "-rf"):
        assert write_atomic(tmp_path / name, NEW).read_bytes() == NEW


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, r"the disk is full, 6 KB are needed: make room$"),
        (errno.EROFS, r"write-protected: choose another folder$"),
        (errno.EACCES, r"write-protected: choose another folder$"),
        (errno.EIO, r"^cannot write a: Input/output error: check the disk, or choose another folder$"),
    ],
)
def test_messages_of_failed_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str) -> None:
    (tmp_path / "a").write_bytes(OLD)

    def fail(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileError, match=message):
        write_atomic(tmp_path / "a", NEW)
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == OLD


def test_the_last_moment_before_a_file_is_replaced(tmp_path: Path) -> None:
    """The new data are on the disk by then, and an error there leaves the old file."""
    (tmp_path / "a").write_bytes(OLD)
    seen: list[bytes] = []

    def look() -> None:
        (temp,) = (path for path in tmp_path.iterdir() if path.name != "a")
        seen.extend([temp.read_bytes(), (tmp_path / "a").read_bytes()])
        if len(seen) == 2:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.raises(FileError, match="cannot write a: "):
        write_atomic(tmp_path / "a", NEW, before=look)
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == OLD
    write_atomic(tmp_path / "a", NEW, before=look)
    assert seen == [NEW, OLD] * 2 and names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == NEW


def test_missing_folder_and_folder_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"its folder does not exist: create it first$"):
        write_atomic(tmp_path / "no" / "a", NEW)
    (tmp_path / "taken").mkdir()
    with pytest.raises(FileError, match=r"^cannot write taken: "):
        write_atomic(tmp_path / "taken", NEW)
    assert names(tmp_path) == ["taken"]


class Fault:
    """Counts calls of the os functions a write is made of; at the n-th hit (before or after it) calls `act`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, act: Callable[[], None]) -> None:
        self.hits = 0
        for step in STEPS:
            monkeypatch.setattr(os, step, self._wrap(getattr(os, step), at, act))

    def _wrap(self, real: Callable[..., object], at: int, act: Callable[[], None]) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            self._hit(at, act)
            result = real(*args, **kwargs)
            self._hit(at, act)
            return result

        return call

    def _hit(self, at: int, act: Callable[[], None]) -> None:
        self.hits += 1
        if self.hits == at:
            act()


def count_hits(tmp_path: Path, overwrite: bool) -> int:
    with pytest.MonkeyPatch.context() as patch:
        fault = Fault(patch, 0, lambda: None)
        write_atomic(tmp_path / "a", NEW, overwrite=overwrite)
    if not overwrite:
        os.unlink(tmp_path / "a")
    return fault.hits


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "input/output error"), KeyboardInterrupt(), SystemExit()])
def test_a_fault_at_every_step(tmp_path: Path, overwrite: bool, error: BaseException) -> None:
    def fail() -> None:
        raise error

    hits = count_hits(tmp_path, overwrite)
    assert hits >= 10
    for at in range(1, hits + 1):
        if overwrite:
            (tmp_path / "a").write_bytes(OLD)
        with pytest.MonkeyPatch.context() as patch:
            Fault(patch, at, fail)
            with contextlib.suppress(FileError, KeyboardInterrupt, SystemExit):
                write_atomic(tmp_path / "a", NEW, overwrite=overwrite)
        content = (tmp_path / "a").read_bytes() if (tmp_path / "a").exists() else None
        assert content in ((OLD, NEW) if overwrite else (None, NEW)), f"torn at step {at}"
        # Only when removing the temporary is itself what fails can it stay; the next day's write collects it.
        left = [name for name in names(tmp_path) if name != "a"]
        assert len(left) <= 1 and all(files._TEMP.fullmatch(name) for name in left)
        for name in left:
            os.unlink(tmp_path / name)
        if not overwrite and content is not None:
            os.unlink(tmp_path / "a")


def test_the_temporary_goes_whatever_is_raised_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("fsync", "replace"):
        for error in (OSError(errno.EIO, "x"), KeyboardInterrupt(), MemoryError(), GeneratorExit()):
            with pytest.MonkeyPatch.context() as patch:

                def fail(*_: object, error: BaseException = error) -> None:
                    raise error

                patch.setattr(os, step, fail)
                with pytest.raises((FileError, KeyboardInterrupt, MemoryError, GeneratorExit)):
                    write_atomic(tmp_path / "a", NEW)
            assert names(tmp_path) == []


@needs_posix
@pytest.mark.parametrize("overwrite", [True, False])
def test_kill_at_every_step(tmp_path: Path, overwrite: bool) -> None:
    hits = count_hits(tmp_path, overwrite)
    for at in range(1, hits + 1):
        if overwrite:
            (tmp_path / "a").write_bytes(OLD)
        child = os.fork()
        if child == 0:
            with pytest.MonkeyPatch.context() as patch:
                Fault(patch, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
                write_atomic(tmp_path / "a", NEW, overwrite=overwrite)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        content = (tmp_path / "a").read_bytes() if (tmp_path / "a").exists() else None
        assert content in ((OLD, NEW) if overwrite else (None, NEW)), f"torn at step {at}"
        for name in names(tmp_path):
            assert name == "a" or files._TEMP.fullmatch(name)
            os.unlink(tmp_path / name)


def test_stale_temporaries_are_collected_and_nothing_else(tmp_path: Path) -> None:
    stale, fresh = f".a.wav.77.{'0' * 16}.ovtmp", f".a.wav.77.{'1' * 16}.ovtmp"
    others = [".a.ovtmp", "a.77.0000000000000000.ovtmp", f".b.x.{'0' * 16}.ovtmp", "old.wav"]
    for name in (stale, fresh, *others):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / f".dir.1.{'2' * 16}.ovtmp").mkdir()
    two_days_ago = time.time() - 2 * 24 * 3600
    for name in (stale, *others):
        os.utime(tmp_path / name, (two_days_ago, two_days_ago))
    write_atomic(tmp_path / "a", NEW)
    assert names(tmp_path) == sorted(["a", fresh, f".dir.1.{'2' * 16}.ovtmp", *others])


@pytest.mark.parametrize("times", [1, 4])
def test_a_file_held_for_a_moment_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    (tmp_path / "a.wav").write_bytes(OLD)
    real, calls = os.replace, []

    def held(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) <= times:
            raise PermissionError(errno.EACCES, "held")
        real(source, target)

    monkeypatch.setattr(os, "replace", held)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    assert write_atomic(tmp_path / "a.wav", NEW) == tmp_path / "a.wav"
    assert (tmp_path / "a.wav").read_bytes() == NEW and len(calls) == times + 1


def test_a_file_held_for_good_gets_a_numbered_sibling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.wav").write_bytes(OLD)
    (tmp_path / "a-1.wav").write_bytes(b"mine")
    waits: list[float] = []

    def held(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "held")

    monkeypatch.setattr(os, "replace", held)
    monkeypatch.setattr(time, "sleep", waits.append)
    with caplog.at_level(logging.WARNING, "omnivoice_nodes"):
        assert write_atomic(tmp_path / "a.wav", NEW) == tmp_path / "a-2.wav"
    assert waits == [0.05] * 5 and "a.wav is held by another program: wrote a-2.wav instead" in caplog.text
    assert names(tmp_path) == ["a-1.wav", "a-2.wav", "a.wav"]
    assert (tmp_path / "a.wav").read_bytes() == OLD and (tmp_path / "a-2.wav").read_bytes() == NEW


def test_a_hundred_siblings_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.wav", *(f"a-{number}.wav" for number in range(1, 100))):
        (tmp_path / name).write_bytes(OLD)

    def held(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "held")

    monkeypatch.setattr(os, "replace", held)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(FileError, match=r"^cannot write a\.wav: the folder or file is write-protected"):
        write_atomic(tmp_path / "a.wav", NEW)
    assert len(names(tmp_path)) == 100


@pytest.mark.parametrize("taken", [True, False])
def test_windows_renames_where_others_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool) -> None:
    renamed: list[Path] = []
    real = os.rename

    def rename(source: Path, target: Path) -> None:  # as it behaves there: an existing target is refused
        renamed.append(target)
        if target.exists():
            raise FileExistsError(errno.EEXIST, "exists")
        real(source, target)

    monkeypatch.setattr(files, "_WINDOWS", True)
    monkeypatch.setattr(os, "rename", rename)
    if taken:
        (tmp_path / "a").write_bytes(OLD)
        with pytest.raises(FileError, match="a file of that name exists already"):
            write_atomic(tmp_path / "a", NEW, overwrite=False)
    else:
        write_atomic(tmp_path / "a", NEW, overwrite=False)
    assert renamed == [tmp_path / "a"] and names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == (OLD if taken else NEW)


@needs_posix
def test_without_hard_links_nothing_is_replaced_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    assert write_atomic(tmp_path / "a", NEW, overwrite=False).read_bytes() == NEW
    with pytest.raises(FileError, match="a file of that name exists already"):
        write_atomic(tmp_path / "a", OLD, overwrite=False)

    def fail(source: Path, target: Path) -> None:
        raise OSError(errno.EIO, "x")

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(FileError):
        write_atomic(tmp_path / "b", NEW, overwrite=False)
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == NEW


@needs_posix
@pytest.mark.parametrize("links", [True, False])
def test_two_writers_of_one_new_name_never_overwrite(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    children = []
    for worker in range(4):
        child = os.fork()
        if child == 0:
            won = 0
            for number in range(50):
                with contextlib.suppress(FileError):
                    write_atomic(tmp_path / str(number), bytes([worker]) * 10, overwrite=False)
                    won += 1
            os._exit(won)
        children.append(child)
    won = sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert won == 50 and len(names(tmp_path)) == 50


@needs_posix
@pytest.mark.parametrize("held", [False, True])
def test_two_processes_with_one_prefix_lose_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """Each writes 200 files under the next free number. held: or under the sibling that the writer itself chooses."""
    if held:

        def blocked(*_: object) -> None:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(os, "replace", blocked)
        monkeypatch.setattr(files, "_REPLACE_WAIT_SECONDS", 0)
        monkeypatch.setattr(files, "_MAX_SIBLINGS", 1000)
    count, children = 50 if held else 200, []
    for worker in range(2):
        child = os.fork()
        if child == 0:
            own = 0
            for number in range(1, 10_000):
                path = tmp_path / ("speech.wav" if held else f"speech-{number}.wav")
                with contextlib.suppress(FileError):
                    write_atomic(path, f"{worker} {own}".encode(), overwrite=held)
                    own += 1
                if own == count:
                    os._exit(0)
            os._exit(1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    found = sorted((tmp_path / name).read_text() for name in names(tmp_path))
    assert found == sorted(f"{worker} {number}" for worker in range(2) for number in range(count))


def test_the_folder_is_synced_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.name == "nt":
        pytest.skip("Windows cannot sync a folder")
    log: list[str] = []
    real_replace, real_fsync = os.replace, os.fsync

    def fsync(handle: int) -> None:
        log.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        real_fsync(handle)

    def replace(source: Path, target: Path) -> None:
        log.append("replace")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_atomic(tmp_path / "a", NEW)
    assert log[:2] == ["file", "replace"] and len(log) == 3


@pytest.mark.parametrize("size", [10, MIB, MIB + 1, 5 * MIB])
def test_a_replaced_file_has_another_stamp(tmp_path: Path, size: int) -> None:
    """Equal size and time, other bytes: as a copy that keeps times, or a file system with coarse times, leaves it."""
    path = tmp_path / "voice"
    for at in {0, size // 2 // 32 * 32, size - 1}:
        path.write_bytes(bytes(size))
        before = file_stamp(path)
        assert file_stamp(path) == before
        time = path.stat().st_mtime_ns
        other = tmp_path / "other"
        other.write_bytes(bytes(at) + b"x" + bytes(size - at - 1))
        os.replace(other, path)
        os.utime(path, ns=(time, time))
        assert file_stamp(path) != before and path.stat().st_mtime_ns == time and path.stat().st_size == size


def test_a_stamp_looks_at_the_content_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ctime and inode tell nothing, as on some network drives."""
    same = os.stat_result((0o100644, 1, 1, 1, 0, 0, 10, 0, 0, 0))
    monkeypatch.setattr(files.os, "fstat", lambda handle: same)
    stamps = set()
    for content in (b"a" * 10, b"b" * 10, b"a" * 10):
        (tmp_path / "voice").write_bytes(content)
        stamps.add(file_stamp(tmp_path / "voice"))
    assert len(stamps) == 2


def test_a_stamp_reads_little_of_a_large_file(tmp_path: Path) -> None:
    with (tmp_path / "model").open("wb") as file:
        file.truncate(8 << 30)
    assert file_stamp(tmp_path / "model").startswith(f"{8 << 30}-")


def test_the_stamp_of_what_is_no_file(tmp_path: Path) -> None:
    assert file_stamp(tmp_path / "absent") == file_stamp(tmp_path) == "missing"


# ---------------------------------------------------------------- hashing, removing


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(FileError, match=r"^b does not exist$"):
        sha256_of(tmp_path / "b")
    (tmp_path / "c").write_bytes(bytes(3_000_000))
    counts: list[int] = []
    sha256_of(tmp_path / "c", counts.append)
    assert counts == [1 << 20, 2 << 20, 3_000_000]


def test_remove_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    remove_file(tmp_path / "a")
    remove_file(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(FileError, match=r"^cannot remove .*; remove it by hand$"):
        remove_file(tmp_path)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("[1, 2, 3, 4, 5, 6]", True),
        ("[1, 2, 3, 4, 5, 6, 7]", False),
        ('[[], {}, ""]', True),
        ("[[[[]]]]", False),
        ('{"a": {"b": {"c": [1]}}}', False),
        ('["1, 2, 3", "4, 5, 6, 7"]', False),
    ],
)
@pytest.mark.parametrize("kind", [str, str.encode])
def test_values_are_counted_before_json_is_parsed(
    monkeypatch: pytest.MonkeyPatch, text: str, fits: bool, kind: Callable[[str], str | bytes]
) -> None:
    monkeypatch.setattr(strict_json, "MAX_JSON_VALUES", 5)
    monkeypatch.setattr(strict_json, "MAX_JSON_CONTAINERS", 3)
    if fits:
        assert parse_json(kind(text), "x") == json.loads(text)
    else:
        monkeypatch.setattr(strict_json, "_DECODER", None)
        with pytest.raises(FileError, match="x has too many values to be held together: at most 5 commas and 3 lists"):
            parse_json(kind(text), "x")


def test_lines_are_appended(tmp_path: Path) -> None:
    append_line(tmp_path / "a", "one")
    append_line(tmp_path / "a", "zwölf", flush=True)
    assert (tmp_path / "a").read_bytes() == "one\nzwölf\n".encode()
    append_line(tmp_path / "b", "first", flush=True)
    assert (tmp_path / "b").read_bytes() == b"first\n"


@pytest.mark.parametrize("at_sync", [False, True])
@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, DiskFullError), (errno.EIO, FileError)])
def test_a_line_that_cannot_be_appended_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_sync: bool, code: int, kind: type[FileError]
) -> None:
    """The disk fails after half of the line, or when it is flushed."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def half(file: FileIO, data: bytes) -> None:
        file.write(data[: len(data) // 2])
        fail()

    append_line(tmp_path / "a", "one")
    with monkeypatch.context() as patched:
        patched.setattr(*((os, "fsync", fail) if at_sync else (files, "_append", half)))
        with pytest.raises(kind, match=r"^cannot write a: "):
            append_line(tmp_path / "a", "two", flush=True)
    assert (tmp_path / "a").read_bytes() == b"one\n"
    append_line(tmp_path / "a", "three")
    assert (tmp_path / "a").read_bytes() == b"one\nthree\n"


def test_a_line_that_is_written_in_parts_is_whole(tmp_path: Path) -> None:
    class Slow(FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            return super().write(data[:3])

    with Slow(tmp_path / "a", "wb") as file:
        files._append(file, b"0123456789\n")
    assert (tmp_path / "a").read_bytes() == b"0123456789\n"


def test_what_is_printed_later_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "out", "w", encoding="utf-8") as output:
        monkeypatch.setattr(sys, "stdout", output)
        print("seen", flush=True)
        files.discard_output()
        print("not seen", flush=True)
        os.write(output.fileno(), b"nor this")
    assert (tmp_path / "out").read_text() == "seen\n"


def test_output_is_discarded_after_its_reader_left() -> None:
    code = (
        "import os, sys\nfrom omnivoice.intake.files import discard_output\nprint('seen', flush=True)\n"
        "discard_output()\nprint('not seen', flush=True)\nos.write(1, b'nor this')"
    )
    assert warm_children.run(code) == (0, "seen\n", "")


def test_stale_folders_go_and_odd_things_stay(tmp_path: Path) -> None:
    made, fresh = f".a.1.{'2' * 16}.ovtmp", f".a.1.{'3' * 16}.ovtmp"
    for name in (made, fresh):
        (tmp_path / name).mkdir()
    (tmp_path / made / "inside").touch()
    link = f".b.1.{'4' * 16}.ovtmp"
    (tmp_path / link).symlink_to(tmp_path / "elsewhere")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(tmp_path / made, (two_days_ago, two_days_ago))
    os.utime(tmp_path / link, (two_days_ago, two_days_ago), follow_symlinks=False)
    files.remove_stale_temps(tmp_path)
    assert names(tmp_path) == sorted([fresh, link])
    files.remove_stale_temps(tmp_path / "missing")
