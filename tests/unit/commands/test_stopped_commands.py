"""Commands that are told to end by a signal, and commands in odd locales: clean ends, and the same files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnivoice.__main__ import main
from omnivoice.engine import Engine
from omnivoice.intake import files
from tests import warm_children
from tests.offline.network_guard import guarded_path
from tests.unit.commands.test_command_line import Run, seconds_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither these signals nor these locales"),
    pytest.mark.usefixtures("one_engine"),
]
ROWS = [{"id": f"row{number}", "text": f"Sentence number {number}."} for number in range(4)]


@pytest.fixture
def run(root: Path, checkpoint: Path, tmp_path: Path) -> Run:
    (tmp_path / "list.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return Run(root, checkpoint, tmp_path)


def batch(run: Run) -> int:
    return run("batch", "list.jsonl", "-o", "out", "--steps", 1).returncode  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """A shell that starts the tests in the background lets them ignore SIGINT, and their processes inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("writes", [1, 2, 5, 8])
def test_a_batch_that_is_told_to_end_keeps_what_is_finished(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int, code: int, writes: int
) -> None:
    """The signal arrives in the middle of the n-th write, or of the n-th line of the log."""
    assert batch(run) == 0
    whole = {path.name: path.read_bytes() for path in (run.folder / "out").glob("*.wav")}
    for path in (run.folder / "out").iterdir():
        path.unlink()
    done: list[str] = []

    def signalled(name: str):  # type: ignore[no-untyped-def]
        real = getattr(files, name)

        def call(*arguments: object) -> None:
            done.append(name)
            if len(done) == writes:
                os.kill(os.getpid(), number)
            real(*arguments)

        return call

    with monkeypatch.context() as patch:
        for name in ("_write_synced", "_append"):
            patch.setattr(files, name, signalled(name))
        ended = batch(run)
    assert ended == code and len(done) == writes
    left = {path.name: path.read_bytes() for path in (run.folder / "out").iterdir()}
    assert not [name for name in left if name.endswith((".ovtmp", ".lock"))]
    assert all(data == whole[name] for name, data in left.items() if name.endswith(".wav"))
    noted = [json.loads(line) for line in left.get("manifest.jsonl", b"").splitlines()]
    assert {f"{entry['id']}.wav" for entry in noted if entry.get("file")} <= left.keys()
    spoken: list[str] = []
    generate = Engine.generate_plans

    def counted(engine: Engine, plans, **options):  # type: ignore[no-untyped-def]
        spoken.extend(plan.request.text for plan in plans)
        return generate(engine, plans, **options)

    monkeypatch.setattr(Engine, "generate_plans", counted)
    assert batch(run) == 0
    assert len(spoken) == len(ROWS) - sum(bool(entry.get("file")) for entry in noted), "finished rows are not repeated"
    assert {path.name: path.read_bytes() for path in (run.folder / "out").glob("*.wav")} == whole


def test_the_handler_of_the_caller_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert main(["languages"]) == 0
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_is_told_to_end_ends_with_its_code(
    run: Run, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """It is in a read of standard input when the signal arrives."""
    monkeypatch.chdir(run.folder)
    with warm_children.start(
        ENTRY, "speak", "-", "-o", "a.wav", environment={"OMNIVOICE_MODEL": str(run.checkpoint)}
    ) as process:
        assert process.stdout.readline() == b"reading\n"
        process.send_signal(number)
        errors = process.stderr.read().decode()
        process.wait(timeout=300)
    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert errors.strip() in ("told to end", "interrupted") and not (run.folder / "a.wav").exists()


ENTRY = """
import sys
from omnivoice import __main__ as program
from omnivoice.commands import speak
read = speak.read_text_stream

def reading(stream):
    print("reading", flush=True)
    return read(stream)

speak.read_text_stream = reading
sys.exit(program.main())
"""

LOCALES = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "Turkish": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    "Windows": {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
}


@pytest.mark.parametrize("name", LOCALES)
def test_every_locale_gives_the_same_file(run: Run, name: str) -> None:
    """A process is started as a user starts it, and says its seed and the length. In the locale C, a Chinese text was
    once taken for one without a letter. This text has letters outside each of the encodings, and the I that Turkish
    spells in two ways."""
    text = "INTERESTING: d\u0131\u015far\u0131, \u043f\u0440\u0438\u0432\u0435\u0442, \u4f60\u597d."
    assert run("speak", text, "-o", "here.wav", "--steps", 1, "--seed", 1).returncode == 0
    environment = {"PATH": "", **guarded_path(run.root), "OMP_NUM_THREADS": "1", **LOCALES[name]}
    command = [sys.executable, "-m", "omnivoice", "speak", text, "-o", "there.wav", "--steps", "1", "--seed", "1"]
    command += ["--model", str(run.checkpoint)]
    done = subprocess.run([part.encode() for part in command], cwd=run.folder, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"seed 1" in done.stdout
    assert b"%.2f s of speech" % seconds_of(run.folder / "there.wav") in done.stdout
    assert (run.folder / "there.wav").read_bytes() == (run.folder / "here.wav").read_bytes()
