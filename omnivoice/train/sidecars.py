"""Datasets that are a folder of recordings with a transcript for each, in a text file of the same name.

The text file is next to its recording, or in a folder of transcripts beside the folder of recordings (VCTK). Every
recording is a row or rejected, also one of a kind that is not read, and so is a transcript without a recording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from os.path import isdir
from pathlib import Path

from ..errors import FileError, InputError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_TRANSCRIPT_BYTES
from ..intake.paths import shown_name
from .clips import Rejected
from .manifest_lines import read_plain
from .recordings import AUDIO_SUFFIXES, OTHER_SUFFIXES, OUTSIDE, is_within, walk, why_no_audio
from .rows import JSONL, TABLE, Manifest, Row, printable, some_names

# What follows a recording's name in the name of its transcript; the first one found counts. The last two: LibriTTS.
TEXT_SUFFIXES = (".txt", ".lab", ".normalized.txt", ".original.txt")
# Folders that keep recordings and transcripts apart: two paths that differ only in these belong together.
_SEPARATE = frozenset(
    (
        *("wav", "wavs", "wav48", "flac", "audio", "clips", "recordings"),
        *("txt", "text", "texts", "lab", "labs", "transcript", "transcripts", "transcriptions"),
    )
)
_MICROPHONE = re.compile(r"_mic[12]$")  # VCTK has two recordings of each text


@dataclass(eq=False)
class _Found:
    """The files of a folder, by what they are. unread: folders that were not entered, with the reason."""

    recordings: list[Path] = field(default_factory=list)
    texts: dict[Path, list[Path]] = field(default_factory=dict)  # by path, with the suffix in lower case
    strange: list[Path] = field(default_factory=list)  # recordings of kinds that are not read
    others: dict[Path, list[Path]] = field(default_factory=dict)  # by path without its suffix
    unread: dict[Path, str] = field(default_factory=dict)


def read_sidecars(folder: Path, root: Path | None) -> Manifest:
    """Return the recordings of a folder with their transcripts; no row and no rejected one if it has neither.

    root: a folder that every file must be in; None follows links to files and folders.
    """
    found = _files(folder, follow=root is None)
    pairs, notes = _pairs(found, folder)
    used = {text for texts in pairs.values() for text in texts}
    rows: list[Row] = []
    rejected: list[Rejected] = []
    for path, texts in cancellable(pairs.items()):
        name = _name(path, folder)
        try:
            rows.append(Row(name, path, _transcript(path, texts, found.others, root)))
        except (FileError, InputError) as error:
            rejected.append(Rejected(name, str(error)))
    for path in found.strange:
        rejected.append(Rejected(_name(path, folder), why_no_audio(path)))
        used.update(_own_texts(path, found.texts))
    alone = [text for texts in found.texts.values() for text in texts if text not in used]
    rejected += [Rejected(_name(text, folder), _why_alone(text)) for text in alone]
    unused = list(dict.fromkeys(text.name for texts in pairs.values() for text in texts[1:]))
    notes += [f"{some_names(unused)} not read: the recording has another transcript"] if unused else []
    notes += [f"{_name(path, folder)} not entered: {why}" for path, why in found.unread.items()]
    others = [_name(path, folder) for paths in found.others.values() for path in paths]
    lists = [name for name in others if "/" in name and name.lower().endswith((f"/{TABLE}", JSONL))]
    if lists:
        notes.append(f"not read, because a list counts in its own folder only: {some_names(lists)}; choose that folder")
    if others := [name for name in others if name not in lists]:
        notes.append(f"not read, because it is neither a recording nor a transcript: {some_names(others)}")
    return Manifest(shown_name(folder), tuple(rows), tuple(rejected), tuple(notes))


def _files(folder: Path, *, follow: bool) -> _Found:
    found = _Found()
    for path in walk(folder, found.unread, follow=follow):
        suffix = path.suffix.lower()
        if suffix in AUDIO_SUFFIXES:
            found.recordings.append(path)
        elif suffix in TEXT_SUFFIXES:
            found.texts.setdefault(path.with_suffix(suffix), []).append(path)
        elif suffix in OTHER_SUFFIXES:
            found.strange.append(path)
        else:
            found.others.setdefault(path.with_suffix(""), []).append(path)
    return found


def _own_texts(recording: Path, texts: dict[Path, list[Path]]) -> list[Path]:
    """Return the transcripts next to a recording: a.txt, and a.wav.txt, which some programs write."""
    names = [recording.stem + suffix for suffix in TEXT_SUFFIXES] + [recording.name + ".txt"]
    return [text for name in names for text in texts.get(recording.with_name(name), ())]


def _pairs(found: _Found, folder: Path) -> tuple[dict[Path, list[Path]], list[str]]:
    """Return {recording: its transcripts, the one to read first}, and notes on those in another folder."""
    pairs = {path: _own_texts(path, found.texts) for path in cancellable(found.recordings)}
    used = {text for texts in pairs.values() for text in texts}
    free = [text for texts in found.texts.values() for text in texts if text not in used]
    by_key: dict[tuple[str, ...], list[Path]] = {}
    for text in free:
        by_key.setdefault(_key(text, folder), []).append(text)
    moved: list[str] = []
    keys = {path: _key(path, folder) for path, texts in pairs.items() if not texts}
    for path, key in keys.items():
        if len(by_key.get(key, ())) == 1:
            pairs[path] = by_key[key]
            moved.append(_name(by_key[key][0], folder))
    return pairs, [
        f"transcripts from another folder than the recording's: {some_names(list(dict.fromkeys(moved)))}"
    ] if moved else []


def _key(path: Path, folder: Path) -> tuple[str, ...]:
    parts = path.relative_to(folder).parent.parts
    return (*(part for part in parts if part.casefold() not in _SEPARATE), _MICROPHONE.sub("", path.stem))


def _why_alone(text: Path) -> str:
    """Return why a transcript has no recording."""
    places = (text.with_suffix(suffix) for suffix in AUDIO_SUFFIXES)
    taken = next((place for place in places if isdir(place)), None)
    return "it has no recording of the same name" if taken is None else f"{shown_name(taken)} is a folder, not a file"


def _transcript(path: Path, texts: Sequence[Path], others: dict[Path, list[Path]], root: Path | None) -> str:
    if not texts:
        beside = [shown_name(other) for other in others.get(path.with_suffix(""), ())]
        unread = f"; {some_names(beside)} is not read" if beside else ""
        raise InputError(f"it has no transcript: write its words into {shown_name(path.with_suffix('.txt'))}{unread}")
    if root is not None and not (is_within(path, root) and is_within(texts[0], root)):
        raise InputError(OUTSIDE)
    return read_plain(texts[0], limit=MAX_TRANSCRIPT_BYTES)


def _name(path: Path, folder: Path) -> str:
    return printable(path.relative_to(folder).as_posix())
