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
from ...omnivoice.intake.files import file_stamp
from ...omnivoice.intake.limits import shown
from ...omnivoice.intake.paths import match_name
from ...omnivoice.text.vocabulary import named


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
    """Return the place of the model `name` in a list made just now, whatever its case and Unicode form.

    Raises InputError for any other name, and with the message `missing` if the list is empty.
    """
    match = match_name(name, models)
    if match is not None:
        return models[match]
    if not models:
        raise InputError(missing)
    raise InputError(f"model_name must be one of {named([*models])}, got {shown(name)}: press R to refresh the list")


def stamp(place: Path) -> str:
    """Return a text that changes when the model in `place`, a file or a folder, is edited or replaced."""
    files = [path for pattern in ("*", "*/*") for path in place.glob(pattern)] if place.is_dir() else [place]
    wanted = sorted(path for path in files if path.suffix in (".json", ".safetensors"))
    return " ".join(f"{path.relative_to(place)} {file_stamp(path)}" for path in wanted)
