"""Folders of models/: registered beside what extra_model_paths.yaml gave, and listed afresh whenever asked.

What is unusual: names from widgets are never joined to a path; they are looked up in a list made just now.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import folder_paths

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import shown


def register_folder(key: str, extensions: set[str]) -> None:
    """Make models/`key` known, after the places that extra_model_paths.yaml already gave for it."""
    default = os.path.join(folder_paths.models_dir, key)
    paths, known = folder_paths.folder_names_and_paths.get(key, ([], set()))
    listed = [*paths] if default in paths else [*paths, default]
    folder_paths.folder_names_and_paths[key] = (listed, known or extensions)


def roots(key: str) -> list[Path]:
    """The places of a key, registered or not; the first is where new files go."""
    default = os.path.join(folder_paths.models_dir, key)
    paths = folder_paths.get_folder_paths(key) if key in folder_paths.folder_names_and_paths else []
    return [Path(path) for path in dict.fromkeys([*paths, default])]


def entries(key: str, wanted: Callable[[Path], bool]) -> list[Path]:
    """What lies directly in the places of a key, by name within each; a place that cannot be read holds nothing."""
    found: list[Path] = []
    for root in roots(key):
        with contextlib.suppress(OSError), os.scandir(root) as listing:
            found += sorted(path for path in (Path(entry.path) for entry in listing) if wanted(path))
    return found


def chosen(models: Mapping[str, Path], name: object, *, missing: str) -> Path:
    """The place of a model in a list made just now. Raises InputError: with the words `missing` for an empty list."""
    if isinstance(name, str) and name in models:
        return models[name]
    if not models:
        raise InputError(missing)
    raise InputError(f"model_name must be one of {', '.join(models)}, got {shown(name)}: press R to refresh the list")
