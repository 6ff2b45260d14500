"""The guard of tests/offline: no test, and no Python process that it starts, reaches another machine."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.offline.network_guard import Guard, NetworkRefused, guarded_path, host_of, is_loopback

OUTSIDE = "192.0.2.1"  # an address for documentation, which no machine has
CONNECT = f"import socket; socket.socket().connect(('{OUTSIDE}', 9))"
CAUGHT = f"import socket\ntry: socket.socket().connect(('{OUTSIDE}', 9))\nexcept Exception: pass"
RESOLVE = "import socket; socket.getaddrinfo('example.com', 80)"
LOOPBACK = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname())"


@pytest.mark.parametrize("host", [OUTSIDE, "127.0.0.1"])
@pytest.mark.parametrize("kind", ["connect", "connect_ex", "sendto"])
def test_a_test_reaches_nobody(network: Guard, host: str, kind: str) -> None:
    if os.name == "nt" and host == "127.0.0.1":
        pytest.skip("loopback addresses are allowed on Windows, where asyncio needs them")
    with socket.socket(type=socket.SOCK_DGRAM) as one, pytest.raises(NetworkRefused, match=host):
        one.sendto(b"x", (host, 9)) if kind == "sendto" else getattr(one, kind)((host, 9))
    assert network.taken() == [f"socket.{kind.removesuffix('_ex')} {host}"]


@pytest.mark.parametrize("name", ["example.com", "a-name-without-dots", OUTSIDE])
@pytest.mark.parametrize(
    "call", [lambda name: socket.getaddrinfo(name, 80), socket.gethostbyname, socket.gethostbyaddr]
)
def test_a_test_resolves_no_name(network: Guard, call, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NetworkRefused, match=name):
        call(name)
    assert [line.split()[1] for line in network.taken()] == [name]


@pytest.mark.loopback
def test_a_marked_test_reaches_its_own_server(network: Guard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted = server.accept()[0]
        accepted.sendall(b"x")
        assert client.recv(1) == b"x"
        accepted.close()
        with pytest.raises(NetworkRefused):
            client.connect((OUTSIDE, 9))
    assert network.taken() == [f"socket.connect {OUTSIDE}"]


def test_a_thread_of_an_earlier_test_is_refused_but_not_this_tests_fault(network: Guard) -> None:
    go, results = threading.Event(), list[str]()

    def late() -> None:
        go.wait()
        for host in ("127.0.0.1", OUTSIDE):
            with socket.socket() as one, contextlib.suppress(NetworkRefused):
                one.connect((host, 9))
                results.append(host)

    thread = threading.Thread(target=late)
    thread.start()
    network.leftover = frozenset([thread.ident or 0])
    go.set()
    thread.join()
    assert network.taken() == [f"socket.connect {OUTSIDE}"]
    assert results == ([] if os.name != "nt" else ["127.0.0.1"])


@pytest.mark.parametrize(
    ("code", "noted", "returned"),
    [
        (CONNECT, [f"socket.connect {OUTSIDE}"], 1),
        (CAUGHT, [f"socket.connect {OUTSIDE}"], 0),
        (RESOLVE, ["socket.getaddrinfo example.com"], 1),
        (LOOPBACK, [], 0),
    ],
)
def test_a_child_reaches_nobody_else(network: Guard, code: str, noted: list[str], returned: int) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, network.taken()) == (returned, noted), done.stderr


def test_a_child_with_another_environment_is_guarded_too(network: Guard, root: Path) -> None:
    environment = {name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}  # sockets of Windows
    environment |= guarded_path(root)
    done = subprocess.run([sys.executable, "-c", CONNECT], env=environment, capture_output=True, text=True)
    assert (done.returncode, network.taken()) == (1, [f"socket.connect {OUTSIDE}"]), done.stderr
    others = [path for path in (root / "tests").rglob("*.py") if "PYTHONPATH" in path.read_text(encoding="utf-8")]
    names = {path.relative_to(root / "tests").as_posix() for path in others}
    assert names == {"conftest.py", "offline/network_guard.py", "offline/sitecustomize.py", "unit/test_network.py"}


def test_the_start_file_of_an_environment_runs_too(
    network: Guard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('its own')")
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"] + os.pathsep + str(tmp_path))
    done = subprocess.run([sys.executable, "-c", CONNECT], capture_output=True, text=True)
    assert (done.stdout, network.taken()) == ("its own\n", [f"socket.connect {OUTSIDE}"]), done.stderr


def test_every_call_that_reaches_out_is_known() -> None:
    assert host_of("socket.connect", (None, (b"192.0.2.1", 9))) == OUTSIDE
    assert host_of("socket.sendmsg", (None, (OUTSIDE, 9, 0, 0))) == OUTSIDE
    assert host_of("socket.getnameinfo", ((OUTSIDE, 9),)) == OUTSIDE
    assert host_of("socket.sendmsg", (None, None)) is host_of("socket.connect", (None, "/a/path")) is None
    assert host_of("socket.bind", (None, (OUTSIDE, 9))) is None
    assert [is_loopback(host) for host in ("127.0.0.2", "::1", "localhost", "0.0.0.0", OUTSIDE, "127.example.com")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
