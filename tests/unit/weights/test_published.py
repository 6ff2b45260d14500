"""The pinned list, and fetching a model of it into a folder; from a hub on the loopback address."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from omnivoice.errors import FileError, InputError
from omnivoice.intake import locks
from omnivoice.intake.locks import lock_folder
from omnivoice.weights import published
from omnivoice.weights.published import download_model, published_model, published_models
from tests import warm_children


@pytest.fixture
def model(published: dict, monkeypatch: pytest.MonkeyPatch):
    """The small manifest of the hub in place of the real one."""
    monkeypatch.setattr("omnivoice.weights.published.load_table", lambda path: published)
    return published_model("OmniVoice")


def fetch(model, folder: Path, progress: list | None = None) -> tuple[str, ...]:
    def on_progress(done: int, total: int) -> None:
        if progress is not None:
            progress.append((done, total))

    return download_model(model, folder, place="models/omnivoice/OmniVoice", on_progress=on_progress)


def test_the_real_list_is_pinned() -> None:
    models = published_models()
    assert list(models) == ["OmniVoice"]
    for name, entry in models.items():
        assert entry.name == name and re.fullmatch(r"[\w-]+/[\w-]+", entry.repository)
        assert re.fullmatch("[0-9a-f]{40}", entry.revision)
        assert "CC-BY-NC" in entry.licence_text() and "no commercial use" in entry.licence_text()
        for file in entry.files:
            assert re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0
            assert re.fullmatch(r"([\w]+/)?[\w]+\.(json|safetensors|jinja)", file.path)
    assert models["OmniVoice"].size == 3_267_443_402


@pytest.mark.parametrize("name", ["", "omnivoice", "k2-fsa/OmniVoice", "https://x/y", "../OmniVoice", None, 3, ["x"]])
def test_only_the_list_can_be_named(name: object) -> None:
    with pytest.raises(InputError, match="model must be one of OmniVoice, got"):
        published_model(name)


def test_fetched_once(model, hub, tmp_path: Path) -> None:
    folder, progress = tmp_path / "a" / "OmniVoice", []
    lines = fetch(model, folder, progress)
    assert lines == ("config.json: downloaded, 8 bytes", "audio_tokenizer/model.safetensors: downloaded, 3.07 MB")
    assert {path: (folder / path).read_bytes() for path in hub.files} == hub.files
    assert progress[-1] == (model.size, model.size) and progress == sorted(progress)
    assert len(hub.seen) == 2 and all(token is None for _, _, token in hub.seen)
    assert [path for path, _, _ in hub.seen] == [hub.prefix + path for path in hub.files]


def test_what_is_there_and_right_needs_no_network(model, hub, tmp_path: Path, monkeypatch) -> None:
    fetch(model, tmp_path)
    hub.seen.clear()
    monkeypatch.setenv("HF_ENDPOINT", "nonsense")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    progress: list = []
    assert fetch(model, tmp_path, progress) == tuple(f"{path}: already here" for path in hub.files)
    assert hub.seen == [] and progress[-1] == (model.size, model.size)


def test_only_what_is_missing_is_fetched(model, hub, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(hub.files["config.json"])
    assert fetch(model, tmp_path)[0] == "config.json: already here"
    assert [path for path, _, _ in hub.seen] == [hub.prefix + "audio_tokenizer/model.safetensors"]


def test_a_second_download_waits_and_uses_what_the_first_one_got(
    model, hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_WAIT_SECONDS", 0.001)
    progress: list[tuple[int, int]] = []

    def on_progress(done: int, total: int) -> None:
        progress.append((done, total))
        if len(progress) == 3:  # the other one has got a file, and is stopped
            (tmp_path / "config.json").write_bytes(hub.files["config.json"])
            held.release()

    with lock_folder(tmp_path, published.LOCK) as held:
        lines = download_model(model, tmp_path, place="x", on_progress=on_progress)
    assert lines == ("config.json: already here", "audio_tokenizer/model.safetensors: downloaded, 3.07 MB")
    assert [path for path, _, _ in hub.seen] == [hub.prefix + "audio_tokenizer/model.safetensors"]
    assert sorted(os.listdir(tmp_path)) == ["audio_tokenizer", "config.json"]


def test_cancel_ends_the_wait_for_another_download(model, hub, tmp_path: Path) -> None:
    def cancel(done: int, total: int) -> None:
        raise ZeroDivisionError

    with lock_folder(tmp_path, published.LOCK), pytest.raises(ZeroDivisionError):
        download_model(model, tmp_path, place="x", on_progress=cancel)
    assert hub.seen == []


DOWNLOAD = """
import json, sys
from pathlib import Path
from omnivoice.weights import published
published.load_table = lambda _: json.loads(sys.argv[2])
sys.stdin.readline()
model, folder = published.published_model("OmniVoice"), Path(sys.argv[1])
print(json.dumps(published.download_model(model, folder, place="x", on_progress=lambda *_: None)))
"""


def test_two_processes_download_each_file_once(published: dict, hub, tmp_path: Path) -> None:
    hub.files["audio_tokenizer/model.safetensors"] = data = bytes(range(256)) * 40_000  # two blocks of the library
    file = published["models"]["OmniVoice"]["files"][1]
    file.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    both = [warm_children.start(DOWNLOAD, tmp_path / "model", json.dumps(published)) for _ in range(2)]
    for process in both:
        process.stdin.write(b"\n")
        process.stdin.flush()
    reports = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(line.split()[1] for report in reports for line in report) == ["already"] * 2 + ["downloaded,"] * 2
    assert sorted(path for path, _, _ in hub.seen) == sorted(hub.prefix + path for path in hub.files)
    found = {str(path.relative_to(tmp_path / "model")): path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert found == hub.files


@pytest.mark.parametrize("other", [b"", b'{"a": 2}', b"longer than that"])
def test_a_file_of_somebody_else_stays(model, hub, tmp_path: Path, other: bytes) -> None:
    (tmp_path / "config.json").write_bytes(other)
    with pytest.raises(FileError, match=r"^config\.json in models/omnivoice/OmniVoice differs from the published file"):
        fetch(model, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == other and hub.seen == []


@pytest.mark.parametrize(
    "fault, message",
    [
        (("status", 404), r"^config\.json could not be downloaded \(the answer was HTTP 404\)"),
        (("length", 99), r"^config\.json could not be downloaded \(the connection ended after 0 of 8 bytes\)"),
    ],
)
def test_every_failure_comes_with_the_manual_steps(model, hub, tmp_path: Path, fault, message: str) -> None:
    hub.faults = [fault] * 99
    with pytest.raises(FileError, match=message) as caught:
        fetch(model, tmp_path)
    for part in (
        "Run this again to resume",
        "HF_ENDPOINT",
        "models/omnivoice/OmniVoice",
        "audio_tokenizer/model.safe",
        f"https://huggingface.co/k2-fsa/OmniVoice/tree/{'c' * 40}",
    ):
        assert part in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_offline_by_request(model, hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FileError, match=r"^HF_HUB_OFFLINE is set, .*\. Run this again"):
        fetch(model, tmp_path)
    assert hub.seen == []


def test_room_is_asked_for_what_is_missing(model, hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(published, "check_space", lambda folder, needed, action: asked.append(needed))
    (tmp_path / "config.json.part").write_bytes(hub.files["config.json"][:3])
    fetch(model, tmp_path)
    assert asked == [model.size - 3]
    usage = type("usage", (), {"free": 5})
    monkeypatch.undo()
    monkeypatch.setattr("omnivoice.intake.folders.shutil.disk_usage", lambda folder: usage)
    with pytest.raises(FileError, match=r"has 5 bytes free"):
        fetch(model, tmp_path / "elsewhere")
