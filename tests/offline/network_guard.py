"""Refuses what this process sends to other machines, and name resolution; loopback only where that is allowed.

Whatever is refused is also noted, because code that tries to reach a server usually survives that it cannot. The file
`sitecustomize.py` beside this one installs the guard in the Python processes that tests start. It sees what goes
through Python's sockets: not a browser, and not the sockets that torch.distributed opens in C++.
"""

from __future__ import annotations

import _thread
import os
import sys

LOG = "OMNIVOICE_TESTS_NETWORK_LOG"  # the environment variable that names the file of the notes
CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
RESOLVES = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")


def guarded_path(root: os.PathLike[str]) -> dict[str, str]:
    """Return the variables with which a child imports from `root` and has the guard, if its environment is not ours."""
    return {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.fspath(root)]), LOG: os.environ.get(LOG, "")}


class NetworkRefused(OSError):
    """A test may not do this."""


def is_loopback(host: str) -> bool:
    number = host.removeprefix("::ffff:")
    return host in ("", "localhost", "::1") or (number.startswith("127.") and number.replace(".", "").isdigit())


def host_of(event: str, arguments: tuple[object, ...]) -> str | None:
    """Return the host that an audit event is about; None for other events, and for sockets within this machine."""
    if event in CONNECTS:
        target = arguments[1]
        if not isinstance(target, tuple) or not target or not isinstance(target[0], (str, bytes)):
            return None  # a path, or no address since the socket is connected
        host = target[0]
    elif event in RESOLVES:
        host = arguments[0][0] if isinstance(arguments[0], tuple) else arguments[0]
    else:
        return None
    return host.decode("utf-8", "replace") if isinstance(host, (bytes, bytearray)) else str(host or "")


class Guard:
    """The rule of this process. loopback: whether loopback addresses may be reached. leftover: threads of earlier
    tests; what they still try on loopback addresses is refused, but not noted."""

    def __init__(self, log: str, loopback: bool) -> None:
        self.log, self.loopback, self.leftover = log, loopback, frozenset[int]()

    def install(self) -> None:
        sys.addaudithook(self.check)

    def check(self, event: str, arguments: tuple[object, ...]) -> None:
        """The audit hook: notes and refuses."""
        if not event.startswith("socket."):
            return
        host = host_of(event, arguments)
        if host is None or (is_loopback(host) and (self.loopback or event in RESOLVES)):
            return
        what = f"{event} {host}"
        if not (is_loopback(host) and _thread.get_ident() in self.leftover):
            self.note(what)
        raise NetworkRefused(f"a test may not use the network: {what}")

    def note(self, what: str) -> None:
        if self.log:
            with open(self.log, "a", encoding="utf-8") as file:
                file.write(f"{what}\n")

    def taken(self) -> list[str]:
        """Return what was refused since the last call, also in child processes."""
        if not os.path.exists(self.log) or not os.path.getsize(self.log):
            return []
        with open(self.log, "r+", encoding="utf-8") as file:
            found = file.read().splitlines()
            file.truncate(0)
        return found
