"""Reads pronunciation dictionaries: lines such as `nginx = engine x`, or CSV with a header.

    # a comment
    nginx = engine x                 any case, because the word is in lower case
    NASA = nasa                      exactly so, because it has capitals
    de: Jalapeño = Chalapenjo        for German texts only
    any: Bass = [B EY1 S]            any case all the same; `exact: us = U S` is the opposite
    "a: b" = a to b                  quotes keep what would be read as a language

A CSV has the columns word, replacement, and where needed language and case, separated by commas, semicolons or tabs.
Every error names the line, from 1.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from os import PathLike

from ..errors import InputError, TextError
from ..intake.cancel import cancellable
from ..intake.encodings import read_text_file
from ..intake.limits import MAX_DICTIONARY_BYTES, MAX_DICTIONARY_CHARS, MAX_DICTIONARY_ENTRIES, MAX_ENTRY_CHARS, shown
from ..intake.paths import shown_name
from ..intake.text_in import clean_text
from ..types import Dictionary, DictionaryEntry
from .characters import is_spoken
from .dictionary import entry_key
from .languages import language_id
from .normalise import protected_spans
from .pronunciation import is_phonemes, pronunciation_fault
from .tags import BRACKETED

COLUMNS = ("word", "replacement", "language", "case")
CASES = ("any", "exact")
_QUOTED = r'"((?:[^"]|"")+)"'
_WORD = re.compile(rf"(?:(?P<before>[^\"=:]{{1,80}}):[ \t]+)?(?:{_QUOTED}|(?P<plain>[^=]+?))[ \t]*=[ \t]*(?P<after>.*)")
_SEPARATORS = (",", ";", "\t")


def read_dictionary(path: str | PathLike[str]) -> Dictionary:
    """Return the dictionary in a file, in any usual encoding; raises FileError or TextError, which name the file."""
    text, _ = read_text_file(path, limit=MAX_DICTIONARY_BYTES)
    return parse_dictionary(text, shown_name(path))


def parse_dictionary(text: object, name: str = "dictionary") -> Dictionary:
    """Return the dictionary in a text; raises TextError, which starts with `name` and the line.

    A word that is there twice, with the same language and case, must have one replacement.
    """
    rows = clean_text(text, name=name, limit=MAX_DICTIONARY_CHARS)
    entries: dict[tuple[str, str | None, bool], DictionaryEntry] = {}
    for count, (number, values) in enumerate(cancellable(_rows(rows, name), 256), 1):
        if count > 2 * MAX_DICTIONARY_ENTRIES:  # the same ones may be there again
            raise TextError(f"{name}, line {number}: a dictionary can have at most {MAX_DICTIONARY_ENTRIES} entries")
        try:
            entry = _entry(values, number)
        except InputError as error:
            raise TextError(f"{name}, line {number}: {error}") from None
        first = entries.setdefault((entry_key(entry), entry.language, entry.exact_case), entry)
        if first.replacement != entry.replacement:
            raise TextError(
                f"{name}, line {number}: {shown(entry.word)} has another replacement in line {first.line}: "
                "leave out one of the two"
            )
        if len(entries) > MAX_DICTIONARY_ENTRIES:
            raise TextError(f"{name}, line {number}: a dictionary can have at most {MAX_DICTIONARY_ENTRIES} entries")
    return Dictionary(tuple(entries.values()))


def _rows(text: str, name: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield (line, values by column) of every entry."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        header = _header(line)
        if header:
            yield from _csv_rows(lines[number:], number, *header, name=name)
            return
        break
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, _values(line.strip(), f"{name}, line {number}")


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the separator and the columns that a line names, None if it is no header."""
    for separator in _SEPARATORS:
        cells = [cell.strip(' \t"').lower() for cell in line.split(separator)]
        if {"word", "replacement"} <= {*cells}:
            return separator, cells
    return None


def _csv_rows(
    lines: list[str], before: int, separator: str, columns: list[str], *, name: str
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield the rows below the header, which is line `before`."""
    wrong = [column for column in columns if column not in COLUMNS]
    if wrong or len({*columns}) < len(columns):
        raise TextError(f"{name}, line {before}: the columns can be {', '.join(COLUMNS)}, got {', '.join(columns)}")
    reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=separator, strict=True)
    number = before + 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)) and not cells[0].lstrip().startswith("#"):
                if len(cells) > len(columns):
                    raise TextError(
                        f"{name}, line {number}: {len(cells)} cells, but {len(columns)} columns: put a text with "
                        f"{shown(separator)} in it between double quotes"
                    )
                yield number, dict(zip(columns, cells))
            number = before + 1 + reader.line_num
    except csv.Error as error:
        raise TextError(f"{name}, line {number}: this is not CSV: {error}") from None


def _values(line: str, place: str) -> dict[str, str]:
    """Return the values of a line `language case: word = replacement`."""
    match = _WORD.fullmatch(line)
    if match is None:
        raise TextError(f"{place}: {shown(line)} is no entry: write word = replacement")
    values = {"word": (match[2] or match["plain"]).replace('""', '"'), "replacement": match["after"]}
    before = (match["before"] or "").split()
    if before and before[-1].lower() in CASES:
        values["case"] = before.pop()
    if before:
        values["language"] = " ".join(before)
    return values


def _entry(values: Mapping[str, str], number: int) -> DictionaryEntry:
    """Return a checked entry; raises InputError."""
    word, replacement = (" ".join(values.get(column, "").split()) for column in COLUMNS[:2])
    for column, text in (("word", word), ("replacement", replacement)):
        if not text:
            raise InputError(f"the {column} is empty: write word = replacement")
        if len(text) > MAX_ENTRY_CHARS:
            raise InputError(f"a {column} must be at most {MAX_ENTRY_CHARS} characters, got {len(text)}")
    if protected_spans(word):
        raise InputError(f"{shown(word)} is or has a tag, a pause, a pronunciation or markup, which stays as it is")
    for mark in BRACKETED.finditer(replacement):
        if not is_phonemes(mark[1]) and (fault := pronunciation_fault(mark[1])):
            raise InputError(fault)
    if not any(map(is_spoken, replacement)):
        raise InputError(f"the replacement {shown(replacement)} has no letter and no number in it")
    try:
        language = language_id(values.get("language", "").strip() or None)
    except InputError as error:
        raise InputError(f"{error}; put the word between double quotes if the colon is a part of it") from None
    case = values.get("case", "").strip().lower()
    if case not in ("", *CASES):
        raise InputError(f"the case must be one of {', '.join(CASES)} or empty, got {shown(case)}")
    exact = case == "exact" if case else any(char != char.lower() for char in word)
    return DictionaryEntry(word, replacement, language, exact, number)
