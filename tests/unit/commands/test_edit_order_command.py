"""`edit-order` on the command line: its sources, what it prints and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from omnivoice.__main__ import main
from omnivoice.commands import edit_order
from omnivoice.intake.audio_files import write_wav
from omnivoice.types import Waveform

pytestmark = pytest.mark.usefixtures("one_engine")

WORDS = "Good morning everyone."


def recording(path: Path, seconds: float = 1.5, loudness: float = 0.1) -> None:
    samples = loudness * torch.randn(
        1, round(seconds * 24_000), generator=torch.Generator().manual_seed(sum(path.name.encode()))
    )
    write_wav(path, Waveform(samples, 24_000))


@pytest.fixture
def source(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 22 clips with transcripts; the model is in the environment."""
    monkeypatch.setenv("OMNIVOICE_MODEL", str(checkpoint))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "set"
    folder.mkdir()
    for i in range(22):
        recording(folder / f"{i:02}.wav")
        (folder / f"{i:02}.txt").write_text(WORDS)
    return folder


LOSSES = r"""loss of the first codebook in {spans} spans of 8 frames, {tokens} tokens in {clips} clips:
  the rest shown in its first codebook only: \d+\.\d\d nats a token
  the rest fully shown:                      \d+\.\d\d nats a token
"""


def test_a_folder_gets_its_verdict(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edit-order", "set", "--language", "en"]) == 0
    shown = capsys.readouterr().out
    head = "22 of 22 clips, 32.6 s, languages: en (22)\n"
    assert re.search(LOSSES.format(spans=22, tokens=176, clips=22) + "(Only the order|Either order suits)", shown)
    assert shown.startswith(head) and "22 rows = 22 used + 0 not used\n" in shown
    assert not (source / ".omnivoice_codes").exists()


def test_a_list_is_read_as_training_reads_it(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{i:02}.wav|{WORDS}" for i in range(3)]
    (source / "list.csv").write_text("\n".join([*lines, f"gone.wav|{WORDS}"]) + "\n")
    assert main(["edit-order", "set/list.csv"]) == 0
    shown = capsys.readouterr().out
    assert "rejected gone.wav (line 4): gone.wav does not exist" in shown
    assert re.search(LOSSES.format(spans=3, tokens=24, clips=3) + "There are too few spans for a verdict", shown)


def test_clips_are_spread_over_the_list(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edit-order", "set", "--clips", "4"]) == 0
    shown = capsys.readouterr().out
    assert "4 of the 22 clips are used\n" in shown and "32 tokens in 4 clips:" in shown
    rows = edit_order.some_rows(edit_order.manifest_of(["set"], []), 4).rows
    assert [row.name for row in rows] == ["00.wav", "05.wav", "11.wav", "16.wav"]


def test_recordings_with_texts(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["set/00.wav", "set/01.wav", "set/gone.wav"]
    texts = [part for _ in given for part in ("--text", WORDS)]
    assert main(["edit-order", *given, *texts, "--language", "English"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 of 3 clips, 3.0 s, languages: en (2)\n")
    assert "rejected gone.wav: " in shown and "16 tokens in 2 clips:" in shown


def test_without_a_model_the_demo_voice_is_measured(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OMNIVOICE_MODEL")
    assert main(["edit-order", "set", "--clips", "2"]) == 0
    assert "no model is installed, so the demo voice is used" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "gone does not exist: a dataset is a folder"),
        (["empty"], "empty contains no dataset: a dataset is a folder"),
        (["empty.jsonl"], "empty.jsonl"),
        (["set/00.wav"], "a recording needs its words: add --text for each, or give a folder or a list"),
        (["set", "set"], "give one folder or list, got 2; for recordings, add --text for each"),
        (["set/00.wav", "set/01.wav", "--text", "One."], "--text must be given once for each recording, got 1 for 2"),
        (["set/00.wav", "--text", " "], "no usable clip in the recordings, 1 rejected: 00.wav: the text is empty"),
        (
            ["short.wav", "--text", "Hi."],
            "no usable clip in the recordings, 1 rejected: short.wav: it must be at least",
        ),
        (["tight.wav", "--text", "Hi."], "the test needs clips of at least 0.64 s with their transcripts, got 1, all"),
        (["silent.wav", "--text", WORDS], "no usable clip in the recordings, 1 rejected: silent.wav: it is silent"),
        (["words.wav", "--text", WORDS], "no usable clip in the recordings, 1 rejected: words.wav: "),
        (["bare"], "no usable clip in bare, 1 rejected: a.wav: it has no transcript: write its words into a.txt"),
        (["set", "--clips", "0"], "clips must be 1-10000, got 0"),
        (["set", "--language", "xx-nope"], "language 'xx-nope' is not known: did you mean"),
        (["set", "--model", "gone"], "model folder gone does not exist"),
        (["set", "--device", "cuda:99"], "device 'cuda:99' cannot be used here"),
    ],
)
def test_refusals(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    for folder in ("empty", "bare"):
        (tmp_path / folder).mkdir()
    recording(tmp_path / "bare" / "a.wav")
    recording(tmp_path / "short.wav", 0.4)
    recording(tmp_path / "tight.wav", 0.6)
    recording(tmp_path / "silent.wav", loudness=0.0)
    (tmp_path / "words.wav").write_text("not audio")
    (tmp_path / "empty.jsonl").write_text("")
    assert main(["edit-order", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"error: {message}") and shown.out == ""


def test_a_lora_is_measured_with_its_model(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["edit-order", "set", "--lora", "gone.safetensors"]) == 1
    assert "gone.safetensors" in capsys.readouterr().err
