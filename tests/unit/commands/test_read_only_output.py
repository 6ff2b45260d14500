"""An output folder on a write-protected disk is refused before anything is trained or spoken."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from omnivoice.engine import Engine
from omnivoice.train.trainer import Trainer
from tests.read_only_disk import make_read_only
from tests.unit.commands.test_command_line import Run

COMMANDS = {
    "train": ("train", "config.json"),
    "narrate": ("narrate", "book.txt", "-o", "out/book.wav"),
    "batch": ("batch", "list.jsonl", "-o", "out/lines"),
}


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    shutil.copytree(root / "tests" / "assets" / "training" / "clips", tmp_path / "clips")
    settings = {"steps": 2, "rank": 2, "alpha": 4, "batch_tokens": 200}
    table = {
        "data": "clips",
        "output": str(tmp_path / "out" / "anna"),
        "model": str(checkpoint),
        "language": "en",
        "settings": settings,
    }
    (tmp_path / "config.json").write_text(json.dumps(table))
    (tmp_path / "book.txt").write_text("The weather is beautiful today, and everyone is here. It was late.")
    (tmp_path / "list.jsonl").write_text(json.dumps({"text": "Sentence number one."}))
    return Run(root, checkpoint, tmp_path)


CASES = [(command, there) for command in COMMANDS for there in ("nothing", "out", "its folder")]
CASES.remove(("narrate", "nothing"))  # a file is never written into a folder that is not there


@pytest.mark.parametrize(("command", "there"), CASES)
def test_it_is_refused_first(run: Run, monkeypatch: pytest.MonkeyPatch, command: str, there: str) -> None:
    out = run.folder / "out"
    folders = {"nothing": [], "out": [out], "its folder": [out / "anna", out / "lines", out / "book.wav.parts"]}
    for folder in folders[there]:
        folder.mkdir(parents=True)
    before = sorted(out.rglob("*"))
    refused = make_read_only(out, monkeypatch)
    for kind, name in ((Trainer, "step"), (Engine, "generate_plans"), (Engine, "generate")):
        monkeypatch.setattr(kind, name, lambda *_, **__: pytest.fail("the work began"))
    result = run(*(str(out / one[4:]) if one.startswith("out/") else one for one in COMMANDS[command]))
    assert result.returncode == 1 and refused
    assert re.search(
        r"^error: cannot (make the folder|write) [\w. -]+: .*choose another( folder)?$", result.stderr, re.M
    )
    assert sorted(out.rglob("*")) == before
