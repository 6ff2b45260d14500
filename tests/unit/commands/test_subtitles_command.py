"""`python -m omnivoice subtitles`: its files, its exit codes and what it says."""

from __future__ import annotations

import json
import re
import shutil
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from omnivoice.__main__ import main
from omnivoice.productions.cue_output import CuesOnDisk
from omnivoice.productions.kept import KeptSpeech
from omnivoice.productions.subtitle_parser import parse_subtitles

pytestmark = pytest.mark.usefixtures("one_engine")

SRT = """1
00:00:00,500 --> 00:00:02,000
Hello there.

2
00:00:02,100 --> 00:00:02,900
ALICE: Good bye.

3
00:00:03,000 --> 00:00:03,513
[door slams]
"""


@pytest.fixture
def run(checkpoint: Path, tmp_path: Path, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIVOICE_MODEL", str(checkpoint))
    Path("in.srt").write_text(SRT, encoding="utf-8")

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["subtitles", *map(str, arguments), "--steps", "2", "--seed", "4"])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def recording(root: Path, run) -> Path:
    return Path(shutil.copy(root / "tests" / "assets" / "wav" / "reference.wav", "reference.wav"))


def frames(path: str) -> int:
    with wave.open(path) as file:
        assert (file.getframerate(), file.getnchannels()) == (24_000, 1)
        return file.getnframes()


@pytest.mark.parametrize("arguments, length", [((), 84_312), (("--total", 5), 120_000), (("--mode", "fill"), 84_312)])
def test_the_recording_is_as_long_as_the_subtitles(run, arguments: tuple, length: int) -> None:
    code, out, err = run("in.srt", *arguments)
    assert (code, frames("in.wav")) == (0, length), err
    assert out.startswith(f"in.wav: 2 cues spoken, 1 not spoken, {length / 24_000:.3f} s, mode ")
    assert "seed 4" in out
    assert "not spoken (whole cues: 1):\n  cue 3 (line 10): [door slams]: a description of a sound\n" in err
    assert "warning: not in the cast, so the default voice speaks their cues: 'ALICE' (1)\n" in err


@pytest.mark.parametrize("suffix", [".srt", ".vtt"])
def test_adjusted_subtitles_and_a_report_are_written_and_replaced(run, suffix: str) -> None:
    for mode in ("natural", "fit"):
        code, _, err = run("in.srt", "--mode", mode, "--subtitles", f"out{suffix}", "--report", "report.txt")
        assert code == 0, err
        text = Path(f"out{suffix}").read_text(encoding="utf-8")
        assert text.startswith("WEBVTT") == (suffix == ".vtt")
        cues = parse_subtitles(text, ["ALICE"]).cues
        assert [(cue.speaker, cue.text) for cue in cues] == [(None, "Hello there."), ("ALICE", "Good bye.")]
        assert f"mode {mode}" in Path("report.txt").read_text(encoding="utf-8").partition("\n")[0]
    assert [(cue.start_ms, cue.end_ms) for cue in cues] == [(500, 2000), (2100, 2900)]


def test_a_cast_of_options_and_one_of_a_file_are_the_same(run, recording: Path) -> None:
    Path("sub").mkdir()
    shutil.move(recording, "sub/reference.wav")
    said = {"voice": "reference.wav", "transcript": "Good morning.", "design": "female"}
    Path("sub/cast.json").write_text(json.dumps({"": said, "Alice": "reference.wav", "Bob": {}}), encoding="utf-8")
    assert run("in.srt", "-o", "one.wav", "--cast", "sub/cast.json")[0] == 0
    voice = ("--voice", "sub/reference.wav", "--transcript", "Good morning.", "--design", "female")
    code, _, err = run("in.srt", "-o", "two.wav", *voice, "--voice", "alice=sub/reference.wav")
    assert code == 0, err
    assert Path("one.wav").read_bytes() == Path("two.wav").read_bytes()
    assert "not in the cast" not in err
    assert run("in.srt", "-o", "three.wav", *voice)[0] == 0
    assert Path("one.wav").read_bytes() != Path("three.wav").read_bytes()


@pytest.mark.parametrize(
    "encoding, option, said",
    [("utf-8", (), False), ("utf-16", (), True), ("cp1252", (), True), ("cp1252", ("--encoding", "cp1252"), False)],
)
def test_encodings(run, encoding: str, option: tuple, said: bool) -> None:
    Path("in.srt").write_bytes(SRT.replace("Hello", "Olé, señor").encode(encoding))
    code, _, err = run("in.srt", *option, "--subtitles", "out.srt")
    assert code == 0, err
    assert "Olé, señor there." in Path("out.srt").read_text(encoding="utf-8")
    assert (f"the file is taken for {encoding}: if letters are wrong, name its --encoding" in err) == said


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("none.srt",), "none.srt does not exist"),
        (("in.srt", "-o", "out.mp3"), "the output is a WAV file and must end in .wav, got 'out.mp3'"),
        (("in.srt", "--subtitles", "in.srt"), "in.srt is the file that is spoken: choose another name"),
        (("in.srt", "--subtitles", "out.txt"), "out.txt must end in .srt or .vtt"),
        (("in.srt", "--report", "out.srt"), "out.srt must end in .txt"),
        (("in.srt", "--report", "notes.txt"), "notes.txt exists and is something else: choose another name"),
        (("in.srt", "--subtitles", "notes.srt"), "notes.srt exists and is something else: choose another name"),
        (("in.srt", "--report", "none/out.txt"), "the folder of out.txt does not exist: make it first"),
        (("in.srt", "--total", 1), "total_seconds must be 0 or at least 3.513, where the last cue ends, got 1"),
        (("in.srt", "--total", "nan"), "total_seconds must be 0-14400, got nan"),
        (("in.srt", "--slowest-rate", 2), "slowest_rate must be 0-1, got 2.0"),
        (("in.srt", "--encoding", "x"), "the encoding 'x' is not known: use a name such as utf-8 or cp1252"),
        (("notes.txt",), "subtitles must have times such as 00:00:01,500 --> 00:00:02,000, got 'my notes'"),
        (("in.srt", "--transcript", "Hi"), "the transcript of the default voice needs its recording: a voice"),
        (("in.srt", "--voice", "none.wav"), "none.wav does not exist"),
        (("in.srt", "--voice", "A=a.wav", "--voice", "A=b.wav"), "'A' is given twice: leave out one of them"),
        (("in.srt", "--voice", "a.wav", "--voice", "b.wav"), "the default voice is given twice: leave out one of them"),
        (("in.srt", "--cast", "list.json"), "list.json must be an object of names, such as"),
        (
            ("in.srt", "--cast", "number.json"),
            "number.json: 'A' must have a voice, transcript, design or language, all",
        ),
        (
            ("in.srt", "--cast", "key.json"),
            "key.json: 'A' has 'speed', allowed are design, language, transcript, voice",
        ),
        (("in.srt", "--cast", "tag.json"), "'laughter' cannot be a speaker: [laughter] is a tag that the model knows"),
        (("in.srt", "--design", "purple"), "cue 1 (line 2): "),
    ],
)
def test_refusals(run, arguments: tuple, message: str) -> None:
    for name in ("notes.txt", "notes.srt"):
        Path(name).write_text("my notes", encoding="utf-8")
    casts = {"list": [], "number": {"A": 3}, "key": {"A": {"speed": "1"}}, "tag": {"laughter": {}}}
    for name, content in casts.items():
        Path(f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert re.search(f"^error: {re.escape(message)}", err, re.MULTILINE), err
    assert not Path("in.wav").exists()
    assert Path("notes.txt").read_text(encoding="utf-8") == "my notes"


def test_a_run_that_was_killed_goes_on_and_gives_the_same_file(run, monkeypatch) -> None:
    assert run("in.srt", "-o", "whole.wav")[0] == 0
    assert not Path("whole.wav.parts").exists()
    monkeypatch.setattr(CuesOnDisk, "batch_seconds", 0.0)
    write = KeptSpeech._write

    def write_one(kept: KeptSpeech, key: str, speech: object) -> None:
        write(kept, key, speech)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(KeptSpeech, "_write", write_one)
        assert run("in.srt", "-o", "out.wav")[0] == 130
    assert not Path("out.wav").exists()
    code, out, err = run("in.srt", "-o", "out.wav", "--keep-parts")
    assert (code, out.endswith(", 1 pieces from an earlier run\n")) == (0, True), err
    assert Path("out.wav").read_bytes() == Path("whole.wav").read_bytes()
    assert Path("out.wav.parts").is_dir()
    assert run("in.srt", "-o", "out.wav")[1].endswith(" pieces from an earlier run\n")
    assert not Path("out.wav.parts").exists()


def test_equal_cues_are_not_counted_as_an_earlier_run(run, monkeypatch) -> None:
    monkeypatch.setattr(CuesOnDisk, "batch_seconds", 0.0)
    Path("in.srt").write_text("\n".join(f"{i}\n00:00:0{i},000 --> 00:00:0{i},900\nHello.\n" for i in range(1, 4)))
    assert "earlier run" not in run("in.srt")[1]


@pytest.mark.parametrize("retries", [0, 1])
def test_a_stopped_run_with_retries_resumes_to_the_same_bytes_and_report(run, monkeypatch, retries: int) -> None:
    """With two steps every cue has faults. What was kept has the takes that were chosen, with their warnings."""
    arguments = ("in.srt", "--retries", retries, "--report", "report.txt")
    code, _, err = run(*arguments, "--keep-parts", "-o", "plain.wav")
    assert code == 0, err
    report = Path("report.txt").read_text(encoding="utf-8")
    assert ("seed 4" in report and "was rejected" in report) == bool(retries) or "is used although" in report
    shutil.copytree("plain.wav.parts", "again.wav.parts")
    kept = sorted(Path("again.wav.parts").glob("*.safetensors"))
    kept[0].unlink()
    code, out, err = run(*arguments, "-o", "again.wav")
    assert code == 0 and f"{len(kept) - 1} pieces from an earlier run" in out, err
    assert Path("again.wav").read_bytes() == Path("plain.wav").read_bytes()
    assert Path("report.txt").read_text(encoding="utf-8") == report


def test_speech_made_with_other_retries_is_not_used(run) -> None:
    assert run("in.srt", "--keep-parts")[0] == 0
    code, out, err = run("in.srt", "--retries", "1")
    assert code == 0 and "from an earlier run" not in out, err
