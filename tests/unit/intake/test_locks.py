"""A folder's lock: one holder at a time, who is named; a kill frees it; a left file locks nothing."""

from __future__ import annotations

import errno
import logging
import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from omnivoice.errors import FileError, LockedError
from omnivoice.intake import locks
from omnivoice.intake.locks import lock_folder, only_run
from tests import warm_children

NAME = "run.lock"
HOLD = """
import sys
from omnivoice.intake import locks
from omnivoice.intake.locks import lock_folder, only_run
lock = lock_folder(sys.argv[1], "run.lock")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the folder until its input ends."""
    with warm_children.start(HOLD, tmp_path) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_second_one_in_this_process_is_refused_by_name(tmp_path: Path) -> None:
    named = rf"^{re.escape(tmp_path.name)} is in use by process {os.getpid()} on \S+ since 20\d\d-\d\d-\d\d \d\d:\d\d"
    with lock_folder(tmp_path, NAME):
        for _ in range(2):  # a refusal does not free it
            with pytest.raises(LockedError, match=named + r"\S*: wait until that run ends, stop it, or choose another"):
                lock_folder(tmp_path, NAME)
    lock = lock_folder(tmp_path, NAME)
    lock.release()
    lock.release()
    lock_folder(tmp_path, NAME).release()
    assert (tmp_path / NAME).read_bytes() == b""


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_another_process_is_named_and_its_end_frees_the_folder(holder, tmp_path: Path, end: str) -> None:
    with pytest.raises(LockedError, match=f"in use by process {holder.pid} on "):
        lock_folder(tmp_path, NAME)
    if end == "kill":
        holder.kill()
    else:
        holder.stdin.close()
    holder.wait()
    if end == "kill" and os.name == "posix":
        assert holder.returncode == -signal.SIGKILL and (tmp_path / NAME).read_bytes(), "its file is left"
    lock_folder(tmp_path, NAME).release()


@pytest.mark.parametrize("left", [b"", b'{"host": "a", "process": 1, "since": "now"}', b"\xff\0", b"[]", b"x" * 5000])
def test_a_left_file_locks_nothing(tmp_path: Path, left: bytes) -> None:
    (tmp_path / NAME).write_bytes(left)
    with lock_folder(tmp_path, NAME):
        (tmp_path / NAME).write_bytes(left)
        named = "process 1 on a since now" if b"host" in left else "another process"
        with pytest.raises(LockedError, match=f"is in use by {named}: "):
            lock_folder(tmp_path, NAME)


def test_a_full_disk_leaves_the_lock_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with lock_folder(tmp_path, NAME), pytest.raises(LockedError, match="in use by another process"):
        lock_folder(tmp_path, NAME)


@pytest.mark.parametrize("place", ["missing", "file"])
def test_a_folder_that_cannot_hold_the_file(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileError, match=rf"^cannot write {NAME}: "):
        lock_folder(tmp_path / place, NAME)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_named(
    tmp_path: Path, monkeypatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no flock")

    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level(logging.WARNING), lock_folder(tmp_path, NAME):
        assert f"a second run in {tmp_path.name} would not be noticed: its disk has no locks" in caplog.text


@pytest.mark.parametrize("code", [errno.EACCES, errno.EDEADLK])
def test_windows_locks_a_byte_behind_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A stand-in for msvcrt: a byte range that one handle at a time can have, and that dies with its handle."""
    held: dict[int, int] = {}

    def locking(handle: int, mode: int, count: int) -> None:
        place = os.lseek(handle, 0, os.SEEK_CUR)
        assert (mode, count) == (2, 1) and place > 4096
        if place in held:
            raise OSError(code, "Resource deadlock avoided")
        held[place] = handle

    def close(handle: int, real=os.close) -> None:
        for place, holder in [*held.items()]:
            if holder == handle:
                del held[place]
        real(handle)

    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "close", close)
    with lock_folder(tmp_path, NAME), pytest.raises(LockedError, match=f"process {os.getpid()} on "):
        lock_folder(tmp_path, NAME)
    lock_folder(tmp_path, NAME).release()
    assert (tmp_path / NAME).stat().st_size == 0


def test_only_run_removes_its_file_and_holds_the_lock_meanwhile(tmp_path: Path) -> None:
    with only_run(tmp_path), pytest.raises(LockedError, match="is in use by process"), only_run(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), only_run(tmp_path):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_only_run_can_wait_for_another_process(holder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_WAIT_SECONDS", 0.001)
    waited: list[int] = []

    def on_wait() -> None:
        waited.append(1)
        if len(waited) == 3:
            holder.kill()
            holder.wait()

    with only_run(tmp_path, NAME, on_wait=on_wait), pytest.raises(LockedError):
        lock_folder(tmp_path, NAME)
    assert len(waited) == 3 and list(tmp_path.iterdir()) == []


def test_waiting_can_be_cancelled(holder, tmp_path: Path) -> None:
    def cancel() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), only_run(tmp_path, NAME, on_wait=cancel):
        pass
    with pytest.raises(LockedError, match=f"in use by process {holder.pid} on "):
        lock_folder(tmp_path, NAME)


def test_a_lock_whose_file_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be a lock on nothing, and a third run would get one of its own."""
    take, calls = locks._take, list[int]()

    def slow(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / "x.lock").unlink()
        take(handle)

    monkeypatch.setattr(locks, "_take", slow)
    with lock_folder(tmp_path, "x.lock"):
        assert (len(calls), (tmp_path / "x.lock").exists()) == (2, True)
        monkeypatch.undo()
        with pytest.raises(LockedError):
            lock_folder(tmp_path, "x.lock")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_is_not_taken_for_another_run(tmp_path: Path, monkeypatch, code: int) -> None:
    fcntl = pytest.importorskip("fcntl", reason="Windows has no flock")
    closed: list[int] = []

    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def close(handle: int, real=os.close) -> None:
        closed.append(handle)
        real(handle)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(os, "close", close)
    with pytest.raises(FileError, match=rf"^cannot write {NAME}: ") as raised:
        lock_folder(tmp_path, NAME)
    assert not isinstance(raised.value, LockedError) and len(closed) == 1


@pytest.mark.parametrize("name", ["_take", "_is_at", "_own_name"])
def test_an_interrupt_while_it_is_taken_leaves_it_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(locks, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            lock_folder(tmp_path, NAME)
    lock_folder(tmp_path, NAME).release()


@pytest.mark.parametrize("name", ["_take", "_is_at", "_own_name"])
def test_an_interrupt_of_a_run_that_begins_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real, calls = getattr(locks, name), []

    def interrupted(*arguments: object) -> object:
        calls.append(name)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(locks, name, interrupted)
    with pytest.raises(KeyboardInterrupt), only_run(tmp_path):
        pytest.fail("it was interrupted before")
    assert list(tmp_path.iterdir()) == []
    with only_run(tmp_path), pytest.raises(KeyboardInterrupt), only_run(tmp_path, on_wait=_interrupt):
        pytest.fail("another run holds it")
    assert list(tmp_path.iterdir()) == []


def _interrupt() -> None:
    raise KeyboardInterrupt
