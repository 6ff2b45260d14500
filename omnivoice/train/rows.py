"""The rows of a dataset before its recordings are read: what a list or a folder says about each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..types import Waveform
from .clips import Rejected

TABLE, JSONL = "metadata.csv", ".jsonl"
WANTED = (
    f"a dataset is a folder with {TABLE} or another list of recordings and texts (.csv, .tsv, .list, {JSONL} ...), or "
    "with audio files (.wav, .flac, .ogg, .mp3 ...), each with a transcript of the same name (.txt or .lab)"
)
_MAX_NAME_CHARS = 80
_MAX_NAMED = 5


@dataclass(frozen=True, eq=False)
class Row:
    """One recording and its labels, as the source gives them; an empty label is None.

    name: for messages. audio: a file, or the samples. clean_start: in frames. place: where a list has it, such as
    "line 3"; empty without a list.
    """

    name: str
    audio: Path | Waveform
    text: str
    language: str | None = None
    instruct: str | None = None
    pinyin: str | None = None
    clean_start: int | None = None
    place: str = ""

    @property
    def label(self) -> str:
        """The name of the row and its place in the list, for reports."""
        return placed(self.name, self.place)


@dataclass(frozen=True, eq=False)
class Manifest:
    """The rows of a source, the rejected rows, and notes on anything else worth knowing."""

    source: str
    rows: tuple[Row, ...]
    rejected: tuple[Rejected, ...] = ()
    notes: tuple[str, ...] = ()


def placed(name: str, place: str) -> str:
    """Return a name with its place in a list, if it has one."""
    return f"{name} ({place})" if place and name != place else name


def printable(text: str) -> str:
    """Return a short printable name for messages."""
    return "".join(char if char.isprintable() else "?" for char in text[-_MAX_NAME_CHARS:])


def some_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    return ", ".join(names[:_MAX_NAMED]) + (f" and {len(names) - _MAX_NAMED} more" * (len(names) > _MAX_NAMED))
