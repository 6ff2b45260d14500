"""Downloading one file from a hub on the loopback address: whole, resumed, and everything that can go wrong.

The library hands over 10 MB at a time. These tests set that to 64 KiB, so that small files are resumed as large ones.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import socket
import sys
import threading
from io import FileIO
from pathlib import Path

import pytest

from omnivoice.errors import FileError, InputError
from omnivoice.intake import downloads
from omnivoice.intake.downloads import check_hub, download_file, hub_endpoint

DATA = bytes(range(256)) * 8_000  # 2 MB
SHA256 = hashlib.sha256(DATA).hexdigest()
CHUNK = 64 << 10


class Cancelled(Exception):
    """What a host's callback raises."""


@pytest.fixture
def get(hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Downloads the hub's file "w.safetensors" into a folder; the progress so far is in `get.progress`."""
    monkeypatch.setattr(downloads, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(downloads, "_TICK_SECONDS", 0.005)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", CHUNK)
    hub.files["w.safetensors"] = DATA

    def run(cancel_at: int | None = None, sha256: str = SHA256, path: str = "w.safetensors") -> bytes:
        def on_bytes(done: int) -> None:
            run.progress.append(done)
            if cancel_at is not None and done >= cancel_at:
                raise Cancelled

        run.progress.clear()
        size = len(hub.files.get("w.safetensors") or DATA) if sha256 != SHA256 else len(DATA)
        download_file("k2-fsa/OmniVoice", "c" * 40, path, run.target, size=size, sha256=sha256, on_bytes=on_bytes)
        assert not run.part.exists()
        return run.target.read_bytes()

    run.target, run.part, run.progress = tmp_path / "w.safetensors", tmp_path / "w.safetensors.part", []
    return run


def ranges(hub) -> list[str | None]:
    return [asked for _, asked, _ in hub.seen]


def test_whole_file(get, hub) -> None:
    assert get() == DATA
    assert get.progress[-1] == len(DATA) and get.progress == sorted(get.progress)
    assert hub.seen == [(f"/k2-fsa/OmniVoice/resolve/{'c' * 40}/w.safetensors", None, None)]
    assert os.listdir(get.target.parent) == ["w.safetensors"]


@pytest.mark.parametrize("there", [1, 700_001, len(DATA) - 1])
def test_resumed(get, hub, there: int) -> None:
    get.part.write_bytes(DATA[:there])
    assert get() == DATA and ranges(hub) == [f"bytes={there}-"]
    assert get.progress[0] >= there


def test_a_part_that_is_whole_needs_no_network(get, hub) -> None:
    get.part.write_bytes(DATA)
    assert get() == DATA and hub.seen == []


def test_a_part_that_is_too_long_is_dropped(get, hub) -> None:
    get.part.write_bytes(DATA + b"x")
    assert get() == DATA and ranges(hub) == [None]


@pytest.mark.parametrize("there", [1000, len(DATA)])
def test_a_wrong_part_is_found_out_and_the_file_downloaded_from_its_start(get, hub, there: int) -> None:
    get.part.write_bytes(b"x" * there)
    assert get() == DATA and ranges(hub)[-1] is None and len(hub.seen) <= 2


def test_wrong_bytes(get, hub) -> None:
    hub.files["w.safetensors"] = DATA[:-1] + b"x"
    with pytest.raises(FileError, match=r"^w\.safetensors differs from the published file and was removed$"):
        get()
    assert len(hub.seen) == 1
    assert os.listdir(get.target.parent) == []


@pytest.mark.parametrize("kind", ["cut", "reset"])
def test_broken_connections_are_resumed(get, hub, kind: str) -> None:
    hub.faults = [(kind, 300_000), (kind, 500_000)]
    assert get() == DATA
    starts = [int(asked.strip("bytes=-")) for asked in ranges(hub)[1:]]
    # What came after the last full chunk is lost, and with a reset possibly all that had not been read.
    assert starts == sorted(starts) and (kind == "reset" or starts == [4 * CHUNK, 11 * CHUNK])


def test_broken_too_often(get, hub) -> None:
    hub.faults = [("cut", CHUNK)] + [("cut", 0)] * 99
    with pytest.raises(FileError, match=rf"w\.safetensors could not be downloaded \(.*{CHUNK} of 2048000 bytes\)"):
        get()
    assert get.part.read_bytes() == DATA[:CHUNK] and not get.target.exists()
    hub.faults.clear()
    assert get() == DATA and ranges(hub)[-1] == f"bytes={CHUNK}-"


@pytest.mark.parametrize(("refill", "enough"), [(CHUNK, True), (3 * CHUNK, True), (1 << 30, False)])
def test_progress_earns_more_tries(get, hub, monkeypatch: pytest.MonkeyPatch, refill: int, enough: bool) -> None:
    """The library goes on after a cut by itself, but not when the server answers with an error then."""
    monkeypatch.setattr(downloads, "REFILL_BYTES", refill)
    hub.faults = [("cut", 3 * CHUNK + 1), ("status", 503)] * 8
    if enough:
        assert get() == DATA
        return
    with pytest.raises(FileError, match=r"could not be downloaded \(the answer was HTTP 503\)"):
        get()
    assert get.part.stat().st_size == 9 * CHUNK  # of three tries


def test_a_server_without_ranges(get, hub) -> None:
    get.part.write_bytes(b"x" * 1000)  # wrong, and it does not matter
    hub.faults = [("whole", None)]
    assert get() == DATA


@pytest.mark.parametrize("given", ["bytes 0-2047999/2048000", "bytes 1000-2047999/9", "garbage", ""])
def test_another_range_than_asked_for(get, hub, given: str) -> None:
    get.part.write_bytes(DATA[:1000])
    hub.faults = [("range", given)]
    hub.spoiled = b"y" * (len(DATA) - 1000)
    assert get() == DATA and ranges(hub)[0] == "bytes=1000-"


def test_416_restarts(get, hub) -> None:
    get.part.write_bytes(DATA[:1000])
    hub.faults = [("status", 416)]
    assert get() == DATA and ranges(hub) == ["bytes=1000-", None]


@pytest.mark.parametrize("code", [401, 403, 404, 410, 416, 451])
def test_final_refusals_are_not_repeated(get, hub, code: int) -> None:
    hub.faults = [("status", code)]
    with pytest.raises(FileError, match=rf"w\.safetensors could not be downloaded \(the answer was HTTP {code}\)"):
        get()
    assert len(hub.seen) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_passing_refusals_are_tried_again(get, hub, code: int) -> None:
    hub.faults = [("status", code)] * 2
    assert get() == DATA
    get.target.unlink()
    hub.faults, hub.seen[:] = [("status", code)] * 99, []
    with pytest.raises(FileError, match=rf"\(the answer was HTTP {code}\)"):
        get()
    assert len(hub.seen) >= 3


@pytest.mark.parametrize("length", [5, 0])
def test_a_body_that_is_cut_short_by_its_length(get, hub, length: int) -> None:
    hub.faults = [("length", length)] * 99
    with pytest.raises(FileError, match=r"w\.safetensors could not be downloaded .* of 2048000 bytes"):
        get()
    assert not get.target.exists()
    hub.faults.clear()
    assert get() == DATA


def test_a_page_of_a_proxy_in_place_of_the_file(get, hub) -> None:
    hub.files["w.safetensors"] = b"<html>please log in</html>"
    with pytest.raises(FileError, match=r"w\.safetensors could not be downloaded"):
        get()
    assert not get.target.exists()
    hub.files["w.safetensors"] = DATA
    assert get() == DATA


def test_more_bytes_than_published(get, hub) -> None:
    hub.files["w.safetensors"] = DATA + b"x" * 10_000_000
    hub.faults = [("no length", None)]
    with pytest.raises(FileError, match="is larger than the 2048000 bytes"):
        get()
    assert get.part.stat().st_size == 0


def test_no_length_given(get, hub) -> None:
    hub.faults = [("no length", None)]
    assert get() == DATA


def test_redirect_within_the_endpoint(get, hub) -> None:
    hub.faults = [("redirect", f"{hub.address}{hub.prefix}w.safetensors?signed=1")]
    hub.files["w.safetensors?signed=1"] = DATA
    assert get() == DATA
    get.target.unlink()
    get.part.write_bytes(DATA[:10])
    hub.faults = [("redirect", f"{hub.prefix}w.safetensors")]
    assert get() == DATA and ranges(hub)[-1] == "bytes=10-"


@pytest.mark.parametrize("to", ["ftp://127.0.0.1/x", "file:///etc/passwd", "data:,x", "http://[", "//"])
def test_redirects_to_what_is_no_web_address(get, hub, network, to: str) -> None:
    hub.faults = [("redirect", to)] * 99
    with pytest.raises(FileError, match=r"w\.safetensors could not be downloaded"):
        get()
    assert not get.target.exists()
    assert set(network.taken()) <= {"socket.getaddrinfo %5B"}  # the bracket is taken for a name


def test_redirects_without_end(get, hub) -> None:
    hub.faults = [("redirect", f"{hub.prefix}w.safetensors")] * 500
    with pytest.raises(FileError, match="could not be downloaded"):
        get()
    assert len(hub.seen) < 150


def test_nothing_answers(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(FileError, match=r"^w\.safetensors could not be downloaded \(Connection refused\)$"):
        get()


def test_a_server_that_says_nothing(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT", 0.05)
    hub.faults = [("stall", 0)] * 99
    with pytest.raises(FileError, match="did not answer in time"):
        get()


@pytest.mark.parametrize("sent", [0, 1, 5 * CHUNK + 1])
@pytest.mark.parametrize("kind", ["drip", "stall"])
def test_a_download_that_drips_ends(get, hub, monkeypatch: pytest.MonkeyPatch, kind: str, sent: int) -> None:
    """The clock of this test jumps a minute whenever it is asked, so it needs no time and no certain speed."""
    hub.faults = [(kind, sent)]
    minutes = itertools.count()
    with monkeypatch.context() as patched:
        patched.setattr(downloads, "monotonic", lambda: 60.0 * next(minutes))
        with pytest.raises(
            FileError, match=r"^w\.safetensors could not be downloaded \(too little came in 10 minutes\)"
        ):
            get()
    kept = get.part.read_bytes()
    assert kept == DATA[: len(kept)] and len(kept) <= sent and len(hub.seen) == 1
    assert get() == DATA


def test_a_slow_download_that_goes_on_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 blocks one arrives every 400 seconds."""
    wanted, came, seconds = threading.Semaphore(0), threading.Semaphore(0), itertools.count()
    monkeypatch.setattr(downloads, "monotonic", lambda: 400.0 * next(seconds))
    with (tmp_path / "x").open("w+b", buffering=0) as file:
        part = downloads._PartFile(file, "x", 20)

        def job() -> None:
            for _ in range(20):
                wanted.acquire()
                part.write(b"x")
                came.release()

        def on_bytes(done: int) -> None:
            if done < 20:
                wanted.release()
                came.acquire()

        assert downloads._run_watched(job, part, on_bytes) is None and part.tell() == 20


@pytest.mark.parametrize("after", [0, 1, len(DATA) // 2, len(DATA)])
def test_cancel_keeps_what_came(get, hub, after: int) -> None:
    with pytest.raises(Cancelled):
        get(cancel_at=after)
    kept = get.part.read_bytes()
    assert not get.target.exists() and kept == DATA[: len(kept)] and len(kept) >= after
    asked = len(hub.seen)
    assert get() == DATA
    assert ranges(hub)[-1] == (f"bytes={len(kept)}-" if kept else None) or len(kept) == len(DATA)
    assert asked <= 1


@pytest.mark.parametrize("sent", [0, 5 * CHUNK + 1])
def test_cancel_while_the_server_sends_nothing_more(get, hub, sent: int) -> None:
    """The library's thread still waits for the server; the caller is free at once, and may download again."""
    hub.faults = [("stall", sent)]
    with pytest.raises(Cancelled):
        get(cancel_at=sent // CHUNK * CHUNK)
    assert get.part.stat().st_size == sent // CHUNK * CHUNK
    assert get() == DATA
    assert not hub.closing.is_set()


def test_a_thread_left_behind_writes_no_more(get, hub) -> None:
    hub.faults = [("stall", CHUNK + 1)]
    with pytest.raises(Cancelled):
        get(cancel_at=CHUNK)
    before = {thread for thread in threading.enumerate() if thread.name == "omnivoice-download"}
    hub.closing.set()
    for thread in before:
        thread.join(20)
    assert get.part.read_bytes() == DATA[:CHUNK]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, type("Interrupt", (BaseException,), {}), SystemExit])
def test_every_kind_of_interrupt_comes_out_as_it_is(get, hub, tmp_path: Path, kind: type[BaseException]) -> None:
    raised = kind()

    def on_bytes(done: int) -> None:
        raise raised

    with pytest.raises(kind) as caught:
        download_file("a/b", "c" * 40, "w", get.target, size=len(DATA), sha256=SHA256, on_bytes=on_bytes)
    assert caught.value is raised and raised.__cause__ is None


def test_cancel_while_waiting_for_another_try(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "WAIT_SECONDS", 3_600.0)
    hub.faults = [("status", 503)] * 99
    waiting = threading.Event()
    monkeypatch.setattr(downloads, "_retry_reason", lambda *_: waiting.set() or "HTTP 503")

    def on_bytes(done: int) -> None:
        if waiting.is_set():
            raise Cancelled

    with pytest.raises(Cancelled):
        download_file("k2-fsa/OmniVoice", "c" * 40, "w.safetensors", get.target, size=9, sha256="", on_bytes=on_bytes)


def test_a_disk_that_is_full_at_the_very_end(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Network file systems may report it when the file is synced."""

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(FileError, match="the disk is full"):
            get()
    assert get() == DATA


def test_disk_full(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(FileIO):
        def write(self, data: object) -> int:
            if self.tell() >= 700_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data[:50_000])  # type: ignore[index]

    monkeypatch.setattr(downloads, "FileIO", Small)
    with pytest.raises(FileError, match=r"the disk is full: 1\.\d\d MB of w\.safetensors are still missing; make room"):
        get()
    assert len(hub.seen) == 1 and get.part.read_bytes() == DATA[: get.part.stat().st_size]
    monkeypatch.setattr(downloads, "FileIO", FileIO)
    assert get() == DATA


def test_odd_files_under_the_part_name(get, hub, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"mine")
    get.part.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=r"^cannot write w\.safetensors\.part"):
        get()
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"
    get.part.unlink()
    os.mkfifo(get.part)
    with pytest.raises(FileError, match=r"w\.safetensors\.part"):
        get()
    assert hub.seen == []


def test_nothing_is_replaced(get, hub) -> None:
    get.target.write_bytes(b"mine")
    with pytest.raises(FileError, match="appeared during the download"):
        get()
    assert get.target.read_bytes() == b"mine"


@pytest.mark.parametrize(
    "given, endpoint",
    [
        (None, "https://huggingface.co"),
        ("", "https://huggingface.co"),
        ("https://hf-mirror.com/", "https://hf-mirror.com"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        (" https://hub.lan/hf ", "https://hub.lan/hf"),
        ("http://[::1]:8080/a-b/c", "http://[::1]:8080/a-b/c"),
    ],
)
def test_endpoint(monkeypatch: pytest.MonkeyPatch, given: str | None, endpoint: str) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    if given is not None:
        monkeypatch.setenv("HF_ENDPOINT", given)
    assert hub_endpoint() == endpoint


@pytest.mark.parametrize(
    "given",
    [
        "huggingface.co",
        "ftp://x",
        "file:///etc/passwd",
        "https://",
        "https://x y",
        "https://x:port",
        "https://[::1",
        "javascript:1",
        "https://\u00fc",
        "https://x\ny",
        "https://x:0",
        "https://x/..\\y",
    ],
)
def test_endpoint_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", given)
    with pytest.raises(InputError, match=r"^HF_ENDPOINT must be an address such as https://huggingface\.co, with"):
        hub_endpoint()


@pytest.mark.parametrize(
    "given",
    [
        "https://user:secret@x",
        "https://x?token=secret",
        "https://x#secret",
        "secret@x",
        "https://user:secret%40x",
        "https://user:secret",
        "https://user:secret\uff20x",
        "https://user:sec\\ret@x/secret",
        "ftp://user:secret",
        "secret",
    ],
)
def test_a_password_in_the_address_is_not_shown(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", given)
    with pytest.raises(InputError, match="without a user name, password or query") as caught:
        hub_endpoint()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value, offline", [("1", True), ("true", True), ("YES", True), ("0", False), ("", False)])
def test_offline_variable(hub, monkeypatch: pytest.MonkeyPatch, value: str, offline: bool) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    if offline:
        with pytest.raises(FileError, match="HF_HUB_OFFLINE is set"):
            check_hub()
    else:
        check_hub()


def test_the_library_is_offline(hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """As TRANSFORMERS_OFFLINE makes it, or a variable that was set when the library was imported."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(FileError, match="HF_HUB_OFFLINE is set"):
        check_hub()


def test_without_the_library(hub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "huggingface_hub"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(FileError, match="huggingface_hub is not installed: run `pip install huggingface_hub`"):
        check_hub()


def test_no_token_is_sent(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert get() == DATA and [token for _, _, token in hub.seen] == [None]


def test_nothing_but_the_file_is_left(get, hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert get() == DATA
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["home", "w.safetensors"]
    assert not get.target.is_symlink()


def library_of_2023(url, temp_file, *, proxies=None, resume_size=0, headers=None, expected_size=None):
    assert proxies == {}  # it would hand the download to hf_transfer
    temp_file.write(DATA[resume_size:])


def library_of_2025(url, temp_file, *, resume_size=0, headers=None, expected_size=None):
    temp_file.write(DATA[resume_size:])


def library_of_2026(url, temp_file, *, resume_size=0, headers=None, expected_size=None, tqdm_class=None):
    assert tqdm_class is downloads._NoBar
    temp_file.write(DATA[resume_size:])


@pytest.mark.parametrize("library", [library_of_2023, library_of_2025, library_of_2026])
@pytest.mark.parametrize("there", [0, 700_001])
def test_every_release_of_the_library(get, hub, monkeypatch: pytest.MonkeyPatch, library: object, there: int) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.http_get", library)
    get.part.write_bytes(DATA[:there])
    assert downloads.part_bytes(get.target) == there
    assert get() == DATA and hub.seen == []
    assert downloads.part_bytes(get.target) == 0


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_target_that_cannot_be_named(get, hub, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """The part file stays, so that nothing is downloaded twice."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        with pytest.raises(FileError, match=r"^cannot write w\.safetensors: "):
            get()
    assert get.part.read_bytes() == DATA
    assert get() == DATA and len(hub.seen) == 1


def test_a_disk_that_fails_while_it_is_written(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(FileIO):
        def write(self, data: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(downloads, "FileIO", Broken)
    with pytest.raises(FileError, match=r"^cannot write w\.safetensors\.part: "):
        get()
    assert len(hub.seen) == 1
