"""No file that a command writes tells who made it and where: no home folder, user name, host name or token."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest

from tests.unit.commands.test_command_line import Run

USER, TOKEN = "ann-canary", "hf_" + "Canary" * 6
COMMANDS = (
    ("voice", "save", "{home}/anna.wav", "--transcript", "Good morning.", "-o", "{home}/anna.safetensors"),
    ("speak", "It rains.", "--voice", "{home}/anna.safetensors", "-o", "{home}/speak.wav", "--steps", "1"),
    ("narrate", "{home}/book.txt", "--voice", "{home}/anna.safetensors", "-o", "{home}/book.wav", "--steps", "1"),
    ("dialogue", "{home}/talk.txt", "-o", "{home}/talk.wav", "--steps", "1"),
    ("subtitles", "{home}/film.srt", "-o", "{home}/film.wav", "--steps", "1"),
    ("batch", "{home}/list.jsonl", "-o", "{home}/out", "--steps", "1"),
    ("export", "-o", "{home}/model.safetensors"),
)


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    home = tmp_path / USER
    home.mkdir()
    shutil.copy(root / "tests" / "assets" / "wav" / "reference.wav", home / "anna.wav")
    (home / "book.txt").write_text("# One\nThe weather is fine.\n# Two\nIt was late.")
    (home / "talk.txt").write_text("Anna: It rains.\nBob: It was late.\n")
    (home / "film.srt").write_text("1\n00:00:00,500 --> 00:00:02,500\nGood morning.\n")
    row = {"text": "It rains.", "ref_audio": str(home / "anna.wav"), "ref_text": "Good morning."}
    (home / "list.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({"text": "!"}))
    for name, value in {"HOME": str(home), "USER": USER, "LOGNAME": USER, "HF_TOKEN": TOKEN}.items():
        monkeypatch.setenv(name, value)
    return Run(root, checkpoint, home)


def test_no_written_file_names_its_maker(run: Run) -> None:
    given = {path for path in run.folder.rglob("*") if path.is_file()}
    for command in COMMANDS:
        result = run(*(part.format(home=run.folder) for part in command))
        assert result.returncode == (1 if command[0] == "batch" else 0), result.stderr
    made = [path for path in run.folder.rglob("*") if path.is_file() and path not in given]
    kinds = {path.suffix for path in made}
    assert {".wav", ".safetensors", ".jsonl"} <= kinds and len(made) >= 8, made
    secrets = (str(run.folder), USER, TOKEN, "hf_", f"/{platform.node()}/")
    found = [(path.name, secret) for path in made for secret in secrets if secret.encode() in path.read_bytes()]
    assert found == []
