"""Marks of synthetic speech from the command line: in every file of every command that writes audio, and off."""

from __future__ import annotations

import json
import re
import shutil
import wave
from io import BytesIO
from pathlib import Path

import pytest

from omnivoice.__main__ import main
from omnivoice.intake.marks import EDITED, SYNTHETIC, Mark
from tests.unit.commands.test_command_line import Run
from tests.unit.commands.test_edit_command import run as edit_run  # noqa: F401, the fixture with in.wav
from tests.unit.commands.test_train_command import ASSETS, write
from tests.unit.test_repository import command_options

pytestmark = pytest.mark.usefixtures("one_engine")

LEFT = "the audio is not marked as AI-generated: labelling it is up to you"
SUBTITLES = "1\n00:00:00,000 --> 00:00:01,000\nHello there.\n"
OLD, NEW = "Good morning to you all.", "Good evening to you all."
COMMANDS: dict[str, tuple[tuple[object, ...], Mark]] = {
    "speak": (("Hello.", "-o", "out.wav", "--steps", 1), SYNTHETIC),
    "narrate": (("book.txt", "-o", "out.wav", "--steps", 1), SYNTHETIC),
    "dialogue": (("talk.txt", "-o", "out.wav", "--steps", 1), SYNTHETIC),
    "subtitles": (("in.srt", "-o", "out.wav", "--steps", 1), SYNTHETIC),
    "batch": (("list.jsonl", "-o", ".", "--steps", 1), SYNTHETIC),
    "edit": (("in.wav", "--old", OLD, "--new", NEW, "-o", "out.wav", "--quick"), EDITED),
    "redo": (("in.wav", "--text", OLD, "--words", "morning", "-o", "out.wav", "--quick"), EDITED),
}


@pytest.fixture
def run(edit_run: Run) -> Run:  # noqa: F811
    for name, text in (("book.txt", "Hello there."), ("talk.txt", "Anna: Hello.\nBob: Hi."), ("in.srt", SUBTITLES)):
        (edit_run.folder / name).write_text(text, encoding="utf-8")
    (edit_run.folder / "list.jsonl").write_text(json.dumps({"id": "out", "text": "Hello."}) + "\n")
    return edit_run


def samples(data: bytes) -> bytes:
    with wave.open(BytesIO(data)) as file:
        return file.readframes(file.getnframes())


def test_the_commands_that_write_audio_have_the_option() -> None:
    assert {name for name, options in command_options().items() if "--no-mark" in options} == {*COMMANDS, "train"}


def test_no_command_writes_audio_without_asking_for_the_mark(root: Path) -> None:
    writers = re.compile(r"\b(write_wav|write_long_wav|pcm16_head|Batch)[(,]")
    sources = {path.name: path.read_text(encoding="utf-8") for path in (root / "omnivoice" / "commands").glob("*.py")}
    writing = {name for name, text in sources.items() if writers.search(text)}
    assert writing == {f"{name}.py" for name in {*COMMANDS, "train", "redo_line"} - {"redo"}}
    assert [name for name in writing if "chosen_mark(options" not in sources[name]] == []


def test_nothing_else_writes_audio(root: Path) -> None:
    """The nodes leave audio to ComfyUI, but for the parts of a long text and the samples of a training, which are
    marked by default."""
    writers = re.compile(r"\b(write_wav|write_long_wav|pcm16_head|encode_wav|soundfile\.write|wave\.open)\(")
    sources = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for folder in ("omnivoice", "nodes")
        for path in (root / folder).rglob("*.py")
    }
    used = {name for name, text in sources.items() if any(writers.search(row) for row in uses(text))}
    commands = {name for name in used if name.startswith("omnivoice/commands/")}
    assert used - commands == {
        "nodes/host/long_text.py",
        "omnivoice/intake/audio_files.py",
        "omnivoice/productions/batch.py",
    }
    assert "partial(write_wav, path, waveform))" in sources["nodes/host/training_run.py"]
    assert not [name for name in sources if name.startswith("nodes/") and "mark=" in sources[name]]


def uses(text: str) -> list[str]:
    return [row for row in text.splitlines() if not row.lstrip().startswith("def ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_is_marked_unless_no_mark_is_given(run: Run, command: str) -> None:
    arguments, mark = COMMANDS[command]
    out = run.folder / "out.wav"
    marked = run(command, *arguments, "--seed", 3)
    assert marked.returncode == 0 and LEFT not in marked.stderr, marked.stderr
    data = out.read_bytes()
    assert mark.comment.encode() in data and mark.xmp() in data
    plain = run(command, *arguments, "--seed", 3, "--no-mark")
    assert (plain.returncode, plain.stderr.count(LEFT)) == (0, 1), plain.stderr
    assert b"OmniVoice" not in out.read_bytes() and b"digitalsourcetype" not in out.read_bytes()
    assert samples(out.read_bytes()) == samples(data)


@pytest.mark.parametrize("off", [False, True])
def test_a_stream_is_marked_at_its_start(run: Run, monkeypatch: pytest.MonkeyPatch, off: bool) -> None:
    target = BytesIO()
    monkeypatch.setattr("omnivoice.commands.narrate.standard_output", lambda: target)
    result = run("speak", "Hello.", "--stream", "--steps", 1, *(["--no-mark"] if off else []))
    assert result.returncode == 0, result.stderr
    head = target.getvalue()[: target.getvalue().index(b"data")]
    assert (LEFT in result.stderr, SYNTHETIC.comment.encode() in head, SYNTHETIC.xmp() in head) == (
        off,
        not off,
        not off,
    )


def test_the_samples_of_a_training_run_are_marked(tmp_path: Path) -> None:
    shutil.copytree(ASSETS / "training" / "clips", tmp_path / "clips")
    for name, options in (("a", []), ("b", ["--no-mark"])):
        path = write(tmp_path, {"sample_every": 4, "sample_text": "Red book."}, output=f"runs/{name}")
        assert main(["train", str(path), *options]) == 0
        (sample,) = (tmp_path / "runs" / name / "samples").iterdir()
        assert (SYNTHETIC.xmp() in sample.read_bytes()) == (name == "a")
