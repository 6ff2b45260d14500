"""The engine's own data tables: JSON files beside the modules that use them.

Read once and kept; they are part of the program, so a bad one is a broken installation. Not for user files.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .limits import MAX_TABLE_BYTES
from .strict_json import read_json

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def load_table(package_relative_path: str) -> object:
    """The parsed JSON of a file inside `omnivoice/`, e.g. "text/languages.json". Shared: callers must not change it.

    Narrow the result once, with `typing.cast`. Raises FileError when the file is missing or not strict JSON.
    """
    assert ".." not in package_relative_path, "tables lie inside the package"
    return read_json(_PACKAGE / package_relative_path, limit=MAX_TABLE_BYTES)
