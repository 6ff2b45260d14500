"""Cuts a text into parts by the script of its letters, for texts whose language is not given."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby

_LETTERS = re.compile(
    "(?P<ja>[\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fd-\u30ff\u31f0-\u31ff\uff66-\uff9d])"
    "|(?P<zh>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    "|(?P<ko>[\u1100-\u11ff\uac00-\ud7a3]+)"
    "|(?P<en>[A-Za-z\u00aa\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\uff21-\uff3a\uff41-\uff5a]+)"
    r"|(?P<none>(?![\u0391-\u03c9](?![\u0370-\u03ff]))[^\W\d_\u00b2\u00b3\u00b9\u00b5\u00bc-\u00be\u2070-\u24ff]+)"
)
_WORD = re.compile(r"\S+")
_SHORT = 3  # fewer words, or Chinese characters, inside a sentence of another language are spoken as part of it

Run = tuple[int, int, "str | None"]


def language_parts(text: str) -> list[Run]:
    """Return (start, end, language) of the parts of `text`, which together are the whole text.

    One or two words of another script inside a line belong to the language of the line, which most of its words have:
    "Windows 11" in a Chinese sentence is Chinese. Codes and measures, such as A4 and 5km, do not count. What stands
    between the letters of two languages goes to the nearer one, word by word. A text without letters is English.
    """
    runs: list[Run] = []
    place = 0
    for line in text.splitlines(keepends=True):
        runs += _line_runs(line, place)
        place += len(line)
    parts: list[Run] = []
    for number, (_, end, language) in enumerate(runs):
        begin = parts[-1][1] if parts else 0
        stop = _border(text, end, runs[number + 1][0]) if number + 1 < len(runs) else len(text)
        if parts and parts[-1][2] == language:
            parts[-1] = (parts[-1][0], stop, language)
        else:
            parts.append((begin, stop, language))
    return parts or [(0, len(text), "en")]


def _line_runs(line: str, place: int) -> list[Run]:
    """Return (start, end, language) of the words of one line, which starts at `place` in the text."""
    words = [(match.start(), match.end(), _language(match)) for match in _LETTERS.finditer(line)]
    if any(language == "ja" for _, _, language in words):
        words = [(start, end, "ja" if language == "zh" else language) for start, end, language in words]
    counted = Counter(language for start, end, language in words if not _is_code(line, start, end, language))
    most = max(counted, key=lambda language: (counted[language], language == "zh"), default=None)
    runs: list[Run] = []
    for language, grouped in groupby(words, key=lambda word: word[2]):
        group = list(grouped)
        spoken_in = most if len(group) < _SHORT and None not in (language, most) else language
        runs.append((place + group[0][0], place + group[-1][1], spoken_in))
    return runs


def _is_code(line: str, start: int, end: int, language: str | None) -> bool:
    """Whether a Latin word is part of a code or measure, such as A4 and 5km, in a line with other scripts."""
    return language == "en" and any(char.isdigit() for char in line[max(0, start - 1) : start] + line[end : end + 1])


def _language(match: re.Match[str]) -> str | None:
    return None if match.lastgroup == "none" else match.lastgroup


def _border(text: str, end: int, start: int) -> int:
    """Return where the letters that stop at `end` give way to those that start at `start`, between two words."""
    border = end
    for match in _WORD.finditer(text, end, start):
        if match.start() - end > start - match.end():
            break
        border = match.end()
    return border
