"""Datasets that are a folder of recordings with a transcript beside each, in a text file of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import isdir
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.limits import MAX_TRANSCRIPT_BYTES
from ..intake.paths import shown_name
from .clips import Rejected
from .manifest_lines import read_plain
from .recordings import AUDIO_SUFFIXES, OUTSIDE, is_within, walk
from .rows import WANTED, Manifest, Row, printable, some_names

TEXT_SUFFIXES = (".txt", ".lab")  # if a recording has both, the first one counts


def read_sidecars(folder: Path, root: Path) -> Manifest:
    recordings: list[Path] = []
    texts: dict[Path, list[Path]] = {}
    others: dict[Path, Path] = {}
    unread: dict[Path, str] = {}
    for path in walk(folder, unread):
        suffix = path.suffix.lower()
        if suffix in AUDIO_SUFFIXES:
            recordings.append(path)
        elif suffix in TEXT_SUFFIXES:
            texts.setdefault(path.with_suffix(""), []).append(path)
        else:
            others.setdefault(path.with_suffix(""), path)
    if not recordings and not texts:
        raise InputError(f"{shown_name(folder)} contains no dataset: {WANTED}")

    def name_of(path: Path) -> str:
        return printable(path.relative_to(folder).as_posix())

    rows: list[Row] = []
    rejected: list[Rejected] = []
    unused: list[str] = []
    used: set[Path] = set()
    for path in recordings:
        stem = path.with_suffix("")
        own = sorted(texts.get(stem, ()), key=lambda text: (TEXT_SUFFIXES.index(text.suffix.lower()), text.name))
        try:
            rows.append(Row(name_of(path), path, _transcript(path, own, root)))
        except (FileError, InputError) as error:
            rejected.append(Rejected(name_of(path), str(error)))
        if stem not in used:
            unused += [text.name for text in own[1:]]
            used.add(stem)
    orphans = [path for stem, paths in texts.items() if stem not in used for path in paths]
    rejected += [Rejected(name_of(path), _why_alone(path, others)) for path in orphans]
    notes = [f"{some_names(unused)} not read: the recording has another transcript"] if unused else []
    notes += [f"{name_of(path)} not entered: {why}" for path, why in unread.items()]
    return Manifest(shown_name(folder), tuple(rows), tuple(rejected), tuple(notes))


def _why_alone(text: Path, others: Mapping[Path, Path]) -> str:
    """Return why a transcript has no recording, where there is something else of its name."""
    stem = text.with_suffix("")
    if stem in others:
        return f"{shown_name(others[stem])} is not an audio file ({', '.join(AUDIO_SUFFIXES)}): convert it to WAV"
    places = (stem.with_name(stem.name + suffix) for suffix in AUDIO_SUFFIXES)
    taken = next((place for place in places if isdir(place)), None)
    return "it has no recording of the same name" if taken is None else f"{shown_name(taken)} is a folder, not a file"


def _transcript(path: Path, texts: Sequence[Path], root: Path) -> str:
    if not texts:
        raise InputError(f"it has no transcript: write its words into {shown_name(path.with_suffix('.txt'))}")
    if not is_within(path, root) or not is_within(texts[0], root):
        raise InputError(OUTSIDE)
    return read_plain(texts[0], limit=MAX_TRANSCRIPT_BYTES)
