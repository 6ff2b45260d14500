"""A few of the campaign's kills, and that it would notice what is lost or torn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fuzz.test_campaigns import make_run

if not hasattr(os, "fork"):
    pytest.skip("this system has neither fork nor SIGKILL", allow_module_level=True)

from tests.fuzz.killed_works import Command, Files, Training
from tests.fuzz.kills import COMMANDS, attack, killed, unharmed

KILLS = 14


def test_kills_lose_nothing(tmp_path: Path) -> None:
    run = make_run(tmp_path, goal=KILLS)
    attack(run)
    assert not run.findings
    assert (run.inputs, run.accepted) == (KILLS, KILLS)
    assert run.tallies["reported before a kill"] > KILLS


def test_a_torn_file_is_noticed(tmp_path: Path) -> None:
    work = Files(tmp_path, unharmed)
    work.check(killed(work, 5, 0))
    path = work.folder / "t.json"
    path.write_bytes(path.read_bytes().replace(b", ", b", 7", 1))
    with pytest.raises(AssertionError):
        work.check([])


def test_a_lost_state_is_noticed(tmp_path: Path) -> None:
    work = Training(tmp_path, unharmed)
    told = killed(work, 4, 0)
    assert "saved 3" in told
    work.check(told)
    (work.folder / "state-00000003.safetensors").unlink()
    with pytest.raises(AssertionError, match="the state of step 3 is lost"):
        work.check([])


def test_a_lost_part_is_noticed(tmp_path: Path) -> None:
    work = Command(tmp_path, unharmed, *COMMANDS[0])
    told = killed(work, 1, 0)
    work.check(told)
    (work.folder / told[0]).unlink()
    with pytest.raises(AssertionError, match="were kept and are lost"):
        work.check([])
