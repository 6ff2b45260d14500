"""Kaldi's data folders: `wav.scp` with a path for each id, and `text` with the words for each id.

A path that is a command (`sox a.wav - |`) is never run: its row is rejected. Folders with `segments` are refused, since
their texts belong to parts of the recordings.
"""

from __future__ import annotations

from os.path import isfile
from pathlib import Path

from ..errors import InputError
from ..intake.cancel import cancellable
from ..intake.paths import shown_name
from .manifest_lines import Line, Lines, plain_lines

WAV_SCP, TEXT, SEGMENTS = "wav.scp", "text", "segments"


def read_kaldi(folder: Path) -> Lines:
    """Return a row for each id in `text` or `wav.scp`; raises FileError, InputError for a folder with `segments`."""
    if isfile(folder / SEGMENTS):
        raise InputError(
            f"{shown_name(folder)} has the file {SEGMENTS}, so its texts belong to parts of the recordings: cut them "
            "into files, and leave the file out"
        )
    paths = _by_id(folder / WAV_SCP)
    rows: list[Line] = []
    for number, (name, words) in enumerate(cancellable(_by_id(folder / TEXT), 256), start=1):
        rows.append(Line(name, f"line {number} of {TEXT}", {"text": words}))
    known = dict(paths)
    told = {row.name for row in rows}
    found = [_with_path(row, known.get(row.name)) for row in rows]
    for number, (name, _) in enumerate(paths, start=1):
        if name not in told:
            found.append(Line(name, f"line {number} of {WAV_SCP}", {}, f"it has no line in the file {TEXT}"))
    return Lines(found)


def _by_id(path: Path) -> list[tuple[str, str]]:
    pairs = (line.strip().split(None, 1) for line in cancellable(plain_lines(path), 256))
    return [(pair[0], pair[1] if len(pair) > 1 else "") for pair in pairs]


def _with_path(row: Line, path: str | None) -> Line:
    if path is None:
        return row._replace(reason=f"it has no line in {WAV_SCP}")
    if path.rstrip().endswith("|"):
        return row._replace(reason="its path is a command, which is not run: write the recordings to files")
    return row._replace(values={**row.values, "audio": path})
