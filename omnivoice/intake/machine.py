"""What the system says of itself: the processor's name, and how much memory this process holds.

For measurements alone. Linux tells both in two small text files; elsewhere the name is the architecture's and the
memory is not known. No user name, host name or path is ever read.
"""

from __future__ import annotations

import platform

_CPU_INFO, _STATUS = "/proc/cpuinfo", "/proc/self/status"
_MAX_CHARS = 65_536


def processor_name() -> str:
    """The processor as its maker calls it, or its architecture."""
    return _line(_CPU_INFO, "model name") or platform.processor() or platform.machine() or "unknown processor"


def anonymous_bytes() -> int | None:
    """Resident memory of this process that no file backs, in bytes; None where the system does not tell.

    Pages of a memory-mapped file are left out: the system may drop them at any time.
    """
    found = _line(_STATUS, "RssAnon")
    return None if found is None else int(found.split()[0]) * 1024


def _line(path: str, key: str) -> str | None:
    """The value of the first line "key : value"."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(_MAX_CHARS).splitlines()
    except OSError:
        return None
    values = (value for name, _, value in (line.partition(":") for line in lines) if name.strip() == key)
    return next(values, "").strip() or None
