"""Shared by all tests: where things are, and a copy of the pack as a user would have it installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
PACK_FILES = ("__init__.py", "nodes", "omnivoice", "workflows", "pyproject.toml", "requirements.txt", "LICENSE")
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "audio_tokenizer")


def comfyui_path() -> Path | None:
    """The ComfyUI to test with: COMFYUI_PATH, else ~/ComfyUI, if it is there."""
    path = Path(os.environ.get("COMFYUI_PATH") or Path.home() / "ComfyUI")
    return path if (path / "main.py").is_file() else None


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny tensors are quicker so, and a busy machine does not stall at thread barriers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    """A tiny random model in the published format."""
    folder = ROOT / "tests" / "assets" / "checkpoint"
    assert all((folder / name).exists() for name in MODEL_FILES)
    return folder


@pytest.fixture(scope="session")
def copy_pack() -> Callable[[Path], Path]:
    """Copies what a user installs into a folder, and nothing else."""

    def copy(destination: Path) -> Path:
        destination.mkdir(parents=True)
        for name in PACK_FILES:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, destination / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, destination / name)
        return destination

    return copy


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [r for r in terminalreporter.stats.get("skipped", []) if "tests/comfyui" in r.nodeid]
    if skipped and comfyui_path() is None:
        terminalreporter.section("NOT TESTED: ComfyUI", sep="!", yellow=True, bold=True)
        terminalreporter.line(
            f"{len(skipped)} tests on a real ComfyUI were skipped, because none was found. Set COMFYUI_PATH to its "
            "folder (and COMFYUI_PYTHON to its python), or put it at ~/ComfyUI, and run pytest again."
        )
