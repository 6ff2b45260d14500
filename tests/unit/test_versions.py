"""The script that runs the tests on each supported set of versions."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests import versions

NAMES = [one.name for one in versions.SETS]


def fake(monkeypatch: pytest.MonkeyPatch, *, missing: str = "", failing: str = "") -> list[str]:
    """Replace installation and tests; the list gets the names of the sets whose tests ran."""
    ran: list[str] = []

    def install(one: versions.VersionSet, folder: Path) -> Path:
        if one.name == missing:
            raise versions.CannotInstall("no Python 3.13 on the PATH")
        return folder

    def run_tests(one: versions.VersionSet, python: Path, for_pytest: list[str]) -> tuple[bool, str]:
        ran.append(one.name)
        return one.name != failing, f"ran {' '.join(for_pytest)}"

    monkeypatch.setattr(versions, "install", install)
    monkeypatch.setattr(versions, "run_tests", run_tests)
    return ran


def test_every_set_runs_and_one_that_cannot_be_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = fake(monkeypatch, missing=NAMES[-1])
    assert versions.main(["--", "tests/unit", "-x"]) == 0 and ran == NAMES[:-1]
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0] == f"{NAMES[0]}: ran tests/unit -x"
    assert lines[-1] == f"{NAMES[-1]}: cannot be installed here: no Python 3.13 on the PATH"


def test_a_set_that_fails_or_was_asked_for_in_vain_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = fake(monkeypatch, missing=NAMES[1], failing=NAMES[0])
    assert versions.main([]) == 1 and ran == [NAMES[0], *NAMES[2:]]
    assert versions.main([NAMES[2]]) == 0
    assert versions.main([NAMES[0], NAMES[2]]) == 1
    assert versions.main([NAMES[1], NAMES[2]]) == 1
    with pytest.raises(SystemExit):
        versions.main(["torch-1.0"])


def test_nothing_that_ran_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, missing=NAMES[0])
    monkeypatch.setattr(versions, "SETS", versions.SETS[:1])
    assert versions.main([]) == 1


def test_what_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(versions, "run_or_refuse", lambda program, *arguments: asked.append(arguments))
    monkeypatch.setattr(versions, "find_python", lambda version: Path(sys.executable))
    for one in versions.SETS:
        versions.install(one, tmp_path / one.name)
    lowest, *others = (arguments for arguments in asked if "pip" in arguments)
    assert {"torch==2.4.0", "numpy==1.25", "av==14.2.0"} <= {*lowest}
    assert len(others) == len(NAMES) - 1 and all("numpy>=1.25" in arguments for arguments in others)


def test_the_tests_run_with_every_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []
    found = dict.fromkeys(versions.SHOWN, "1")

    def run(command: list[str]) -> tuple[int, str]:
        commands.append(" ".join(command[5:]))
        return 0, "3 passed"

    def pip_install(python: Path, wanted: str) -> None:
        found["av"] = wanted.removeprefix("av==")
        if found["av"] == "3":
            raise versions.CannotInstall("there is none")

    monkeypatch.setattr(versions, "run_and_show", run)
    monkeypatch.setattr(versions, "pip_install", pip_install)
    monkeypatch.setattr(versions, "installed", lambda python: dict(found))
    one = versions.VersionSet("x", "3.10", (), ("==1", "==2"))
    passed, line = versions.run_tests(one, Path("python"), ["-x"])
    assert passed and line.endswith("PyAV 1: 3 passed; PyAV 2 audio tests: 3 passed")
    assert commands[0].endswith("-x --deselect=tests/unit/test_static_checks.py")
    assert commands[1].endswith(" ".join(versions.AUDIO_TESTS))
    passed, line = versions.run_tests(versions.VersionSet("x", "3.10", (), ("==1", "==3")), Path("python"), [])
    assert not passed and line.endswith("PyAV ==3 cannot be installed here: there is none")


def test_a_python_that_is_there_and_one_that_is_not() -> None:
    assert versions.find_python("{}.{}".format(*sys.version_info)).exists()
    with pytest.raises(versions.CannotInstall, match=r"^no Python 2\.0 on the PATH$"):
        versions.find_python("2.0")


def test_a_failure_to_install_says_why() -> None:
    code = "import os, sys; sys.exit('note\\nERROR: no torch 9\\n' + os.environ.get('PIP_CONSTRAINT', ''))"
    with pytest.raises(versions.CannotInstall, match=r"^ERROR: no torch 9$"):
        versions.run_or_refuse(Path(sys.executable), "-c", code)


def test_the_last_line_and_the_exit_code_of_the_tests(capfd: pytest.CaptureFixture[str]) -> None:
    code = "print('one\\n== 3 failed ==\\n'); raise SystemExit(3)"
    assert versions.run_and_show([sys.executable, "-c", code]) == (3, "3 failed")
    assert "one\n" in capfd.readouterr().out


def test_the_excluded_and_the_audio_tests_exist(root: Path) -> None:
    assert all((root / path).is_file() for path in (*versions.EXCLUDED, *versions.AUDIO_TESTS))


def test_the_workflow_has_a_job_for_each_set(root: Path) -> None:
    text = (root / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    jobs = re.findall(r'\{ set: (\S+), python: "([\d.]+)" \}', text)
    assert jobs == [(one.name, one.python) for one in versions.SETS]
    assert 'python tests/versions.py "$SET"' in text and "SET: ${{ matrix.set }}" in text


def test_the_table_of_sets_is_true(root: Path) -> None:
    page = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+)` \| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    pinned = [one.packages[0].removeprefix("torch==").removesuffix(".*") for one in versions.SETS]
    assert rows == [(one.name, one.python, torch) for one, torch in zip(versions.SETS, pinned)]
