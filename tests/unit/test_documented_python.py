"""The examples in docs/python.md and docs/subtitles.md run as they are written, on the tests' checkpoint."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from omnivoice import read_audio
from omnivoice.__main__ import main


def test_the_example_runs(root: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (root / "docs" / "python.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    model = tmp_path / "models" / "omnivoice" / "OmniVoice"
    model.parent.mkdir(parents=True)
    shutil.copytree(checkpoint, model)
    shutil.copy(root / "tests" / "assets" / "wav" / "reference.wav", tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/python.md", "exec"), {})
    assert read_audio(tmp_path / "out.wav").samples.shape[1] > 0
    assert (tmp_path / "anna.safetensors").is_file()


def test_the_example_of_subtitles_runs(
    root: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In Python, and on the command line with the report of the page, but for what depends on the model's sound."""
    page = (root / "docs" / "subtitles.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    model = tmp_path / "models" / "omnivoice" / "OmniVoice"
    model.parent.mkdir(parents=True)
    shutil.copytree(checkpoint, model)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/subtitles.md", "exec"), {})
    assert capsys.readouterr().out.startswith("1 cues spoken, 0 not spoken, 2.500 s, mode fill")
    srt, report = (block.strip("\n") for block in page.split("```")[1::2] if block.startswith("\n"))
    (command,) = re.findall(r"```bash\npython -m omnivoice (.*?)\n```", page, re.DOTALL)
    cast = re.findall(r"```json\n(.*?)```", page, re.DOTALL)[0]
    Path("film.srt").write_text(srt, encoding="utf-8")
    Path("cast.json").write_text(cast, encoding="utf-8")
    assert main([*command.split(), "--steps", "2"]) == 0
    made = Path("report.txt").read_text(encoding="utf-8").splitlines()
    for line in report.splitlines():
        if re.match(r"  [\d.]+ +\d", line):  # a cue: all but the errors
            assert line.split()[:8] in [other.split()[:8] for other in made]
        elif not line.startswith("timing error"):
            assert line.replace("32 steps", "2 steps") in made, line
