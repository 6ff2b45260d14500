"""Runs the tests on each supported set of versions: Python, torch and the packages that the pack uses.

    python tests/versions.py                        every set that can be installed on this machine
    python tests/versions.py torch-2.4 torch-2.14   these sets; here one that cannot be installed is a failure
    python tests/versions.py -- tests/unit          with arguments for pytest
    python tests/versions.py --folder FOLDER        keep the environments in FOLDER, and use those that are there

Every set gets a virtual environment of its own: up to 7 GB where PyPI's torch is a CUDA build. The last lines name the
versions and the result of each set, or why it could not be installed. The exit code is 1 if a set failed or none ran.
The workflow in .github/workflows runs one job for each set.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHOWN = ("torch", "numpy", "safetensors", "tokenizers", "soundfile", "huggingface_hub", "av")


@dataclass(frozen=True)
class VersionSet:
    """What one set installs; packages that it does not name are today's.

    lowest: install the lower bounds of requirements.txt. pyav: the tests run with the first version; those that read
    audio then run with each of the others.
    """

    name: str
    python: str
    packages: tuple[str, ...]
    pyav: tuple[str, ...] = (">=14.2",)
    lowest: bool = False


SETS = (
    VersionSet("torch-2.4", "3.10", ("torch==2.4.0",), ("==14.2.0",), lowest=True),
    VersionSet("torch-2.13", "3.11", ("torch==2.13.0",)),
    VersionSet(
        "torch-2.6",
        "3.12",
        ("torch==2.6.0", "numpy==1.26.*"),
        ("==16.*", "==14.2.0", "==17.1.*", "==18.1.*", "==19.0.*"),
    ),
    VersionSet("torch-2.14", "3.13", ("torch==2.14.*",)),
)
AUDIO_TESTS = ("tests/unit/intake/test_audio_files.py", "tests/unit/intake/test_container_audio.py")
# What no set runs, and why.
EXCLUDED = {"tests/unit/test_static_checks.py": "ruff, mypy and bandit judge the code, and know only today's packages"}


class CannotInstall(Exception):
    """A set cannot be installed on this machine; the text says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sets and return the exit code."""
    given, for_pytest = list(sys.argv[1:] if arguments is None else arguments), []
    if "--" in given:
        given, for_pytest = given[: given.index("--")], given[given.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [one.name for one in SETS]
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(names))
    parser.add_argument("--folder", type=Path, help="where the environments are, and stay")
    options = parser.parse_args(given)
    for name in options.sets:
        if name not in names:
            parser.error(f"SET must be one of {', '.join(names)}, got {name}")
    lines, failed, ran = [], False, False
    for one in [one for one in SETS if not options.sets or one.name in options.sets]:
        with tempfile.TemporaryDirectory() as spare:
            try:
                python = install(one, (options.folder or Path(spare)) / one.name)
            except CannotInstall as error:
                failed |= bool(options.sets)
                lines.append(f"{one.name}: cannot be installed here: {error}")
                continue
            passed, line = run_tests(one, python, for_pytest)
        failed, ran = failed or not passed, True
        lines.append(f"{one.name}: {line}")
    print("\n".join(["", *lines]))
    return int(failed or not ran)


def install(one: VersionSet, folder: Path) -> Path:
    """Install a set into the environment `folder` and return its Python. Raises CannotInstall."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        run_or_refuse(find_python(one.python), "-m", "venv", str(folder))
    needed = [line for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").split() if line]
    if one.lowest:
        needed = [line.replace(">=", "==") for line in needed]
    pip_install(python, *one.packages, *needed, f"av{one.pyav[0]}", "-r", str(ROOT / "tests" / "requirements.txt"))
    return python


def find_python(version: str) -> Path:
    """Return an interpreter of that version, such as "3.10": this one, on PATH, or pyenv's. Raises CannotInstall."""
    for candidate in candidates(version):
        asked = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True
        )
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return Path(candidate)
    raise CannotInstall(f"no Python {version} on the PATH")


def candidates(version: str) -> Iterator[str]:
    yield sys.executable
    if found := shutil.which(f"python{version}"):
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python")))


def pip_install(python: Path, *wanted: str) -> None:
    run_or_refuse(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)


def run_or_refuse(program: Path, *arguments: str) -> None:
    """Run a program, without a constraint on versions from outside; raises CannotInstall with its last error."""
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        errors = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise CannotInstall(
            ([line for line in errors if line.startswith("ERROR")] or errors or ["no reason given"])[-1]
        )


def run_tests(one: VersionSet, python: Path, for_pytest: Sequence[str]) -> tuple[bool, str]:
    """Run a set's tests, and return whether all passed and a line with the versions and results."""
    found = installed(python)
    about = ", ".join([f"Python {one.python}", *(f"{name} {found[name]}" for name in SHOWN if name != "av")])
    passed, results = True, []
    for number, version in enumerate(one.pyav):
        try:
            if number:
                pip_install(python, f"av{version}")
        except CannotInstall as error:
            passed = False
            results.append(f"PyAV {version} cannot be installed here: {error}")
            continue
        tests = AUDIO_TESTS if number else (*for_pytest, *(f"--deselect={path}" for path in EXCLUDED))
        command = [str(python), "-m", "pytest", "-n", "2", "--dist", "loadfile", *tests]
        print(f"+ {one.name}: {' '.join(command)}", flush=True)
        code, last = run_and_show(command)
        passed = passed and code == 0
        results.append(f"PyAV {installed(python)['av']}{' audio tests' if number else ''}: {last}")
    return passed, "; ".join([about, *results])


def installed(python: Path) -> dict[str, str]:
    """Return the version of each package that matters."""
    code = f"from importlib.metadata import version\nfor name in {SHOWN}: print(version(name))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return dict(zip(SHOWN, done.stdout.split()))


def run_and_show(command: Sequence[str]) -> tuple[int, str]:
    """Run a command, show what it prints, and return its exit code and its last line."""
    last = ""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip("= \n") or last
    return running.returncode, last


if __name__ == "__main__":
    sys.exit(main())
