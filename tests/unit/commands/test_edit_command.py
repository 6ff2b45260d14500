"""`edit` and `redo` with a real model: files, what is kept in them, takes, times of words, and what is refused."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile

from omnivoice.intake.marks import EDITED
from omnivoice.productions.timings import parse_timings
from tests.unit.commands.test_command_line import Run

pytestmark = pytest.mark.usefixtures("one_engine")

OLD, NEW = "Good morning to you all.", "Good evening to you all."


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    """A folder with in.wav: 2.4 s, 44.1 kHz, stereo, 16 bits."""
    t = np.arange(round(2.4 * 44_100)) / 44_100
    loud = np.clip(np.sin(2 * np.pi * 2.5 * t), 0.02, None) * (t > 0.1) * (t < 2.3)
    tone = loud * sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 12))
    noise = np.random.default_rng(0).uniform(-0.002, 0.002, (len(t), 2))
    soundfile.write(tmp_path / "in.wav", 0.1 * tone[:, None] * [1.0, 0.8] + noise, 44_100, subtype="PCM_16")
    return Run(root, checkpoint, tmp_path)


def _kept_ends(first: Path, second: Path) -> tuple[int, int]:
    """Return how many frames at the start and at the end of two files are the same, bit for bit."""
    a, b = (soundfile.read(path, dtype="float64", always_2d=True)[0] for path in (first, second))
    n = min(len(a), len(b))
    differ, differ_back = (a[:n] != b[:n]).any(1), (a[::-1][:n] != b[::-1][:n]).any(1)
    return int(differ.argmax()), int(differ_back.argmax())


def test_a_word_is_changed_and_both_sides_stay(run: Run) -> None:
    result = run("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", "out.wav", "--seed", 3, "--quick")
    assert result.returncode == 0, result.stderr
    assert "“morning” became “evening” at " in result.stdout and "out.wav: " in result.stdout
    with wave.open(str(run.folder / "out.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (44_100, 2, 2)
    start, end = _kept_ends(run.folder / "in.wav", run.folder / "out.wav")
    assert start > 4_410 and end > 4_410


def test_samples_finer_than_16_bits_stay_as_they_are(run: Run) -> None:
    samples, rate = soundfile.read(run.folder / "in.wav", dtype="float32")
    soundfile.write(run.folder / "fine.wav", samples * np.float32(0.7), rate, subtype="FLOAT")
    result = run("edit", "fine.wav", "--old", OLD, "--new", NEW, "-o", "out.wav", "--seed", 3, "--quick")
    assert result.returncode == 0, result.stderr
    start, end = _kept_ends(run.folder / "fine.wav", run.folder / "out.wav")
    assert start > 4_410 and end > 4_410


def test_the_same_seed_writes_the_same_file(run: Run) -> None:
    for name in ("a.wav", "b.wav"):
        assert run("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", name, "--seed", 3, "--quick").returncode == 0
    assert (run.folder / "a.wav").read_bytes() == (run.folder / "b.wav").read_bytes()


def test_texts_and_word_times_come_from_files(run: Run) -> None:
    (run.folder / "old.txt").write_text(OLD, encoding="utf-8")
    (run.folder / "new.txt").write_text(NEW, encoding="utf-8")
    words = [{"word": word, "start": 0.2 + 0.4 * i, "end": 0.5 + 0.4 * i} for i, word in enumerate(OLD.split())]
    line = {"start": 0.2, "end": 2.1, "speaker": None, "text": OLD, "words_are": "recognised", "words": words}
    (run.folder / "times.json").write_text(json.dumps({"seconds": 2.4, "lines": [line]}), encoding="utf-8")
    files = ("--old", "@old.txt", "--new", "@new.txt", "--word-times", "times.json")
    result = run("edit", "in.wav", *files, "-o", "out.wav", "--quick")
    assert result.returncode == 0, result.stderr
    assert "found by the recogniser" in result.stdout and "0.60 morning" in result.stdout


def test_words_are_spoken_again_in_several_takes(run: Run) -> None:
    result = run(
        "redo", "in.wav", "--text", OLD, "--words", "morning", "-o", "out.wav", "--takes", 2, "--seed", 7, "--quick"
    )
    assert result.returncode == 0, result.stderr
    assert "out-1.wav: " in result.stdout and "seed 7" in result.stdout
    assert "out-2.wav: " in result.stdout and "seed 8" in result.stdout
    assert "“morning” spoken again" in result.stdout
    first, second = (run.folder / f"out-{take}.wav" for take in (1, 2))
    assert not (run.folder / "out.wav").exists()
    assert all(end > 4_410 for take in (first, second) for end in _kept_ends(run.folder / "in.wav", take))


def test_an_edit_has_takes_too(run: Run) -> None:
    result = run("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", "out.wav", "--takes", 2, "--seed", 7, "--quick")
    assert result.returncode == 0, result.stderr
    assert "out-1.wav: " in result.stdout and "seed 8" in result.stdout
    first, second = ((run.folder / f"out-{take}.wav").read_bytes() for take in (1, 2))
    assert first != second and not (run.folder / "out.wav").exists()


LINES = [("Good morning.", 0.0, 1.0), ("How are you?", 1.0, 1.8), ("Well.", 1.8, 2.4)]


def _timings(run: Run) -> None:
    rows = [{"start": a, "end": b, "speaker": None, "text": text, "words": []} for text, a, b in LINES]
    (run.folder / "in.wav.json").write_text(json.dumps({"seconds": 2.4, "lines": rows}), encoding="utf-8")


@pytest.mark.parametrize("takes", [1, 2])
def test_a_line_is_spoken_again_and_the_timings_follow(run: Run, takes: int) -> None:
    _timings(run)
    line = ("--timings", "in.wav.json", "--line", 2, "--takes", takes, "--seed", 7, "--guidance", 1)
    result = run("redo", "in.wav", *line, "-o", "out.wav")
    assert result.returncode == 0, result.stderr
    assert "line 2: " in result.stdout and "in the voice of lines 1, 3" in result.stdout
    for name in ["out.wav"] if takes == 1 else ["out-1.wav", "out-2.wav"]:
        before, rate = soundfile.read(run.folder / "in.wav", dtype="int16")
        after, _ = soundfile.read(run.folder / name, dtype="int16")
        lines = parse_timings((run.folder / f"{name}.json").read_text(encoding="utf-8"))
        added = len(after) - len(before)
        start, end = _kept_ends(run.folder / "in.wav", run.folder / name)
        assert start >= 0.99 * rate and end >= 0.59 * rate
        assert [line.text for line in lines] == [text for text, _, _ in LINES]
        assert lines[2].end == pytest.approx(2.4 + added / rate, abs=1e-5)
        assert lines[0].end == lines[1].start == 1.0


@pytest.mark.parametrize("marked", [True, False])
def test_a_line_of_the_same_length_moves_nothing(run: Run, marked: bool) -> None:
    _timings(run)
    line = ("--timings", "in.wav.json", "--line", "1,3", "--keep-length", "--design", "female")
    result = run("redo", "in.wav", *line, "-o", "out.wav", *(() if marked else ("--no-mark",)))
    assert result.returncode == 0, result.stderr
    assert (EDITED.source.encode() in (run.folder / "out.wav").read_bytes()) == marked
    lines = parse_timings((run.folder / "out.wav.json").read_text(encoding="utf-8"))
    assert [(line.text, line.start, line.end) for line in lines] == LINES


BAD_LINES = [
    (("--line", 4, "--timings", "in.wav.json"), "line must be 1-3, the lines of the timings, got 4"),
    (("--line", "x", "--timings", "in.wav.json"), "line must be the number of a line"),
    (("--line", 1), "--line needs --timings"),
    (("--timings", "in.wav.json"), "--timings needs --line"),
    (("--text", OLD, "--words", "to", "--keep-length"), "--keep-length needs --line"),
    (("--text", OLD, "--words", "to", "--voice", "in.wav"), "--voice needs --line"),
    (("--line", 1, "--timings", "in.wav.json", "--words", "to"), "--words is for words, but --line"),
    (("--line", 1, "--timings", "in.wav.json", "--quick"), "--quick is for words, but --line"),
    (("--line", 1, "--timings", "in.wav.json", "--order", "together"), "--order is for words, but --line"),
    (("--line", 1, "--timings", "in.wav.json", "--transcript", "x"), "--transcript needs --voice"),
    (("--line", 1, "--timings", "none.json"), "none.json"),
    (("--line", "1,2,3", "--timings", "in.wav.json"), "no other line of 0.5-60 s is in the recording"),
    ((), "redo needs --text and --words or --span, or --timings and --line"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_LINES)
def test_which_lines_are_refused(run: Run, arguments: tuple[object, ...], message: str) -> None:
    _timings(run)
    result = run("redo", "in.wav", *arguments, "-o", "o.wav")
    assert result.returncode == 1
    assert message in result.stderr and "Traceback" not in result.stderr
    assert not (run.folder / "o.wav").exists()


BAD = [
    (("edit", "in.wav", "--old", OLD, "--new", OLD, "-o", "o.wav"), "nothing to change: "),
    (("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", "in.wav"), "the output would replace in.wav"),
    (("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", "o.mp3"), "must end in .wav"),
    (("edit", "none.wav", "--old", OLD, "--new", NEW, "-o", "o.wav"), "none.wav"),
    (("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", "o.wav", "--span", "x"), "span must be seconds such as"),
    (("edit", "in.wav", "--old", OLD, "--new", NEW, "-o", "o.wav", "--word-times", "in.wav"), "in.wav is not UTF-8"),
    (("redo", "in.wav", "--text", OLD, "-o", "o.wav"), "redo needs either --words or --span"),
    (
        ("redo", "in.wav", "--text", OLD, "--words", "nobody", "-o", "o.wav"),
        "the words 'nobody' are not in the transcript",
    ),
    (("redo", "in.wav", "--text", OLD, "--words", "to", "-o", "o.wav", "--takes", 0), "takes must be 1-16, got 0"),
    (
        ("redo", "in.wav", "--text", "Go on, go on, you all.", "--words", "go on", "-o", "o.wav"),
        "the words 'go on' are 2 times in the transcript: write go on#1 for the first",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_what_is_refused(run: Run, arguments: tuple[object, ...], message: str) -> None:
    result = run(*arguments)
    assert result.returncode == 1
    assert message in result.stderr and "Traceback" not in result.stderr
    assert not (run.folder / "o.wav").exists()
