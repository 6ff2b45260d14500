"""Folders of models/: registered in addition to those of extra_model_paths.yaml, and listed afresh on every call.

A name from a widget is never joined to a path. It is looked up in a list that was made just now.
"""

from __future__ import annotations

import contextlib
import logging
import os
import unicodedata
from collections.abc import Callable, Mapping
from os.path import isfile  # unlike the methods of DirEntry and Path, it never raises
from pathlib import Path

import folder_paths

from ...omnivoice.errors import FileError, InputError
from ...omnivoice.intake.files import file_stamp
from ...omnivoice.intake.limits import shown
from ...omnivoice.intake.paths import match_name
from ...omnivoice.text.vocabulary import named

MAX_DEPTH = 4  # subfolders within each other
MAX_ENTRIES = 10_000  # files and folders that one listing looks at
_LOG = logging.getLogger("omnivoice_nodes")


def register_folder(key: str, extensions: set[str]) -> None:
    """Make models/`key` known to ComfyUI, after the places that extra_model_paths.yaml gives for it."""
    default = os.path.join(folder_paths.models_dir, key)
    paths, known = folder_paths.folder_names_and_paths.get(key, ([], set()))
    listed = [*paths] if default in paths else [*paths, default]
    folder_paths.folder_names_and_paths[key] = (listed, known or extensions)


def roots(key: str) -> list[Path]:
    """Return the places of a key, registered or not; new files go to the first."""
    default = os.path.join(folder_paths.models_dir, key)
    paths = folder_paths.get_folder_paths(key) if key in folder_paths.folder_names_and_paths else []
    return [Path(path) for path in dict.fromkeys([*paths, default])]


def entries(wanted: Callable[[Path], bool], *keys: str, places: bool = False) -> dict[str, Path]:
    """Return {name: path} of the wanted entries of the places of `keys`, and with `places` of the wanted places too.

    They are sorted within each place, and the first place of a name wins. Unreadable places count as empty.
    """
    found: dict[str, Path] = {}
    for root in [root for key in keys for root in roots(key)]:
        paths = [root] if places else []
        with contextlib.suppress(OSError), os.scandir(root) as listing:
            paths += sorted(Path(entry.path) for entry in listing)
        for path in filter(wanted, paths):
            found.setdefault(path.name, path)
    return found


def files_below(key: str, suffix: str) -> dict[str, Path]:
    """Return {name: file} of the files with `suffix` in the places of a key and in their subfolders.

    A name is the path below its place in Unicode form NFC, with / and without the suffix. The first place of a name
    wins. Hidden entries, links that lead out of the place, and links to folders are left out, as is everything
    deeper than `MAX_DEPTH`. Beyond `MAX_ENTRIES` the listing stops, with a warning in the log.
    """
    found: dict[str, Path] = {}
    for root in roots(key):
        for path in _walk(root, suffix):
            name = path.relative_to(root).as_posix().removesuffix(suffix)
            composed = unicodedata.normalize("NFC", name)
            if found.setdefault(composed, path) != path:
                found.setdefault(name, path)  # next to it there is a file whose name differs in Unicode form only
    return found


def _walk(root: Path, suffix: str) -> list[Path]:
    found: list[Path] = []
    pending, seen = [(root, 0)], 0
    while pending:
        folder, depth = pending.pop(0)
        if depth and not is_inside(folder, root):
            continue  # a junction of Windows, which is no link
        with contextlib.suppress(OSError), os.scandir(folder) as listing:
            for entry in sorted(listing, key=lambda entry: entry.name):
                seen += 1
                if seen > MAX_ENTRIES:
                    _LOG.warning("%s holds more than %d entries: not all are listed", root.name, MAX_ENTRIES)
                    return found
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending += [(Path(entry.path), depth + 1)] if depth < MAX_DEPTH else []
                elif entry.name.endswith(suffix) and isfile(entry.path) and _stays(entry, root):
                    found.append(Path(entry.path))
    return found


def _stays(entry: os.DirEntry[str], root: Path) -> bool:
    """Whether an entry of a folder below `root` is below it too. Only a link can lead out; the path of each file is not
    followed, which would take long."""
    return not entry.is_symlink() or is_inside(entry.path, root)


def is_inside(path: str | Path, root: Path) -> bool:
    """Whether `path` is below `root` once all links are followed."""
    real = os.path.realpath(root)
    with contextlib.suppress(ValueError):  # two drives of Windows have nothing in common
        return os.path.commonpath([os.path.realpath(path), real]) == real
    return False


def check_inside(path: Path, root: Path, input_name: str, name: str) -> None:
    """Raise InputError if `path`, which `name` stands for, is not below `root` once all links are followed."""
    if not is_inside(path, root):
        raise InputError(
            f"{input_name} {shown(name)} leads out of its folder through a link: choose another {input_name}"
        )


def chosen(input_name: str, name: object, places: Mapping[str, Path], *, none: str = "", missing: str = "") -> str:
    """Return the key of `places`, a list made just now, that `name` means. Case, Unicode form and slashes may differ.

    Raises InputError for other names, with the message `missing` if `places` is empty. none: the entry of the menu that
    means no choice, for the message.
    """
    match = match_name(name, places)
    if match is not None:
        return match
    if missing and not places:
        raise InputError(missing)
    names = named([*filter(None, [none]), *places])
    raise InputError(f"{input_name} must be one of {names}, got {shown(name)}: press R to refresh the list")


def stamp(place: Path) -> str:
    """Return a text that changes when the model in `place`, a file or a folder, is edited or replaced."""
    files = [path for pattern in ("*", "*/*") for path in place.glob(pattern)] if place.is_dir() else [place]
    wanted = sorted(path for path in files if path.suffix in (".json", ".safetensors"))
    return " ".join(f"{path.relative_to(place)} {file_stamp(path)}" for path in wanted)


def fingerprint(find: Callable[[object], Path | None], name: object, stamp_of: Callable[[Path], str] = stamp) -> str:
    """Return `stamp_of` the file or folder that `find(name)` finds. ComfyUI runs a node again when the text changes.

    It is empty if `name` means no choice, is linked, or is unknown.
    """
    try:
        place = find(name)
        return "" if place is None else stamp_of(place)
    except (FileError, InputError):
        return ""
