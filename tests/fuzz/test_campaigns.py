"""A fixed part of every fuzz campaign, and the programme that runs them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from omnivoice.errors import FileError
from tests.fuzz import program
from tests.fuzz.campaign import Campaign, Run, campaigns

SUITE = [campaign for campaign in campaigns().values() if campaign.suite]


def make_run(folder: Path, *, goal: int = 100) -> Run:
    return Run(random.Random("suite"), folder, folder / "kept", goal, seconds=1e9, timed=False)


@pytest.mark.parametrize("campaign", SUITE, ids=lambda campaign: campaign.name)
def test_no_promise_is_broken(campaign: Campaign, tmp_path: Path) -> None:
    run = make_run(tmp_path, goal=campaign.suite)
    campaign.attack(run)
    assert not run.findings
    assert run.inputs >= campaign.suite


def test_errors_of_ours_are_refusals_and_others_are_findings(tmp_path: Path) -> None:
    run, errors = make_run(tmp_path, goal=5), [FileError("no"), None, ValueError("x"), SystemExit(3), ValueError("y")]
    while run.more():
        with run.input(b"\xff\x00"):
            if error := errors[run.inputs - 1]:
                raise error
    assert (run.inputs, run.accepted, run.refused) == (5, 1, 1)
    assert sorted(reason.split()[0] for reason in run.findings) == ["SystemExit", "ValueError"]
    assert sum(run.findings.values()) == 3
    assert {file.read_bytes() for file in tmp_path.glob("kept/*.input")} == {b"\xff\x00"}
    assert len(list(tmp_path.glob("kept/*.txt"))) == 2


def test_a_slow_input_is_a_finding_of_a_timed_run(tmp_path: Path) -> None:
    run = make_run(tmp_path, goal=1)
    run.timed = True
    with run.input("x", cpu_seconds=-1):
        pass
    assert run.findings == {"took more than -1 s of processor time": 1}


def test_a_run_ends_when_its_time_is_over(tmp_path: Path) -> None:
    run = Run(random.Random(0), tmp_path, tmp_path, goal=10**9, seconds=0)
    assert not run.more()


def _die(run: Run) -> None:
    while run.more():
        with run.input(b""):
            if run.inputs == 70:
                os._exit(7)


def test_a_worker_that_dies_is_a_finding(tmp_path: Path) -> None:
    deadly = Campaign("deadly", "deaths", 100, 1, _die, workers=1)
    result = program.run_campaign(deadly, 1, 60, tmp_path)
    assert result.findings == {"worker 0 died (7) after about 64 inputs": 1}
    assert result.inputs == 64
