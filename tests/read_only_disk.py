"""A folder on a disk that refuses every change.

Tests may run as root, who may write anywhere, so the system's answer is replaced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

CHANGES = ("mkdir", "replace", "rename", "link", "unlink", "rmdir")
FOR_WRITING = os.O_CREAT | os.O_WRONLY | os.O_RDWR


def make_read_only(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """Refuse every change below `folder`, and return the list in which the refused calls will stand."""
    refused = list[str]()

    def refusing(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(path: object, *rest: object, **options: object) -> object:
            changes = name != "open" or bool(rest and rest[0] & FOR_WRITING)  # type: ignore[operator]
            if changes and str(path).startswith(str(folder)):
                if name == "mkdir" and os.path.isdir(str(path)):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                refused.append(name)
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            return real(path, *rest, **options)

        return call

    for name in ("open", *CHANGES):
        patch.setattr(os, name, refusing(name, getattr(os, name)))
    return refused
