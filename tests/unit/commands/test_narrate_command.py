"""`narrate` and `speak --stream`, with a real model: the same file after a kill, times, chapters, and early sound."""

from __future__ import annotations

import json
import wave
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from omnivoice.engine import Engine
from omnivoice.productions.checks import Finding
from omnivoice.productions.kept import parts_folder
from omnivoice.types import GenerationPlan, Speech
from tests.unit.commands.test_command_line import Run

pytestmark = pytest.mark.usefixtures("one_engine")

TEXT = (
    "# Morning\nThe weather is beautiful today, and everyone is here.\n[pause 1s]\nWe waited for the old train.\n"
    "# Evening\nIt was late when the last of them came home again."
)


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    return Run(root, checkpoint, tmp_path)


def narrate(run: Run, *options: object) -> Any:
    return run("narrate", "book.txt", "-o", "book.wav", "--steps", 2, *options)


def test_a_stopped_run_resumes_to_the_same_file(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert narrate(run).returncode == 0
    whole = (run.folder / "book.wav").read_bytes()
    times = (run.folder / "book.wav.json").read_text(encoding="utf-8")
    (run.folder / "book.wav").unlink()
    speak, counts = Engine.generate_plans, list[int]()

    def stopping(engine: Engine, plans: Sequence[GenerationPlan], **options: Any) -> list[Speech]:
        if sum(counts) >= 2:
            raise KeyboardInterrupt
        counts.append(len(plans))
        return speak(engine, plans, **options)

    monkeypatch.setattr(Engine, "generate_plans", stopping)
    stopped = narrate(run)
    assert stopped.returncode == 130
    assert not (run.folder / "book.wav").exists()
    kept = len(list((run.folder / "book.wav.parts").iterdir()))
    assert kept == sum(counts) >= 2
    monkeypatch.setattr(Engine, "generate_plans", speak)
    result = narrate(run)
    assert f"{kept} of 5 parts from an earlier run" in result.stdout
    assert (run.folder / "book.wav").read_bytes() == whole
    assert (run.folder / "book.wav.json").read_text(encoding="utf-8") == times
    assert not (run.folder / "book.wav.parts").exists()


def test_times_and_chapters_are_those_of_the_file(run: Run) -> None:
    result = narrate(run, "--keep-parts", "--seed", 5)
    assert (result.returncode, len(list((run.folder / "book.wav.parts").iterdir()))) == (0, 5)
    times = json.loads((run.folder / "book.wav.json").read_text(encoding="utf-8"))
    with wave.open(str(run.folder / "book.wav")) as file:
        samples = memoryview(file.readframes(file.getnframes())).cast("h")
        assert file.getnframes() / 24_000 == pytest.approx(times["seconds"])
    assert [chapter["title"] for chapter in times["chapters"]] == ["Morning", "Evening"]
    assert [part["text"] for part in times["lines"]][::3] == ["Morning", "Evening"]
    assert times["seed"] == 5
    assert [word["word"] for word in times["lines"][2]["words"]] == ["We", "waited", "for", "the", "old", "train."]
    for before, after in zip(times["lines"], times["lines"][1:]):
        assert not any(samples[round(before["end"] * 24_000) : round(after["start"] * 24_000)])
    assert times["lines"][2]["start"] - times["lines"][1]["end"] == pytest.approx(1.0)


def test_another_seed_or_model_setting_makes_other_parts(run: Run) -> None:
    narrate(run, "--keep-parts")
    assert "earlier run" not in narrate(run, "--keep-parts", "--seed", 6).stdout
    assert "earlier run" not in narrate(run, "--keep-parts", "--dtype", "fp64").stdout
    assert "5 of 5 parts from an earlier run" in narrate(run, "--keep-parts").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.txt",), "missing.txt does not exist"),
        (("book.txt", "--transcript", "Hello."), "--transcript needs --voice"),
        (("book.txt", "-o", "book.mp3"), "the output is a WAV file and must end in .wav"),
        (("latin.txt",), "latin.txt is not UTF-8: convert it first"),
    ],
)
def test_what_cannot_be_done_is_refused(run: Run, arguments: tuple[str, ...], message: str) -> None:
    (run.folder / "latin.txt").write_bytes("Mädchen".encode("latin-1"))
    result = run("narrate", *arguments)
    assert result.returncode == 1
    assert message in result.stderr


def test_a_stream_carries_the_same_samples_as_they_are_made(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    speak = Engine.generate_plans
    target = BytesIO()

    def counting(engine: Engine, plans: Sequence[GenerationPlan], **options: Any) -> list[Speech]:
        written.append(len(target.getvalue()))
        return speak(engine, plans, **options)

    monkeypatch.setattr(Engine, "generate_plans", counting)
    monkeypatch.setattr("omnivoice.commands.narrate.standard_output", lambda: target)
    result = run("speak", TEXT, "--stream", "--seed", 0, "--steps", 2)
    assert (result.returncode, result.stdout) == (0, "")
    head = target.getvalue().index(b"data") + 8
    assert written[0] == head  # the header is there before any speech
    assert written[-1] > head  # and sound before the last parts are made
    narrate(run)
    with wave.open(str(run.folder / "book.wav")) as file:
        assert target.getvalue()[head:] == file.readframes(file.getnframes())


def test_a_stream_names_its_seed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the same speech could not be had again."""
    streams = []
    for seed in ((), ("--seed", None)):
        target = BytesIO()
        monkeypatch.setattr("omnivoice.commands.narrate.standard_output", lambda target=target: target)
        option = ("--seed", streams[0][1]) if seed else ()
        result = run("speak", "It rains today.", "--stream", "--steps", 1, *option)
        streams.append((target.getvalue(), result.stderr.split("s of speech, seed ")[1].split()[0]))
    assert streams[0] == streams[1]


def test_a_second_run_of_one_output_is_refused(run: Run) -> None:
    with parts_folder(run.folder / "book.wav"):
        result = narrate(run)
    assert (result.returncode, "book.wav.parts is in use by process" in result.stderr) == (1, True)
    assert not (run.folder / "book.wav.parts").exists()


def test_a_stream_has_no_file(run: Run) -> None:
    result = run("speak", "Hello.", "--stream", "-o", "a.wav")
    assert result.returncode == 2
    assert "not allowed with argument" in result.stderr


def test_one_part_is_made_again_and_the_rest_stays(run: Run) -> None:
    narrate(run, "--keep-parts")
    before, _ = parts_of(run)
    assert "4 of 5 parts from an earlier run" in narrate(run, "--redo", "3=99").stdout
    after, _ = parts_of(run)
    assert [a == b for a, b in zip(before, after)] == [True, True, False, True, True]
    assert len(list((run.folder / "book.wav.parts").iterdir())) == 1  # the part that was replaced
    for given, message in (("9=1", "redo names part 9"), ("x", "redo must be number=seed pairs")):
        result = narrate(run, "--redo", given)
        assert (result.returncode, message in result.stderr) == (1, True)


def parts_of(run: Run) -> tuple[list[bytes], dict]:
    """Return the samples of each part of the WAV file, and the times."""
    times = json.loads((run.folder / "book.wav.json").read_text(encoding="utf-8"))
    with wave.open(str(run.folder / "book.wav")) as file:
        samples = file.readframes(file.getnframes())
    places = [tuple(round(line[end] * 24_000) for end in ("start", "end")) for line in times["lines"]]
    return [samples[2 * start : 2 * end] for start, end in places], times


@pytest.mark.parametrize("command", [("speak", "Hello there."), ("narrate", "book.txt"), ("batch", "list.jsonl")])
def test_retries_are_reported(run: Run, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two seeds of each text have a fault here, so the third is used."""
    tries: dict[str, int] = {}

    def faulty(plan: GenerationPlan, speech: Speech) -> tuple[Finding, ...]:
        text = plan.chunks[0].text
        tries[text] = tries.get(text, 0) + 1
        return (Finding("click", "it clicks", 0.0),) if tries[text] <= 2 else ()

    monkeypatch.setattr("omnivoice.productions.takes.check_speech", faulty)
    (run.folder / "list.jsonl").write_text('{"id": "a", "text": "Hello there."}\n', encoding="utf-8")
    result = run(*command, "--retries", 2, "--seed", 0, "--steps", 2)
    told = result.stderr + "".join(one.read_text() for one in run.folder.glob("speech/manifest.jsonl"))
    assert result.returncode == 0
    assert "was rejected: it clicks" in told and "is used" in told
    assert set(tries.values()) == {3}
    refused = run(*command, "--retries", 99)
    assert (refused.returncode, "retries must be 0-16, got 99" in refused.stderr) == (1, True)
