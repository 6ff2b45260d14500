"""`batch` with a real model: one file a line, a manifest, failures by name, and a second run that has nothing to do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.commands.test_command_line import Run

pytestmark = pytest.mark.usefixtures("one_engine")


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    return Run(root, checkpoint, tmp_path)


def test_a_list_becomes_files_and_a_manifest(run: Run, root: Path) -> None:
    shutil.copy(root / "tests" / "assets" / "wav" / "reference.wav", run.folder / "anna.wav")
    rows = [
        {"id": "one", "text": "Hello there, everyone.", "ref_audio": "anna.wav", "ref_text": "Good morning."},
        {"id": "two", "text": "It rains.", "mood": "sad"},
        {"id": "three", "text": "!"},
    ]
    (run.folder / "list.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = run("batch", "list.jsonl", "-o", "out", "--steps", 2)
    assert result.returncode == 1
    assert "out: 2 files" in result.stdout
    assert "failed: line 3, three: nothing to speak" in result.stderr
    assert "error: 1 line failed; manifest.jsonl has the reason of each" in result.stderr
    assert "these keys of the list are not used: 'mood'" in result.stderr
    made = {path.name: path.read_bytes() for path in (run.folder / "out").iterdir()}
    assert sorted(made) == ["manifest.jsonl", "one.wav", "two.wav"]
    again = run("batch", "list.jsonl", "-o", "out", "--steps", 2)
    assert "out: 0 files" in again.stdout
    assert "2 were there already" in again.stdout
    assert {path.name: path.read_bytes() for path in (run.folder / "out").iterdir()} == made


def test_the_rows_of_torchrun_are_shared(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": f"r{i}", "text": f"Sentence number {i}."} for i in range(5)]
    (run.folder / "list.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for rank, count in ((0, 3), (1, 2)):
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", str(rank))
        assert f"out: {count} files" in run("batch", "list.jsonl", "-o", "out", "--steps", 1).stdout
    names = sorted(path.name for path in (run.folder / "out").iterdir())
    assert names == ["manifest-0-of-2.jsonl", "manifest-1-of-2.jsonl", *(f"r{i}.wav" for i in range(5))]


@pytest.mark.parametrize("kind", ["file", "list"])
def test_a_folder_that_cannot_be_used_is_refused_before_the_model_is_loaded(run: Run, kind: str) -> None:
    (run.folder / "list.jsonl").write_text('{"text": "Hello."}')
    (run.folder / "taken").write_text("notes")
    arguments = ("list.jsonl", "-o", "taken") if kind == "file" else (".",)
    result = run("batch", *arguments, "--model", "missing")
    assert result.returncode == 1
    assert ("the folder taken" if kind == "file" else "is a folder, not a file") in result.stderr
