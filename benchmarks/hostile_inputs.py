"""How hostile inputs are described: "door: what it is", and a function that prepares one.

It prepares the input, in memory or in a folder, and returns what sends it through its door. That gets a callback, for
doors that take one to ask for Cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Door = Callable[[Callable[[], None]], object]
Prepare = Callable[[Path], Door]
CHECKPOINT = Path(__file__).resolve().parents[1] / "tests" / "assets" / "checkpoint"
MB, MOST = 1_000_000, 100_000_000


def of_text(unit: str, chars: int, read: Callable[[str], object]) -> Prepare:
    """Return an input of `chars` characters that repeat `unit`."""

    def prepare(folder: Path) -> Door:
        text = (unit * (chars // len(unit) + 1))[:chars]
        return lambda listen: read(text)

    return prepare


def of_file(name: str, content: Callable[[], bytes], read: Callable[[Path], object]) -> Prepare:
    """Return an input that is one file in the folder."""

    def prepare(folder: Path) -> Door:
        path = folder / name
        path.write_bytes(content())
        return lambda listen: read(path)

    return prepare


def repeated(unit: bytes, size: int, start: bytes = b"", end: bytes = b"") -> Callable[[], bytes]:
    """Return a function that makes `size` bytes of a repeated unit."""
    return lambda: start + unit * ((size - len(start) - len(end)) // len(unit)) + end
