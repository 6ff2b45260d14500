"""Fetching one file from a hub on the loopback address: whole, resumed, and everything that can go wrong."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import socket
import urllib.request
from email.message import Message
from io import FileIO
from pathlib import Path

import pytest

from omnivoice.errors import FileError, InputError
from omnivoice.intake import downloads, fetch, folders
from omnivoice.intake.fetch import fetch_file, file_url, hub_endpoint

DATA = bytes(range(256)) * 8_000  # 2 MB
SHA256 = hashlib.sha256(DATA).hexdigest()


class Cancelled(Exception):
    """What a host's callback raises."""


@pytest.fixture
def get(hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Fetches the hub's file "w.safetensors" into a folder; the progress so far is in `get.progress`."""
    monkeypatch.setattr(fetch, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(fetch, "_TICK_SECONDS", 0.005)
    hub.files["w.safetensors"] = DATA

    def run(cancel_at: int | None = None, sha256: str = SHA256, path: str = "w.safetensors") -> bytes:
        def on_bytes(done: int) -> None:
            run.progress.append(done)
            if cancel_at is not None and done >= cancel_at:
                raise Cancelled

        run.progress.clear()
        url = file_url(hub_endpoint(), "k2-fsa/OmniVoice", "c" * 40, path)
        fetch_file(url, run.target, size=len(DATA), sha256=sha256, on_bytes=on_bytes)
        assert not run.part.exists()
        return run.target.read_bytes()

    run.target, run.part, run.progress = tmp_path / "w.safetensors", tmp_path / "w.safetensors.part", []
    return run


def ranges(hub) -> list[str | None]:
    return [asked for _, asked, _ in hub.seen]


def test_whole_file(get, hub) -> None:
    assert get() == DATA
    assert get.progress[-1] == len(DATA) and get.progress == sorted(get.progress) and len(get.progress) > 3
    assert hub.seen == [(f"/k2-fsa/OmniVoice/resolve/{'c' * 40}/w.safetensors", None, None)]
    assert os.listdir(get.target.parent) == ["w.safetensors"]


@pytest.mark.parametrize("there", [1, 700_001, len(DATA) - 1])
def test_resumed(get, hub, there: int) -> None:
    get.part.write_bytes(DATA[:there])
    assert get() == DATA and ranges(hub) == [f"bytes={there}-"]
    assert get.progress[0] == min(there, 1 << 20)


def test_a_part_that_is_whole_needs_no_network(get, hub) -> None:
    get.part.write_bytes(DATA)
    assert get() == DATA and hub.seen == []


def test_a_part_that_is_too_long_is_dropped(get, hub) -> None:
    get.part.write_bytes(DATA + b"x")
    assert get() == DATA and ranges(hub) == [None]


def test_wrong_part_is_found_out_and_removed(get, hub) -> None:
    get.part.write_bytes(b"x" * 1000)
    with pytest.raises(FileError, match=r"^w\.safetensors arrived with other bytes than published and was removed$"):
        get()
    assert not get.part.exists() and not get.target.exists()
    assert get() == DATA


def test_wrong_bytes(get, hub) -> None:
    hub.files["w.safetensors"] = DATA[:-1] + b"x"
    with pytest.raises(FileError, match="arrived with other bytes than published"):
        get()
    assert os.listdir(get.target.parent) == []


def test_broken_connections_are_continued(get, hub) -> None:
    hub.faults = [("cut", 300_000), ("cut", 500_000)]
    assert get() == DATA and ranges(hub) == [None, "bytes=300000-", "bytes=800000-"]


def test_broken_too_often(get, hub) -> None:
    hub.faults = [("cut", 1_000)] * 3
    with pytest.raises(FileError, match=r"could not be fetched \(the connection ended after 3000 of 2048000 bytes\)"):
        get()
    assert get.part.read_bytes() == DATA[:3_000] and not get.target.exists()
    assert get() == DATA and ranges(hub)[-1] == "bytes=3000-"


def test_progress_earns_more_tries(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "REFILL_BYTES", 200_000)
    hub.faults = [("cut", 200_000)] * 8
    assert get() == DATA


def test_a_server_without_ranges(get, hub) -> None:
    get.part.write_bytes(b"x" * 1000)  # wrong, and it does not matter
    hub.faults = [("whole", None)]
    assert get() == DATA


@pytest.mark.parametrize("given", ["bytes 0-2047999/2048000", "bytes 1000-2047999/9", "garbage", ""])
def test_another_range_than_asked_for(get, hub, given: str) -> None:
    get.part.write_bytes(DATA[:1000])
    hub.faults = [("range", given)]
    assert get() == DATA and ranges(hub) == ["bytes=1000-", None]


def test_416_starts_anew(get, hub) -> None:
    get.part.write_bytes(DATA[:1000])
    hub.faults = [("status", 416)]
    assert get() == DATA and ranges(hub) == ["bytes=1000-", None]


@pytest.mark.parametrize("code", [401, 403, 404, 410, 416, 451])
def test_final_refusals_are_not_repeated(get, hub, code: int) -> None:
    hub.faults = [("status", code)]
    with pytest.raises(FileError, match=rf"w\.safetensors could not be fetched \(the answer was HTTP {code}\)"):
        get()
    assert len(hub.seen) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_passing_refusals_are_tried_again(get, hub, code: int) -> None:
    hub.faults = [("status", code)] * 2
    assert get() == DATA
    get.target.unlink()
    hub.faults, hub.seen[:] = [("status", code)] * 9, []
    with pytest.raises(FileError, match=rf"\(the answer was HTTP {code}\)"):
        get()
    assert len(hub.seen) == 3


@pytest.mark.parametrize("length", [5, len(DATA) + 1, "x"])
def test_another_length_is_another_file(get, hub, length: object) -> None:
    hub.faults = [("length", length)]
    with pytest.raises(FileError, match=r"w\.safetensors has .* bytes there, 2048000 were published"):
        get()
    assert not get.target.exists()


def test_more_bytes_than_published(get, hub) -> None:
    hub.files["w.safetensors"] = DATA + b"x" * 10_000_000
    hub.faults = [("no length", None)]
    with pytest.raises(FileError, match="is larger there than the 2048000 bytes"):
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


@pytest.mark.parametrize("to", ["http://localhost:1/x", "http://10.0.0.1/x", "ftp://127.0.0.1/x", "file:///etc/x"])
def test_redirect_elsewhere_is_not_followed(get, hub, to: str) -> None:
    hub.faults = [("redirect", to)]
    with pytest.raises(FileError, match=r"which is not followed|HTTP 302"):
        get()
    assert len(hub.seen) == 1


def test_https_never_goes_on_in_the_clear() -> None:
    asked, redirects = urllib.request.Request("https://huggingface.co/x"), fetch._Redirects()
    followed = redirects.redirect_request(asked, io.BytesIO(), 302, "", Message(), "https://cdn.example/x")
    assert followed and followed.full_url == "https://cdn.example/x"
    with pytest.raises(FileError, match=r"sends on to http://huggingface\.co, which is not followed"):
        redirects.redirect_request(asked, io.BytesIO(), 302, "", Message(), "http://huggingface.co/x")


def test_redirects_without_end(get, hub) -> None:
    hub.faults = [("redirect", f"{hub.prefix}w.safetensors")] * 50
    with pytest.raises(FileError, match="HTTP 302"):
        get()
    assert len(hub.seen) < 20


def test_offline(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    with pytest.raises(FileError, match=r"^w\.safetensors could not be fetched \(Connection refused\)$"):
        get()


def test_a_server_that_says_nothing(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT_SECONDS", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(FileError, match="no answer for 0 s"):
            get()


@pytest.mark.parametrize("after", [0, 1, len(DATA) // 2, len(DATA)])
def test_cancel_keeps_what_came(get, hub, after: int) -> None:
    with pytest.raises(Cancelled):
        get(cancel_at=after)
    kept = get.part.read_bytes()
    assert not get.target.exists() and kept == DATA[: len(kept)] and len(kept) >= min(after, 1)
    assert get() == DATA
    assert ranges(hub)[1:] == ([f"bytes={len(kept)}-"] if len(kept) < len(DATA) else [])


def test_cancel_while_waiting_for_another_try(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "WAIT_SECONDS", 60.0)
    hub.faults = [("status", 503)]
    with pytest.raises(Cancelled):
        get(cancel_at=0)
    assert len(hub.seen) == 1


def test_disk_full(get, hub, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(FileIO):
        def write(self, data: object) -> int:
            if self.tell() >= 700_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data[:50_000])  # type: ignore[index]

    monkeypatch.setattr(downloads, "FileIO", Small)
    with pytest.raises(FileError, match=r"the disk is full: 1\.\d MB of w\.safetensors are still missing; make room"):
        get()
    assert len(hub.seen) == 1 and get.part.read_bytes() == DATA[: get.part.stat().st_size]
    monkeypatch.undo()
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    assert get() == DATA


def test_space_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("usage", (), {"free": 4_000_000_000})
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    folders.check_space(tmp_path, 2_000_000_000)
    folders.check_space(tmp_path, 0)
    with pytest.raises(FileError, match=r"has 4\.0 GB free, 3\.3 GB are to be fetched and 1\.1 GB must stay free"):
        folders.check_space(tmp_path, 3_300_000_000)


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
    with pytest.raises(FileError, match="appeared while it was fetched"):
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
    ],
)
def test_endpoint(monkeypatch: pytest.MonkeyPatch, given: str | None, endpoint: str) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    if given is not None:
        monkeypatch.setenv("HF_ENDPOINT", given)
    assert hub_endpoint() == endpoint
    assert file_url(endpoint, "a/b", "c0", "d/e f#.json") == f"{endpoint}/a/b/resolve/c0/d/e%20f%23.json"


@pytest.mark.parametrize(
    "given",
    [
        "huggingface.co",
        "ftp://x",
        "file:///etc/passwd",
        "https://",
        "https://user:secret@x",
        "https://x?y",
        "https://x y",
        "https://x:port",
        "https://[::1",
        "javascript:1",
        "https://x#y",
        "https://\u00fc",
    ],
)
def test_endpoint_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", given)
    with pytest.raises(InputError, match=r"^HF_ENDPOINT must be an address such as https://huggingface\.co, got"):
        hub_endpoint()


@pytest.mark.parametrize("value, offline", [("1", True), ("true", True), ("YES", True), ("0", False), ("", False)])
def test_offline_variable(monkeypatch: pytest.MonkeyPatch, value: str, offline: bool) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert fetch.is_offline() is offline
