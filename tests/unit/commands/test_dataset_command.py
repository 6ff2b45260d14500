"""`dataset` on the command line: what it prints, keeps and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from omnivoice.__main__ import main
from omnivoice.commands import dataset
from omnivoice.errors import CheckpointError
from omnivoice.intake.audio_files import write_wav
from omnivoice.types import Waveform


@pytest.fixture
def source(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two good clips and one without a transcript; the model is in the environment."""
    monkeypatch.setenv("OMNIVOICE_MODEL", str(checkpoint))
    folder = tmp_path / "set"
    folder.mkdir()
    for i in range(3):
        samples = 0.1 * torch.randn(1, 36_000, generator=torch.Generator().manual_seed(i))
        write_wav(folder / f"{i}.wav", Waveform(samples, 24_000))
    for i in range(2):
        (folder / f"{i}.txt").write_text("Good morning everyone.")
    return folder


def test_report_and_kept_codes(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dataset", str(source), "--language", "English", "--instruct", "Female"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "2 of 3 clips, 3.0 s, languages: en (2)"
    assert shown[1:] == [
        "rejected 2.wav: it has no transcript: write its words into 2.txt",
        "3 rows = 2 used + 1 not used",
    ]
    entries = {path: path.stat().st_mtime_ns for path in (source / ".omnivoice_codes").rglob("*.safetensors")}
    assert len(entries) == 2
    assert main(["dataset", str(source)]) == 0
    assert {path: path.stat().st_mtime_ns for path in entries} == entries


def test_a_list_and_another_folder_for_codes(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source / "metadata.csv").write_text("0|Good morning everyone.\n9|Nothing.\n")
    assert main(["dataset", str(source / "metadata.csv"), "--cache", str(tmp_path / "codes")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "rejected 9 (line 2): 9 does not exist",
        "2 rows = 1 used + 1 not used",
    ]
    assert any((tmp_path / "codes").rglob("*.safetensors")) and not (source / ".omnivoice_codes").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gone"], "error: gone does not exist: a dataset is a folder"),
        (["empty"], "error: empty contains no dataset: a dataset is a folder"),
        (["bad"], "error: no usable clip in bad, 1 rejected: a.txt: it has no recording of the same name"),
        (["set", "--language", "xx-nope"], "error: language 'xx-nope' is not known: did you mean"),
        (["set", "--model", "gone"], "error: model folder gone does not exist"),
        (["set", "--device", "cuda:99"], "error: device 'cuda:99' cannot be used here"),
    ],
)
def test_refusals(
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(source.parent)
    (source.parent / "empty").mkdir()
    (source.parent / "bad").mkdir()
    (source.parent / "bad" / "a.txt").write_text("x")
    assert main(["dataset", *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(message) and shown.out == ""


def test_progress_labels_and_the_cache_of_a_list(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(dataset, "show_progress", lambda *at: seen.append(at))
    (source / "metadata.csv").write_text("0|Good morning everyone.\n1|Good morning everyone.\n")
    made = dataset.load_dataset(source / "metadata.csv", device=torch.device("cpu"), language="en", instruct="Ann")
    assert [(clip.language, clip.instruct) for clip in made.clips] == [("en", "Ann")] * 2
    assert seen == [(1, 2), (2, 2)] and (source / ".omnivoice_codes").is_dir()


@pytest.mark.parametrize("kind", ["folder", "list"])
def test_without_a_model_the_demo_voices_codec_is_used(
    source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (source / "metadata.csv").write_text("0|Good morning everyone.\n1|Good morning everyone.\n")
    monkeypatch.delenv("OMNIVOICE_MODEL")
    monkeypatch.chdir(source.parent)
    named = source if kind == "folder" else source / "metadata.csv"
    assert main(["dataset", str(named), "--language", "en"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("2 of 2 clips, 3.0 s, languages: en (2)")
    assert shown.err.count("no model is installed, so the demo voice is used") == 1
    with pytest.raises(CheckpointError, match="model folder gone does not exist"):
        dataset.load_dataset(named, device=torch.device("cpu"), model="gone")
