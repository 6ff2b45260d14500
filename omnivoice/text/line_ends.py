"""Words that a hyphen cuts at the end of a line, put together again: `infor-` and `mation` are one word.

No dictionary is asked. The hyphen goes when both parts look like parts of one word: letters only, in one case (the
first may be a capital), and the first part has more than one letter. It stays, without a space, when the text spells
the word with it elsewhere, when a part is in a short list of words that form compounds (well-known, sugar-free, but
hardly), and in all other words (state-of-the-art, 1990-1995, Jean-Paul, e-mail). Nothing is joined before "and" or "or"
(pre- and post-war), or where a lower-case word meets a capital.
"""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from ..intake.tables import load_table

_MAX_PART = 60  # characters of a word that are looked at
_LINE_END = re.compile(r"([-‐¬])[ \t]*\n[ \t]*(?=\w)")
_WORD = r"[^\W_]+(?:['’‐-][^\W_]+)*"
_BEFORE, _WORDS = re.compile(_WORD + "$"), re.compile(_WORD)


@cache
def _list(name: str) -> frozenset[str]:
    return frozenset(cast("dict[str, str]", load_table("text/compounds.json"))[name].split())


def join_cut_words(text: str) -> str:
    """Return `text` with words that were cut at line ends (LF) whole, on the first of the two lines."""
    if not _LINE_END.search(text):
        return text
    words = set(_WORDS.findall(text.lower().replace("‐", "-")))

    def join(match: re.Match[str]) -> str:
        before = _BEFORE.search(text[max(0, match.start() - _MAX_PART) : match.start()])
        after = _WORDS.match(text[match.end() : match.end() + _MAX_PART])
        if before is None or after is None:
            return match[0]
        return _hyphen(before[0], after[0], match, words)

    return _LINE_END.sub(join, text)


def _hyphen(before: str, after: str, cut: re.Match[str], words: set[str]) -> str:
    """Return what joins the two parts: nothing, the hyphen, or the cut as it is."""
    if cut[1] == "¬":  # a soft hyphen, as some programs export it
        return ""
    if after.lower() in _list("suspended") or (before.islower() and after[0].isupper()):
        return cut[0]
    if f"{before}-{after}".lower() in words:
        return cut[1]
    if f"{before}{after}".lower() in words:
        return ""
    letters = re.sub("['’]", "", before).isalpha() and re.sub("['’]", "", after).isalpha() and len(before) > 1
    one_case = (before[1:].islower() and after.islower()) or (before.isupper() and after.isupper())
    first, second = before.lower() in _list("first"), after.lower() in _list("second")
    compound = second or (first and after.lower() not in _list("endings"))
    return "" if letters and one_case and not compound else cut[1]
