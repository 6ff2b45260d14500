"""Lists without a header: which column is the recording, the text and the language.

The recording is the column that names files which exist. The text is found by how its cells look, so that neither a
speaker nor a language is ever read as the text: LJSpeech's id|text|normalized text, path|speaker|text,
path|text|speaker, GPT-SoVITS's path|speaker|language|text. A list whose columns cannot be told apart is refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import InputError
from .list_columns import FIRST_ONLY, split_cells

_SAMPLE = 200  # lines that are looked at, spread over the list
_COLUMNS = 8  # columns in which a recording may be
_GPT_SOVITS = 2  # the column of the language in its lists
_NUMBERS = re.compile(r"[-+]?\d[\d.,:\s]*")
_LANGUAGE = re.compile(r"[a-z]{2}|yue|[a-z]{2}-[a-z]{2}", re.IGNORECASE)
_SPOKEN_BY_GPT_SOVITS = frozenset(["zh", "cn", "ja", "jp", "en", "ko", "yue"])
_LABEL = re.compile(r"\S{0,39}[^\s.,!?;:…。，！？、]")  # one word without an end of sentence
_NAME = re.compile(r"[^\s,!?;:…。，！？、]+( [^\s,!?;:…。，！？、]+){0,3}(?<![.…])")  # a few words without a comma
_UNSPACED = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")  # scripts without spaces between words
_LONGEST_NAME = 4  # letters of a name in such a script
_SAME_SHARE = 0.3  # of a normalized text, in pairs of letters that its text has as well

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Layout:
    """The separator, the number of columns, and what is in which column, counted from 0.

    spare: a second column with the text, for rows in which the first is empty.
    """

    mark: str
    width: int
    audio: int
    text: int
    spare: int | None = None
    language: int | None = None

    def notes(self, file: str) -> tuple[str, ...]:
        """Return how a list of more than two columns is read, and nothing for a simpler one."""
        if self.width < 3:
            return ()
        known = {self.audio: "the recording", self.text: "the text"}
        if self.spare is not None:
            known |= {self.text: "the normalized text, which is preferred", self.spare: "the text"}
        if self.language is not None:
            known[self.language] = "the language"
        unused = [str(place + 1) for place in range(self.width) if place not in known]
        columns = [f"column {place + 1} is {known[place]}" for place in sorted(known)]
        rest = f"; not used: column {', '.join(unused)}" if unused else ""
        return (f"{file} has no header, and is read like this: {', '.join(columns)}{rest}",)


def find_layout(lines: Sequence[str], marks: Sequence[str], has: Callable[[str], bool], file: str) -> Layout:
    """Return the layout of a list; has: whether a recording of that name exists.

    Raises InputError for a list whose columns cannot be told apart, or that names no recordings at all.
    """
    sample = lines[:: max(1, len(lines) // _SAMPLE)]
    best: tuple[int, str, int, Rows] = (0, "", 0, [])
    for mark in (*marks, *FIRST_ONLY):
        rows: Rows = [cells for line in sample if len(cells := _cells(line, mark)) > 1]
        for audio in range(min(_COLUMNS, max(map(len, rows), default=0))):
            named = [cells for cells in rows if audio < len(cells) and has(cells[audio])]
            if len(named) > best[0]:
                best = len(named), mark, audio, named
    if not best[0]:  # no recording exists, so the separator is the one that most lines have
        counts = [(sum(mark in line for line in sample), mark) for mark in marks]
        mark = max(counts, key=lambda pair: pair[0])[1]
        best = 0, mark, 0, [cells for line in sample if len(cells := _cells(line, mark)) > 1]
        _refuse_labels(best[3], mark, file)
    _, mark, audio, rows = best
    return _layout(rows, mark, audio, file)


def _cells(line: str, mark: str) -> list[str]:
    """Return the stripped cells of a line, none if a quote in it is not closed."""
    try:
        return [cell.strip() for cell in split_cells(line, mark)]
    except InputError:
        return []


def _refuse_labels(rows: Rows, mark: str, file: str) -> None:
    """Raise InputError for the times and texts of one recording, as Audacity exports labels."""
    if mark == "\t" and rows and all(_NUMBERS.fullmatch(cells[0]) and _NUMBERS.fullmatch(cells[1]) for cells in rows):
        raise InputError(
            f"{file} has times and no recordings, like labels of Audacity: export the parts as files of their own, and "
            "write a list with the name and the text of each"
        )


def _layout(rows: Rows, mark: str, audio: int, file: str) -> Layout:
    width = _width(rows, mark)
    if width == 3 and mark not in ",;":
        third = sum(len(cells) > 2 and bool(cells[2]) for cells in rows)
        if third and audio == 0 and _same(rows, 1, 2):
            return Layout(mark, 3, audio, 2, spare=1)
        width = 3 if third * 2 >= len(rows) else 2  # bars in a few texts are no column
    values = {place: [cells[place] for cells in rows if len(cells) > place and cells[place]] for place in range(width)}
    others = [place for place in range(width) if place != audio]
    if len(others) < 2:
        return Layout(mark, max(width, 2), audio, others[0] if others else 1 - audio)
    codes = [place for place in others if _is_language(values[place], width)]
    between = [place for place in codes if place + 1 < width]
    language = _GPT_SOVITS if _GPT_SOVITS in between else next(iter(between[-1:] or codes), None)
    clear = [place for place in others if place != language and _is_text(values[place])]
    if language is not None and language + 1 < width and not (set(clear) & set(range(language))):
        return Layout(mark, width, audio, language + 1, language=language)
    rest = [place for place in others if place != language]
    unsure = mark in ",;" and any(_may_be_cut_off(values[place]) for place in rest if place not in clear)
    if (len(clear) == 1 and not unsure) or len(rest) == 1:
        return Layout(mark, width, audio, (clear or rest)[0], language=language)
    columns = " and ".join(str(place + 1) for place in (clear if len(clear) > 1 else rest))
    raise InputError(
        f"{file} with {width} columns has no header, and which one is the text is not clear (it could be {columns}): "
        "add a first line with names of the columns, audio and text among them" + _QUOTES * (mark in ",;")
    )


_QUOTES = ", or put texts that have the separator in quotes"


def _width(rows: Rows, mark: str) -> int:
    """Return the number of columns: the most frequent one, or up to 3 if no row has more."""
    counts = Counter(map(len, rows))
    if not counts:
        return 2
    if mark not in ",;" and max(counts) <= 3:
        return max(counts)
    return max(counts, key=lambda width: (counts[width], -width))


def _is_language(values: Sequence[str], width: int) -> bool:
    codes = {value.casefold() for value in values}
    if not codes or not all(map(_LANGUAGE.fullmatch, codes)):
        return False
    return codes <= _SPOKEN_BY_GPT_SOVITS or width > 3


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column is clearly the text, and not numbers, names of speakers or other labels."""
    different = len(set(cells))
    few = different == 1 < len(cells) or (len(cells) >= 8 and different * 4 <= len(cells))
    if all(map(_NUMBERS.fullmatch, cells)) or (few and all(map(_NAME.fullmatch, cells))):
        return False
    if all(map(_UNSPACED.search, cells)) and sum(map(len, cells)) > _LONGEST_NAME * len(cells):
        return True
    return not all(map(_is_name, cells))


def _may_be_cut_off(cells: Sequence[str]) -> bool:
    """Whether a column of words that differ may be the end of texts that have the separator inside."""
    return not all(map(_NUMBERS.fullmatch, cells)) and len(set(cells)) * 2 > len(cells)


def _is_name(cell: str) -> bool:
    """Whether a cell is one word or a name of a few words, of which at least half have a capital."""
    words = cell.split()
    capitals = sum(word[0].isupper() for word in words)
    return bool(_LABEL.fullmatch(cell)) or (bool(_NAME.fullmatch(cell)) and capitals * 2 >= len(words))


def _same(rows: Rows, first: int, second: int) -> bool:
    """Whether two columns say the same in most rows, as a text and its normalized form do."""

    def pairs(text: str) -> set[str]:
        letters = "".join(filter(str.isalnum, text.casefold()))
        return {letters[i : i + 2] for i in range(len(letters) - 1)} or {letters}

    both = [(pairs(cells[first]), pairs(cells[second])) for cells in rows if len(cells) > second and cells[second]]
    shares = [len(one & other) / max(len(one), len(other)) for one, other in both]
    return bool(shares) and sum(shares) / len(shares) >= _SAME_SHARE
