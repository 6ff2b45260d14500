"""What can be checked of the repository's files as text: lengths, character set, paths, requirements."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE, SOFT_FILE, MAX_FUNCTION, SOFT_FUNCTION = 400, 300, 60, 40
MACHINE_PATHS = re.compile(r"(?<![\w.~/])/(work|root|home|Users|tmp)/\w")
TEXT_FILES = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".txt", ".cfg", ""}
NOT_OURS = {
    ".git",
    ".venv",
    ".venv-test",
    "venv",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
}


def repository_files() -> Iterator[Path]:
    for path in sorted(ROOT.rglob("*")):
        if path.is_file() and not NOT_OURS.intersection(path.relative_to(ROOT).parts):
            yield path


def product_files() -> list[Path]:
    return [p for folder in ("omnivoice", "nodes") for p in sorted((ROOT / folder).rglob("*.py"))]


def sizes(path: Path) -> Iterator[tuple[str, int, int, int]]:
    """(what, lines, hard cap, soft cap) of a file and of every function in it."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
    yield name, len(text.splitlines()), MAX_FILE, SOFT_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno
            yield f"{name}:{node.name}", node.end_lineno - node.lineno + 1, MAX_FUNCTION, SOFT_FUNCTION


def test_files_and_functions_are_short() -> None:
    measured = [size for path in product_files() for size in sizes(path)]
    assert len(measured) > 50
    assert [(what, lines) for what, lines, hard, _ in measured if lines > hard] == []
    notes = [f"{what} {lines} lines" for what, lines, _, soft in measured if lines > soft]
    if notes:
        warnings.warn("over the soft caps (300 a file, 40 a function): " + "; ".join(notes), stacklevel=1)


def test_no_machine_paths() -> None:
    assert MACHINE_PATHS.search("see " + "/" + "root/x")
    assert not MACHINE_PATHS.search("frame" + "/" + "work/x")
    bad = []
    for path in repository_files():
        if path.suffix in TEXT_FILES and path.stat().st_size < 1_000_000:
            text = path.read_text(encoding="utf-8", errors="replace")
            bad += [f"{path.relative_to(ROOT)}: {m.group()}" for m in MACHINE_PATHS.finditer(text)]
    assert bad == []


def test_requirements_and_pyproject_agree() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^dependencies = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert found
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split("\n")
    wanted = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    assert re.findall(r'"([^"]+)"', found.group(1)) == wanted
    assert all(re.fullmatch(r"[a-z_]+>=[\d.]+", line) for line in wanted)
    assert not {re.split(r"[<>=]", line)[0] for line in wanted} & {"torch", "torchaudio", "torchvision", "transformers"}


def test_readme_has_the_test_command_that_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- test-command -->\n+```[a-z]*\n(.*?)\n```", readme, re.DOTALL)
    assert found
    command = found.group(1)
    assert "\n" not in command
    assert all(part in command for part in ("torch", "-r requirements.txt", "-r tests/requirements.txt", "-m pytest"))
    assert "<!-- test-command -->" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
