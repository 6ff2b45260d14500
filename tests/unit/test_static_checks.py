"""The linter, the formatter, the type checker and bandit, so that the one test command runs them too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = [
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    # What ships. Assertions state our own invariants, as for ruff.
    ("bandit", "-q", "-r", "-s", "B101", "__init__.py", "nodes", "omnivoice"),
]


@pytest.mark.parametrize("command", CHECKS, ids=" ".join)
def test_check_passes(command: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pre_commit_runs_the_same() -> None:
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert all(f"entry: python -m {' '.join(command)}\n" in text for command in CHECKS)
