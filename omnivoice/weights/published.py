"""The published models that can be fetched: pinned to a commit, every file with its size and SHA-256.

What is unusual: nothing else can be fetched, since there is no input for a repository, an address or a token; and a
file that lies there already is never replaced, whatever its bytes, because it may be somebody's fine-tune. The list
is `manifest.json`; fetching is `intake.fetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypedDict, cast

from ..errors import FileError, InputError
from ..intake.downloads import part_bytes
from ..intake.fetch import PUBLIC_HUB, fetch_file, file_url, hub_endpoint, is_offline
from ..intake.files import sha256_of
from ..intake.folders import check_space, make_folder
from ..intake.limits import shown
from ..intake.tables import load_table

MANIFEST = "weights/manifest.json"


class OnProgress(Protocol):
    """Called with (bytes that are there and right or being checked, bytes in all); may raise to cancel."""

    def __call__(self, done: int, total: int, /) -> None: ...


class _Entry(TypedDict):
    path: str
    size: int
    sha256: str


class _Model(TypedDict):
    repository: str
    revision: str
    license: dict[str, str]
    files: list[_Entry]


@dataclass(frozen=True)
class PublishedFile:
    """path: in the repository, and in the model's folder. size: bytes. sha256: lower-case hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class PublishedModel:
    """One entry of the list. licences: of code, weights, audio_tokenizer."""

    name: str
    repository: str
    revision: str
    licences: Mapping[str, str]
    files: tuple[PublishedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def licence_text(self) -> str:
        """Which licence what has, in one sentence."""
        return (
            f"licences: code {self.licences['code']}; WEIGHTS {self.licences['weights']} (no commercial use); "
            f"audio_tokenizer {self.licences['audio_tokenizer']}"
        )

    def manual_steps(self, place: str) -> str:
        """How to get the files without this program; `place`: what to call the model's folder."""
        names = ", ".join(file.path for file in self.files)
        return (
            f"By hand: open {PUBLIC_HUB}/{self.repository}/tree/{self.revision} in a browser, fetch {names}, and put "
            f"them, audio_tokenizer/ as a folder, into {place}. Where the hub is blocked, set HF_ENDPOINT to a mirror"
        )


def published_models() -> dict[str, PublishedModel]:
    """Name -> model, in the order of the list."""
    models = cast("dict[str, dict[str, _Model]]", load_table(MANIFEST))["models"]
    return {
        name: PublishedModel(
            name=name,
            repository=model["repository"],
            revision=model["revision"],
            licences=dict(model["license"]),
            files=tuple(PublishedFile(**entry) for entry in model["files"]),
        )
        for name, model in models.items()
    }


def published_model(name: object) -> PublishedModel:
    """The model of that name; raises InputError that lists the names."""
    models = published_models()
    if not isinstance(name, str) or name not in models:
        raise InputError(f"model must be one of {', '.join(models)}, got {shown(name)}")
    return models[name]


def download_model(model: PublishedModel, folder: Path, *, place: str, on_progress: OnProgress) -> tuple[str, ...]:
    """Fetch what is missing in `folder`, check everything, and return a line about each file.

    Without a missing file the network is not touched. place: what messages call the folder. Raises FileError that
    says what to do; what `on_progress` raises passes, and the next call continues where this one stopped.
    """
    lines, missing = [], []
    for file, on_bytes in _with_progress(model, on_progress):
        if not (folder / file.path).exists():
            missing.append((file, on_bytes))
        elif _is_right(folder / file.path, file, on_bytes):
            lines.append(f"{file.path}: already here")
        else:
            raise FileError(
                f"{file.path} in {place} has other bytes than published: if it is yours, rename the folder; if a "
                "download broke, remove that file; then run it again"
            )
    if missing:
        try:
            _fetch_missing(model, folder, missing)
        except FileError as error:
            raise FileError(f"{error}. Run it again to resume. {model.manual_steps(place)}") from error
    return (*lines, *(f"{file.path}: fetched, {file.size / 1e6:.1f} MB" for file, _ in missing))


_OnBytes = Callable[[int], None]


def _with_progress(model: PublishedModel, on_progress: OnProgress) -> list[tuple[PublishedFile, _OnBytes]]:
    """Each file with a callback that adds the bytes of the files before it."""
    pairs: list[tuple[PublishedFile, _OnBytes]] = []
    before = 0
    for file in model.files:
        pairs.append((file, partial(_report, on_progress, before, model.size)))
        before += file.size
    return pairs


def _report(on_progress: OnProgress, before: int, total: int, done: int) -> None:
    on_progress(min(before + done, total), total)


def _is_right(path: Path, file: PublishedFile, on_bytes: _OnBytes) -> bool:
    return path.is_file() and path.stat().st_size == file.size and sha256_of(path, on_bytes) == file.sha256


def _fetch_missing(model: PublishedModel, folder: Path, missing: list[tuple[PublishedFile, _OnBytes]]) -> None:
    endpoint = hub_endpoint()
    if is_offline():
        raise FileError(f"{missing[0][0].path} is missing, and HF_HUB_OFFLINE forbids to fetch it")
    for file, _ in missing:
        make_folder((folder / file.path).parent)
    check_space(folder, sum(max(file.size - part_bytes(folder / file.path), 0) for file, _ in missing))
    for file, on_bytes in missing:
        url = file_url(endpoint, model.repository, model.revision, file.path)
        fetch_file(url, folder / file.path, size=file.size, sha256=file.sha256, on_bytes=on_bytes)
