"""Children that are forked from a server: as new processes are, but with torch imported already."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm_children
from tests.offline.network_guard import Guard


@pytest.mark.parametrize(
    "code, end, said",
    [
        ("print('done')", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('refused')", 1, "refused\n"),
        ("raise ValueError('no')", 1, "ValueError: no\n"),
        ("import os; os._exit(7)", 7, ""),
        ("import os; os.abort()", -signal.SIGABRT, ""),
    ],
)
def test_the_end_of_a_child_is_seen(code: str, end: int, said: str) -> None:
    found, output, errors = warm_children.run(code)
    if end < 0 and os.name == "nt":
        assert found not in (0, 1)
    else:
        assert (found, output) == (end, "done\n" if "done" in code else "") and errors.endswith(said)


def test_a_child_has_its_own_arguments_variables_folder_and_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONLY_HERE", "1")
    code = "import os, sys; print(sys.argv, os.getcwd(), os.environ['ONLY_HERE'], os.environ['THERE'], input())"
    with warm_children.start(code, "a", 2, environment={"THERE": "x"}) as child:
        child.stdin.write(b"given\n")
        output, errors = child.communicate()
    assert (output.decode().strip(), errors) == (f"['-c', 'a', '2'] {os.getcwd()} 1 x given", b"")
    monkeypatch.delenv("ONLY_HERE")
    assert (
        warm_children.run("import os; print('ONLY_HERE' in os.environ, os.environ.get('THERE'))")[1] == "False None\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child is a new process")
def test_a_child_is_warm_and_has_one_thread_and_no_work_of_its_parent() -> None:
    code = (
        "import os, sys; print('torch._dynamo' in sys.modules, 'pytest' in sys.modules, os.listdir('/proc/self/task'))"
    )
    with warm_children.start(code) as child:
        output, errors = child.communicate()
    assert (output.decode(), errors) == (f"True False ['{child.pid}']\n", b"")


def test_many_bytes_pass_and_a_kill_is_seen() -> None:
    with warm_children.start("import sys; sys.stdout.write('x' * 10**6); sys.stderr.write('y' * 10**6)") as child:
        assert child.communicate() == (b"x" * 10**6, b"y" * 10**6)
    with warm_children.start("import sys; print('up', flush=True); sys.stdin.read()") as child:
        assert child.stdout.readline().strip() == b"up" and child.returncode is None
        child.kill()
        assert child.wait() == (1 if os.name == "nt" else -signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no server")
def test_the_server_ends_with_the_process_that_started_it() -> None:
    """Its end is seen by its copy of the output, which is open for as long as it or its child runs."""
    code = (
        "import os, signal; from tests import warm_children; warm_children.IMPORTED = ();"
        "child = warm_children.start('import sys; print(1, flush=True); sys.stdin.read()'); child.stdout.readline();"
        "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=warm_children.ROOT, capture_output=True, timeout=600)
    assert done.returncode == -signal.SIGKILL and done.stdout.strip().isdigit(), done.stderr


def test_a_child_reaches_nobody(network: Guard) -> None:
    code, _, errors = warm_children.run("import socket; socket.socket().connect(('192.0.2.1', 9))")
    assert code == 1 and "a test may not use the network" in errors
    assert network.taken() == ["socket.connect 192.0.2.1"]
