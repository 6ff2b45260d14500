"""docs/security.md names tests for every threat and every fault; all of them exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.fuzz.campaign import campaigns

ROOT = Path(__file__).resolve().parents[2]
THREATS, FAULTS = 58, 45
ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)


def tables() -> list[list[tuple[str, ...]]]:
    """Return the rows of both tables: number, what may happen, what holds it, tests."""
    _, threats, faults = re.split(r"^## .+$", (ROOT / "docs" / "security.md").read_text("utf-8"), flags=re.MULTILINE)
    return [[match.groups() for match in ROW.finditer(part)] for part in (threats, faults)]


def test_every_threat_and_fault_has_a_row() -> None:
    numbers = [[int(row[0]) for row in rows] for rows in tables()]
    assert numbers == [list(range(1, THREATS + 1)), list(range(1, FAULTS + 1))]


@pytest.mark.parametrize("row", [row for rows in tables() for row in rows], ids=lambda row: row[1])
def test_the_tests_of_a_row_exist(row: tuple[str, ...]) -> None:
    known = set(campaigns()) | {"kills"}  # there are no kills on Windows
    for group in row[3].split("; "):
        if group.startswith("campaign "):
            assert set(re.findall(r'"([^"]+)"', group)) <= known
            continue
        file, *names = re.findall(r"`([^`]+)`", group)
        tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        assert set(names) <= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
