"""Every crash of `narrate`, `dialogue`, `subtitles` and `batch`: the outputs are the old or the new ones, finished
speech is still there, and the same command goes on and gives the files of a run that was not stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from omnivoice.commands import batch, dialogue, narrate, subtitles
from omnivoice.engine import Engine
from omnivoice.productions.kept import PARTS, KeptSpeech
from omnivoice.productions.keys import plan_key
from omnivoice.productions.parts import PartStore
from omnivoice.types import GenerationPlan, Speech
from tests.crash_replay import TEMPORARY, Crash, Log, crashes, recorded
from tests.unit.commands.test_command_line import Run

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="Windows has no way to flush a folder"),
    pytest.mark.usefixtures("one_engine"),
]

INPUTS = {
    "book.txt": "# One\nThe weather is beautiful today, and everyone is here.\n# Two\nIt was late.",
    "talk.txt": "Anna: The weather is beautiful today.\nBob: It was very late last night.\nAnna: Yes.\n",
    "film.srt": "1\n00:00:00,500 --> 00:00:02,500\nGood morning.\n\n2\n00:00:03,000 --> 00:00:05,000\nIt was late.\n",
    "list.jsonl": "\n".join(json.dumps({"text": f"Sentence number {i}."}) for i in range(3)),
}
COMMANDS = {
    "narrate": ("narrate", "book.txt", "-o", "out.wav"),
    "dialogue": ("dialogue", "talk.txt", "-o", "out.wav"),
    "subtitles": ("subtitles", "film.srt", "-o", "out.wav", "--subtitles", "out.srt", "--report", "out.txt"),
    "batch": ("batch", "list.jsonl", "-o", "out"),
    "batch without marks": ("batch", "list.jsonl", "-o", "out", "--no-mark"),
}


@pytest.fixture(scope="module")
def engine(checkpoint: Path) -> Engine:
    return Engine.load(checkpoint)


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands with one engine, which speaks nothing twice: so a hundred runs are quick."""
    for module in (batch, dialogue, narrate, subtitles):
        monkeypatch.setattr(module, "load_identified", lambda options: (engine, "tiny"))
    real, known = Engine.generate_plans, dict[str, Speech]()

    def generate_plans(own: Engine, plans: Sequence[GenerationPlan], **_: Any) -> list[Speech]:
        keys = [plan_key(plan, model="") for plan in plans]
        missing = {key: plan for key, plan in zip(keys, plans) if key not in known}
        known.update(zip(missing, real(own, [*missing.values()])))
        return [known[key] for key in keys]

    monkeypatch.setattr(Engine, "generate_plans", generate_plans)
    (tmp_path / "work").mkdir()
    for name, text in INPUTS.items():
        (tmp_path / "work" / name).write_text(text)
    return Run(root, checkpoint, tmp_path / "work")


def keep_promises(log: Log, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Note each finished part as soon as it is said to be kept, and the moment at which they are removed."""
    for kind, name, real in ((PartStore, "write", PartStore.write), (KeptSpeech, "_write", KeptSpeech._write)):

        def write(self: Any, key: str, value: object, real: Any = real) -> None:
            real(self, key, value)
            log.reached(str((folder / self._path(key)).relative_to(folder)))

        def remove(self: Any, *given: object, real: Any = kind.remove) -> None:
            log.reached("written")
            real(self, *given)

        patch.setattr(kind, name, write)
        patch.setattr(kind, "remove", remove)


def outputs(content: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """The results: of a manifest the last entry of each row, of all else the bytes."""
    found = {path: data for path, data in content.items() if path not in INPUTS and PARTS not in path}
    for path in [path for path in found if path.endswith("manifest.jsonl")]:
        entries = [json.loads(line) for line in (found.pop(path) or b"").splitlines()]
        found |= {f"{path} {entry['id']}": json.dumps(entry).encode() for entry in entries}
    return {path: data for path, data in found.items() if TEMPORARY not in path}


def tree(folder: Path) -> dict[str, bytes | None]:
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def check_promises(crash: Crash, old: dict[str, bytes | None], new: dict[str, bytes | None], parts: dict) -> None:
    wav = {path: data for path, data in crash.without_temporaries().items() if path in new and "manifest" not in path}
    assert all(data in (old.get(path), new[path]) for path, data in wav.items())
    if "written" in crash.reached:
        assert wav == {path: data for path, data in new.items() if "manifest" not in path}
    else:
        for path in crash.reached:
            parts.setdefault(path, crash.content.get(path))
            assert crash.content.get(path) == parts[path] is not None, f"{path} is lost after change {crash.after}"


def chosen(found: Sequence[Crash]) -> list[Crash]:
    """Of the crashes that leave the same under final names, except in the file of a lock, those with the most
    temporary files."""
    best: dict[object, Crash] = {}
    for crash in found:
        key = frozenset(item for item in crash.without_temporaries().items() if not item[0].endswith(".lock"))
        if key not in best or len(crash.content) > len(best[key].content):
            best[key] = crash
    return [*best.values()]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_crash_is_resumed_to_the_same_files(command: str, run: Run, tmp_path: Path) -> None:
    arguments = (*COMMANDS[command], "--steps", 1)
    if not command.startswith("batch"):
        assert run(*COMMANDS[command], "--seed", 5, "--steps", 2).returncode == 0
    old = outputs(tree(run.folder))
    with recorded(run.folder) as log, pytest.MonkeyPatch.context() as patch:
        keep_promises(log, run.folder, patch)
        result = run(*arguments)
    assert result.returncode == 0, result.stderr
    new = outputs(tree(run.folder))
    assert new != old and log.prefixes >= 20
    parts, found = dict[str, bytes | None](), list(crashes(log))
    for crash in found:
        check_promises(crash, old, new, parts)
    for crash in chosen(found):
        run.folder = crash.write(tmp_path / "crashed")
        again = run(*arguments)
        assert again.returncode == 0, f"{again.stderr} after change {crash.after} of {log.changes}"
        assert outputs(tree(run.folder)) == new
        assert not (run.folder / f"out.wav{PARTS}").exists()
