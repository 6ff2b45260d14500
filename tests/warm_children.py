"""Python processes for tests that need one, but not the two seconds in which it would import torch.

Such a child is forked from a server that has only imported torch and the library. The server starts with the first
child of a test process, has used no threads that a fork would lose, and ends with the test process. It has the guard of
the network, as its children do, and a hash seed of its own, so that sets have another order there. What is decided when
an interpreter starts (encodings, locales, what is imported) is the server's: tests of that start a process of their
own. Away from Linux every child is a new process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

from tests.offline.network_guard import guarded_path

ROOT = Path(__file__).resolve().parents[1]
IMPORTED = ("torch._dynamo", "omnivoice.__main__", "omnivoice.engine", "omnivoice.train", "tests.warm_children")
HASH_SEED = "1"


class Child:
    """A running child: the part of subprocess.Popen that tests use, with pipes of bytes for its three streams."""

    def __init__(self, code: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        context = multiprocessing.get_context("forkserver")
        _start_server()
        pipes = [context.Pipe(duplex=False) for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        given = (code, arguments, os.getcwd(), environment, theirs)
        self._process = context.Process(target=_run, args=given, daemon=True)
        self._process.start()
        for one in theirs:
            one.close()
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(os.dup(one.fileno()), mode) for one, mode in zip(ours, ("wb", "rb", "rb"))
        )
        for one in ours:
            one.close()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or the negative number of the signal that ended it; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"child {self.pid}", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Close its input and return what it wrote to its output and its errors, when it has ended."""
        self.stdin.close()
        read = [b"", b""]

        def read_all(place: int, stream: IO[bytes]) -> None:
            read[place] = stream.read()

        readers = [threading.Thread(target=read_all, args=one, daemon=True) for one in enumerate(self._outputs())]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return read[0], read[1]

    def _outputs(self) -> list[IO[bytes]]:
        return [self.stdout, self.stderr]

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for its end, as subprocess.Popen does."""
        for stream in (self.stdin, *self._outputs()):
            stream.close()
        self.wait()


def start(code: str, *arguments: object, environment: Mapping[str, str] | None = None) -> Child | subprocess.Popen:
    """Start a child that runs `code` as `python -c` would, and return it.

    arguments: its sys.argv[1:]. environment: variables beside those of this process. It works in this process's
    folder, imports from the pack's root, and has pipes for its three streams.
    """
    given = tuple(map(str, arguments))
    known = {**os.environ, **guarded_path(ROOT), "PYTHONHASHSEED": HASH_SEED, **(environment or {})}
    if sys.platform == "linux":
        return Child(code, given, known)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *given], env=known, stdin=pipe, stdout=pipe, stderr=pipe)


def run(code: str, *arguments: object, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a child to its end and return its exit code and what it wrote to its output and its errors."""
    with start(code, *arguments, environment=environment) as child:
        try:
            output, errors = child.communicate(timeout=600)
        except BaseException:
            child.kill()
            raise
        return child.returncode, output.decode(), errors.decode()


def _start_server() -> None:
    """Start the server of this process, if it does not run: on one thread, and able to import the pack and tests."""
    forkserver.set_forkserver_preload(list(IMPORTED))
    before = dict(os.environ)
    try:
        os.environ.update(guarded_path(ROOT), PYTHONHASHSEED=HASH_SEED)
        os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(
    code: str, arguments: tuple[str, ...], folder: str, environment: dict[str, str], streams: list[Connection]
) -> None:
    """The child's work."""
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process would ignore it
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
