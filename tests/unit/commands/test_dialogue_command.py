"""`dialogue` with a real model: files, speakers with and without a voice, and what is refused."""

from __future__ import annotations

import json
import shutil
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from omnivoice.engine import Engine
from omnivoice.productions.kept import parts_folder
from omnivoice.types import GenerationPlan, Speech
from tests.unit.commands.test_command_line import Run

pytestmark = pytest.mark.usefixtures("one_engine")

SCRIPT = "Anna: Good morning, my old friend, how are you?\nBob: Very well, thank you, and how are you?\nAnna: Fine.\n"


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    shutil.copy(root / "tests" / "assets" / "wav" / "reference.wav", tmp_path / "anna.wav")
    (tmp_path / "talk.txt").write_text(SCRIPT, encoding="utf-8")
    return Run(root, checkpoint, tmp_path)


def test_a_script_becomes_speech_with_times_and_subtitles(run: Run) -> None:
    result = run("dialogue", "talk.txt", "-o", "talk.wav", "--steps", 2, "--seed", 3, "--gap", 0, "--change", 1)
    assert result.returncode == 0
    assert result.stdout.startswith("talk.wav: 3 lines, ")
    times = json.loads((run.folder / "talk.wav.json").read_text(encoding="utf-8"))
    with wave.open(str(run.folder / "talk.wav")) as file:
        assert file.getnframes() == round(times["seconds"] * 24_000)
    first, second, third = times["lines"]
    assert second["start"] - first["end"] == pytest.approx(1.0, abs=1e-3)
    assert third["speaker"] == "Anna"
    assert (run.folder / "talk.wav.srt").read_text(encoding="utf-8").count("-->") == 3


def test_the_cast_of_the_options_is_the_cast(run: Run) -> None:
    result = run("dialogue", "talk.txt", "--voice", "Anna=anna.wav", "--steps", 1)
    assert result.returncode == 1
    assert "line 2, column 1: the speaker 'Bob' is not in the cast (Anna)" in result.stderr
    assert run("dialogue", "talk.txt", "--voice", "Anna=anna.wav", "--speaker", "Bob", "--steps", 1).returncode == 0
    (run.folder / "cast.json").write_text(json.dumps({"Anna": "anna.wav", "Bob": {"design": "male"}}))
    assert run("dialogue", "talk.txt", "--cast", "cast.json", "--steps", 1).returncode == 0


@pytest.mark.parametrize("cast", [(), ("--speaker", "Anna"), ("--speaker", "Anna", "--speaker", "Carl")])
def test_a_voice_without_a_name_is_that_of_all_others(
    run: Run, monkeypatch: pytest.MonkeyPatch, cast: tuple[str, ...]
) -> None:
    cloned: dict[str, bool] = {}
    speak = Engine.generate_plans

    def noting(engine: Engine, plans: Sequence[GenerationPlan], **options: Any) -> list[Speech]:
        cloned.update((plan.request.text, plan.request.voice is not None) for plan in plans)
        return speak(engine, plans, **options)

    monkeypatch.setattr(Engine, "generate_plans", noting)
    result = run("dialogue", "talk.txt", "--voice", "anna.wav", *cast, "--steps", 1)
    assert result.returncode == 0
    assert cloned["Very well, thank you, and how are you?"]
    assert cloned["Good morning, my old friend, how are you?"] == (not cast)
    assert ("no line in the script is spoken by Carl" in result.stderr) == ("Carl" in cast)


def test_a_second_run_of_one_output_is_refused(run: Run) -> None:
    with parts_folder(run.folder / "talk.wav"):
        result = run("dialogue", "talk.txt", "-o", "talk.wav", "--steps", 1)
    assert (result.returncode, "talk.wav.parts is in use by process" in result.stderr) == (1, True)
    assert not (run.folder / "talk.wav.parts").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.txt",), "missing.txt does not exist"),
        (("talk.txt", "--gap", "99"), "gap_seconds must be 0-60, got 99"),
        (("talk.txt", "--speaker", "Anna", "--speaker", "anna"), "two speakers are called 'anna'"),
        (("talk.txt", "-o", "talk.mp3"), "must end in .wav"),
    ],
)
def test_what_cannot_be_spoken_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("dialogue", *arguments)
    assert result.returncode == 1
    assert message in result.stderr


def test_a_stopped_run_resumes_to_the_same_files(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anna's first line makes her voice and Bob's his, then her short line continues the first: three runs."""
    arguments = ("dialogue", "talk.txt", "-o", "talk.wav", "--steps", 2)
    assert run(*arguments).returncode == 0
    names = ("talk.wav", "talk.wav.json", "talk.wav.srt")
    whole = {name: (run.folder / name).read_bytes() for name in names}
    for name in names:
        (run.folder / name).unlink()
    speak, calls = Engine.generate_plans, list[int]()

    def stopping(engine: Engine, plans: Sequence[GenerationPlan], **options: Any) -> list[Speech]:
        if calls:
            raise KeyboardInterrupt
        calls.append(len(plans))
        return speak(engine, plans, **options)

    monkeypatch.setattr(Engine, "generate_plans", stopping)
    assert run(*arguments).returncode == 130
    assert sorted(path.name for path in run.folder.iterdir()) == ["anna.wav", "talk.txt", "talk.wav.parts"]
    monkeypatch.setattr(Engine, "generate_plans", speak)
    result = run(*arguments)
    assert f"{calls[0]} from an earlier run" in result.stdout
    assert {name: (run.folder / name).read_bytes() for name in names} == whole
    assert not (run.folder / "talk.wav.parts").exists()


def test_one_line_is_spoken_again_and_the_rest_stays(run: Run) -> None:
    def samples() -> list[bytes]:
        times = json.loads((run.folder / "dialogue.wav.json").read_text(encoding="utf-8"))
        with wave.open(str(run.folder / "dialogue.wav")) as file:
            whole = file.readframes(file.getnframes())
        return [whole[2 * round(one["start"] * 24_000) : 2 * round(one["end"] * 24_000)] for one in times["lines"]]

    assert run("dialogue", "talk.txt", "--steps", 2, "--seed", 3, "--keep-parts").returncode == 0
    before, parts = samples(), run.folder / "dialogue.wav.parts"
    assert len(list(parts.iterdir())) == 3
    result = run("dialogue", "talk.txt", "--steps", 2, "--seed", 3, "--redo", "1=99")
    assert "3 from an earlier run" in result.stdout
    assert [a == b for a, b in zip(before, samples())] == [False, True, True]
    assert not parts.exists()
