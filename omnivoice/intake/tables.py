"""The engine's own data tables: JSON files next to the modules that use them. Not for users' files.

Each is read once and kept. They are part of the program, so a bad one means a broken installation.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .limits import MAX_TABLE_BYTES
from .strict_json import read_json

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def load_table(package_relative_path: str) -> object:
    """Return the parsed JSON of a file inside `omnivoice/`, such as "text/languages.json".

    The result is shared: do not change it. Narrow its type with `typing.cast`. Raises FileError if the file is missing
    or is not strict JSON.
    """
    assert ".." not in package_relative_path, "tables are inside the package"
    return read_json(_PACKAGE / package_relative_path, limit=MAX_TABLE_BYTES)
