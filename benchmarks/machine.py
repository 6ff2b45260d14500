"""What Linux says about this machine: the processor's name, and how much memory this process holds.

On other systems the name is the architecture's and the memory is not known. No user name, host name or path is read.
"""

from __future__ import annotations

import platform

CPU_INFO, STATUS = "/proc/cpuinfo", "/proc/self/status"


def processor_name() -> str:
    """Return the processor's product name, or its architecture where the system does not tell."""
    return _value(CPU_INFO, "model name") or platform.processor() or platform.machine() or "unknown processor"


def anonymous_bytes() -> int | None:
    """Return this process's resident memory that no file backs, in bytes, or None where the system does not tell.

    Pages of a memory-mapped file do not count: the system can drop them at any time.
    """
    return _bytes("RssAnon")


def resident_bytes() -> int | None:
    """Return all resident memory of this process in bytes, or None where the system does not tell."""
    return _bytes("VmRSS")


def _bytes(key: str) -> int | None:
    found = _value(STATUS, key)
    return None if found is None else int(found.split()[0]) * 1024


def _value(path: str, key: str) -> str | None:
    """Return the value of the first line "key : value" in a text file, or None."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    values = (value for name, _, value in (line.partition(":") for line in lines) if name.strip() == key)
    return next(values, "").strip() or None
