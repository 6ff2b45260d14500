"""Shared by all tests: where things are, and a copy of the pack as a user would have it installed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from tests.offline import network_guard

ROOT = Path(__file__).resolve().parents[1]
PACK_FILES = (
    "__init__.py",
    "nodes",
    "omnivoice",
    "demo_voice",
    "workflows",
    "web",
    "locales",
    "pyproject.toml",
    "requirements.txt",
    "LICENSE",
)
GUARD = pytest.StashKey[network_guard.Guard]()
LONG_FILES = (
    "tests/demo/",
    "tests/unit/test_static_checks.py",
    "tests/unit/train/",
    "tests/fuzz/",
    "tests/benchmarks/",
)
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "audio_tokenizer")


def comfyui_path() -> Path | None:
    """The ComfyUI to test with: COMFYUI_PATH, else ~/ComfyUI, if it is there."""
    path = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "ComfyUI")
    return path if (path / "main.py").is_file() else None


def pytest_configure(config: pytest.Config) -> None:
    """Guards the network in this process, and in every Python process that a test starts."""
    folder = tempfile.TemporaryDirectory(prefix="omnivoice-tests-")
    config.add_cleanup(folder.cleanup)
    log = os.environ[network_guard.LOG] = os.path.join(folder.name, "network.txt")
    offline = str(ROOT / "tests" / "offline")
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part not in ("", offline)]
    if not getattr(config.option, "numprocesses", None):  # the processes of xdist run tests and set this themselves
        os.environ["PYTHONPATH"] = os.pathsep.join([offline, *others])
    guard = config.stash[GUARD] = network_guard.Guard(log, loopback=False)
    guard.install()
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # by the number of their tests, the longest files would come last


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts with the files that take longest, so that at the end no process is left alone with one of them."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG_FILES))


@pytest.fixture
def network(request: pytest.FixtureRequest) -> network_guard.Guard:
    return request.config.stash[GUARD]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Allows loopback addresses to tests with servers of their own: those of the hub, of ComfyUI, or with the mark."""
    marked = item.get_closest_marker("loopback") or item.nodeid.startswith("tests/comfyui/")
    # asyncio on Windows talks to itself over a loopback address.
    own = bool(marked) or "hub" in getattr(item, "fixturenames", ())
    guard = item.config.stash[GUARD]
    guard.leftover = _threads()
    guard.loopback = own or os.name == "nt"


def _threads() -> frozenset[int]:
    return frozenset(one.ident or 0 for one in threading.enumerate() if one is not threading.main_thread())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fails a test that reached for another machine or a name, even if the code survived that it could not."""
    yield
    guard = item.config.stash[GUARD]
    guard.leftover = _threads()
    guard.loopback = False
    tried = guard.taken()
    assert not tried, f"the network was used: {tried}"


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors are quicker so, and a busy machine does not stall at thread barriers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session", autouse=True)
def no_flush() -> Iterator[None]:
    """No file of a test has to survive a power cut, and thousands of them are flushed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    """A tiny random model in the published format."""
    folder = ROOT / "tests" / "assets" / "checkpoint"
    assert all((folder / name).exists() for name in MODEL_FILES)
    return folder


def copy_pack_to(destination: Path) -> Path:
    """Copy what a user installs into a folder that is made here, and nothing else; return the folder."""
    destination.mkdir(parents=True)
    for name in PACK_FILES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, destination / name, ignore=shutil.ignore_patterns("__pycache__", "making"))
        else:
            shutil.copy(ROOT / name, destination / name)
    return destination


@pytest.fixture(scope="session")
def copy_pack() -> Callable[[Path], Path]:
    """Copies what a user installs into a folder, and nothing else."""
    return copy_pack_to


class HubHandler(BaseHTTPRequestHandler):
    """Files of one repository and commit, with ranges; each entry of the server's `faults` spoils one request."""

    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        hub, asked = self.server, self.headers.get("Range")
        hub.seen.append((self.path, asked, self.headers.get("Authorization")))
        kind, value = hub.faults.pop(0) if hub.faults else ("", None)
        data = hub.files.get(self.path.removeprefix(hub.prefix))
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and kind != "whole" else 0
        if kind == "status" or data is None:
            self.send_error(value or 404)
        elif kind == "redirect":
            self.send_response(302)
            self.send_header("Location", value)
            self.end_headers()
        elif start >= len(data):
            self.send_error(416)
        else:
            self.send_file(data, start, kind, value)

    def send_file(self, data: bytes, start: int, kind: str, value: object) -> None:
        self.send_response(206 if start or kind == "range" else 200)
        if start or kind == "range":
            given = value if kind == "range" else f"bytes {start}-{len(data) - 1}/{len(data)}"
            self.send_header("Content-Range", given)
        if kind != "no length":
            self.send_header("Content-Length", str(value if kind == "length" else len(data) - start))
        self.end_headers()
        if kind == "range" and self.server.spoiled:
            data, start = self.server.spoiled, 0
        sent = data[start : start + value] if kind in {"cut", "stall", "reset", "drip"} else data[start:]
        with contextlib.suppress(ConnectionError):  # the downloader may have left
            self.wfile.write(sent)
        if kind == "stall":  # until the test ends
            self.server.closing.wait()
        with contextlib.suppress(ConnectionError):
            while kind == "drip" and not self.server.closing.wait(0.002):
                self.wfile.write(b"x")
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class Hub(ThreadingHTTPServer):
    """A hub on the loopback address, as far as a download of one file asks for it."""

    daemon_threads = True

    def __init__(self, prefix: str):
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.prefix, self.files = prefix, dict[str, bytes]()
        self.faults: list[tuple[str, object]] = []
        self.seen: list[tuple[str, str | None, str | None]] = []  # path, Range, Authorization
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.spoiled = b""  # sent in place of a range that was not asked for
        self.closing = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is what these tests are about."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A running hub, which HF_ENDPOINT names. Nothing else of the environment reaches a download, nobody waits long."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(time, "sleep", lambda seconds, sleep=time.sleep: sleep(min(seconds, 0.005)))
    for name in ("HF_HUB_OFFLINE", "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Hub(f"/k2-fsa/OmniVoice/resolve/{'c' * 40}/")
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def published(hub: Hub) -> dict[str, dict]:
    """A manifest of small files that the hub has, in the form of weights/manifest.json."""
    hub.files.update({"config.json": b'{"a": 1}', "audio_tokenizer/model.safetensors": bytes(range(256)) * 12_000})
    licences = {"code": "Apache-2.0", "weights": "CC-BY-NC", "audio_tokenizer": "Boson"}
    files = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in hub.files.items()
    ]
    entry = {"repository": "k2-fsa/OmniVoice", "revision": "c" * 40, "license": licences, "files": files}
    return {"models": {"OmniVoice": entry}}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "tests/comfyui" in r.nodeid]
    if skipped and comfyui_path() is None:
        terminalreporter.section("NOT TESTED: ComfyUI", sep="!", yellow=True, bold=True)
        terminalreporter.line(
            f"{len(skipped)} tests on a real ComfyUI were skipped, because none was found. Set COMFYUI_PATH to its "
            "folder (and COMFYUI_PYTHON to its python), or put it at ~/ComfyUI, and run pytest again."
        )
