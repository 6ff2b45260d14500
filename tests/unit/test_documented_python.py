"""The example in docs/python.md runs as it is written, on the tests' checkpoint and recording."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from omnivoice import read_audio


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
