"""The published models that can be downloaded, each pinned to a commit, with the size and SHA-256 of every file.

Nothing else can be downloaded: there is no input for a repository, an address or a token. An existing file is never
replaced, because it may be somebody's fine-tune. `manifest.json` is the list; `intake.downloads` uses the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

from ..errors import FileError, InputError
from ..intake.downloads import PUBLIC_HUB, check_hub, download_file, part_bytes
from ..intake.files import sha256_of
from ..intake.folders import check_space, make_folder
from ..intake.limits import shown, shown_size
from ..intake.locks import only_run
from ..intake.tables import load_table

OnProgress = Callable[[int, int], None]  # bytes received or checked so far, bytes in total; may raise to cancel
_OnBytes = Callable[[int], None]
LOCK = "download.lock"


@dataclass(frozen=True)
class PublishedFile:
    """path: in the repository and in the model's folder. size: in bytes. sha256: in lower-case hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PublishedModel:
    """One entry of the list. licences: of code, weights and audio_tokenizer."""

    name: str
    repository: str
    revision: str
    licences: Mapping[str, str]
    files: tuple[PublishedFile, ...]

    @property
    def size(self) -> int:
        """Return the bytes of all files together."""
        return sum(file.size for file in self.files)

    def licence_text(self) -> str:
        """Return the licence of each part, in one sentence."""
        return (
            f"licences: code {self.licences['code']}; WEIGHTS {self.licences['weights']} (no commercial use); "
            f"audio_tokenizer {self.licences['audio_tokenizer']}"
        )

    def manual_steps(self, place: str) -> str:
        """Return how to get the files without this program. place: what to call the model's folder."""
        names = ", ".join(file.path for file in self.files)
        return (
            f"To do it by hand, open {PUBLIC_HUB}/{self.repository}/tree/{self.revision} in a browser, download "
            f"{names}, and put them into {place}, keeping the folder audio_tokenizer/. Where the hub is blocked, set "
            "HF_ENDPOINT to a mirror"
        )


_File = tuple[PublishedFile, _OnBytes]


def published_models() -> dict[str, PublishedModel]:
    """Return the models by name, in the order of the list."""
    table = cast("dict[str, dict[str, dict[str, Any]]]", load_table("weights/manifest.json"))
    models: dict[str, PublishedModel] = {}
    for name, model in table["models"].items():
        files = tuple(PublishedFile(**entry) for entry in model["files"])
        models[name] = PublishedModel(name, model["repository"], model["revision"], model["license"], files)
    return models


def published_model(name: object) -> PublishedModel:
    """Return the model of that name; raises InputError, which lists the names."""
    models = published_models()
    if not isinstance(name, str) or name not in models:
        raise InputError(f"model must be one of {', '.join(models)}, got {shown(name)}")
    return models[name]


def download_model(model: PublishedModel, folder: Path, *, place: str, on_progress: OnProgress) -> tuple[str, ...]:
    """Download the files missing from `folder`, check all of them, and return a line about each.

    If no file is missing, the network is not used. While another run downloads into the folder, this one waits, and
    then uses its files. place: what messages call the folder. Raises FileError, which says what to do. An exception
    that `on_progress` raises passes through; the next call resumes.
    """
    lines, missing = _sorted_out(_with_progress(model, on_progress), folder, place)
    if not missing:
        return tuple(lines)
    try:
        check_hub()
        with only_run(make_folder(folder), LOCK, on_wait=partial(missing[0][1], 0)):
            more, missing = _sorted_out(missing, folder, place)
            _download_missing(model, folder, missing)
    except FileError as error:
        raise FileError(f"{error}. Run this again to resume. {model.manual_steps(place)}") from error
    return (*lines, *more, *(f"{file.path}: downloaded, {shown_size(file.size)}" for file, _ in missing))


def _sorted_out(files: Sequence[_File], folder: Path, place: str) -> tuple[list[str], list[_File]]:
    """Return (a line about each file that is there, the files that are missing); raises FileError for another file."""
    lines, missing = [], []
    for file, on_bytes in files:
        if not (folder / file.path).exists():
            missing.append((file, on_bytes))
        elif _is_as_published(folder / file.path, file, on_bytes):
            lines.append(f"{file.path}: already here")
        else:
            raise FileError(
                f"{file.path} in {place} differs from the published file: rename the folder if the file is yours, or "
                "remove the file if it is from a broken download; then run this again"
            )
    return lines, missing


def _with_progress(model: PublishedModel, on_progress: OnProgress) -> list[_File]:
    """Return each file with a callback that adds the bytes of the files before it."""
    starts = accumulate((file.size for file in model.files), initial=0)
    return [(file, partial(_report, on_progress, start, model.size)) for file, start in zip(model.files, starts)]


def _report(on_progress: OnProgress, before: int, total: int, done: int) -> None:
    on_progress(min(before + done, total), total)


def _is_as_published(path: Path, file: PublishedFile, on_bytes: _OnBytes) -> bool:
    return path.is_file() and path.stat().st_size == file.size and sha256_of(path, on_bytes) == file.sha256


def _download_missing(model: PublishedModel, folder: Path, missing: Sequence[_File]) -> None:
    for file, _ in missing:
        make_folder((folder / file.path).parent)
    remaining = sum(max(file.size - part_bytes(folder / file.path), 0) for file, _ in missing)
    check_space(folder, remaining, action="downloaded")
    for file, on_bytes in missing:
        source, target = (model.repository, model.revision, file.path), folder / file.path
        download_file(*source, target, size=file.size, sha256=file.sha256, on_bytes=on_bytes)
