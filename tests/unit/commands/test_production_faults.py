"""What goes wrong while speech is written: a full disk at any write, and an output that would replace a voice."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnivoice.intake import files
from tests.unit.commands.test_command_line import Run

pytestmark = pytest.mark.usefixtures("one_engine")

COMMANDS = {
    "narrate": ("narrate", "book.txt", "-o", "out.wav"),
    "dialogue": ("dialogue", "talk.txt", "-o", "out.wav"),
    "subtitles": ("subtitles", "film.srt", "-o", "out.wav"),
    "batch": ("batch", "list.jsonl", "-o", "out"),
}


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    shutil.copy(root / "tests" / "assets" / "wav" / "reference.wav", tmp_path / "anna.wav")
    (tmp_path / "book.txt").write_text(
        "# One\nThe weather is beautiful today, and everyone is here.\n# Two\nIt was late."
    )
    (tmp_path / "talk.txt").write_text("Anna: The weather is beautiful today.\nBob: It was very late last night.\n")
    (tmp_path / "film.srt").write_text("1\n00:00:00,500 --> 00:00:02,500\nGood morning, everyone.\n")
    (tmp_path / "list.jsonl").write_text("\n".join(json.dumps({"text": f"Sentence number {i}."}) for i in range(3)))
    return Run(root, checkpoint, tmp_path)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_at_any_write_leaves_nothing_torn(run: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the first write, then at the second of the next run, and so on until a run ends."""
    arguments = (*COMMANDS[command], "--steps", 1)
    before = content(run.folder)
    assert run(*arguments).returncode == 0
    whole = content(run.folder)
    for name in whole.keys() - before.keys():
        (run.folder / name).unlink()
    write, ends = files._write_synced, 0
    for room in range(20):
        written = list[int]()

        def limited(temp: Path, parts: Any, room: int = room, written: list[int] = written) -> None:
            if len(written) == room:
                temp.write_bytes(b"torn")
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written.append(1)
            write(temp, parts)

        monkeypatch.setattr(files, "_write_synced", limited)
        result = run(*arguments)
        if result.returncode == 0:
            break
        ends += 1
        assert "the disk is full" in result.stderr
        assert "make room" in result.stderr
        found = content(run.folder)
        assert [name for name in found if name.endswith((".ovtmp", ".lock"))] == []
        assert all(found[name] == whole[name] for name in found.keys() & whole.keys() if name.endswith(".wav"))
    assert ends >= 1
    assert content(run.folder) == whole


@pytest.mark.parametrize(
    "arguments",
    [
        ("speak", "Hello.", "--voice", "anna.wav"),
        ("narrate", "book.txt", "--voice", "./anna.wav"),
        ("dialogue", "talk.txt", "--voice", "Anna=anna.wav", "--speaker", "Bob"),
        ("dialogue", "talk.txt", "--voice", "anna.wav"),
        ("dialogue", "talk.txt", "--cast", "cast.json"),
        ("subtitles", "film.srt", "--voice", "anna.wav"),
    ],
)
def test_an_output_never_replaces_a_voice(run: Run, arguments: tuple[str, ...]) -> None:
    (run.folder / "cast.json").write_text(json.dumps({"Anna": "anna.wav", "Bob": {"design": "male"}}))
    before = content(run.folder)
    result = run(*arguments, "-o", "anna.wav")
    assert result.returncode == 1
    assert "the output would replace anna.wav, which is a voice: choose another name" in result.stderr
    assert content(run.folder) == before
