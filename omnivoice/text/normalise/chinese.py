"""Chinese: numbers, symbols and codes in Mandarin words, simplified or traditional as the text is.

The rules are data, in chinese.json; `chinese_grammar` applies them. They see a copy of the text with full-width digits
and signs as ASCII and with traditional characters as simplified ones, character by character. Whether words come out
traditional is decided by the characters that only one of the two ways of writing has. In traditional text 1 is never
幺 in telephone numbers, because Taiwan and Hong Kong do not say so. A whole English phrase follows the English rules.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from functools import cache
from itertools import accumulate

from ...intake.cancel import cancellable
from ...text.characters import has_han
from . import english
from .chinese_grammar import SLOT, Grammar, matches
from .chinese_numbers import table
from .chinese_readers import READERS
from .result import Replacement

_HIDDEN = "\ufffc"  # stands for what the rules must not see
_MAX_PASSES = 8
_FULL_WIDTH = {0xFF01 + place: chr(0x21 + place) for place in range(94) if chr(0x21 + place) not in ",.;!?"}
_SAME = {"−": "-", "–": "-", "‐": "-", "‑": "-", "∼": "~", "〜": "~", "˜": "~", "∶": ":", "￥": "¥", "￡": "£"}
_SAME |= {"\N{OHM SIGN}": "Ω", "\N{NO-BREAK SPACE}": " ", "\N{IDEOGRAPHIC SPACE}": " ", "✕": "×", "✖": "×", "⁄": "/"}
_FULL_STOP = re.compile("(?<=[0-9０-９])[．](?=[0-9０-９])|(?<=[０-９])，(?=[０-９]{3}(?![０-９]))")
_ASCII = re.compile("[ -~‘’“”]{8,}")
_NUMBER_FIRST = re.compile("[^ A-Za-z]{0,20}[0-9][^ ]{0,20}")
_NUMBER_LAST = re.compile("[^ A-Za-z]{0,20}[0-9][^ A-Za-z]{0,20}$")
_WORD = re.compile("[A-Za-z][a-z]*(?:['’][a-z]+)?(?![A-Za-z0-9])")


def replacements(text: str, *, traditional: bool = False) -> list[Replacement]:
    """Return what is spoken for each number, symbol and code of a Chinese text.

    traditional: how words are written if no character of the text decides it. The rules run again over their result
    until nothing is left to change, so that a second call has nothing to do.
    """
    found = _found(text)
    if not found:
        return []
    pieces = [Replacement(place, place + 1, char) for place, char in enumerate(text)]
    for _ in range(_MAX_PASSES):
        pieces = _merged(pieces, found)
        found = _found("".join(piece.spoken for piece in pieces))
        if not found:
            break
    changed = [piece for piece in pieces if piece.spoken != text[piece.start : piece.end]]
    if is_traditional(text, default=traditional):
        changed = [Replacement(piece.start, piece.end, _written_traditionally(piece.spoken)) for piece in changed]
    return changed


def _found(text: str) -> list[Replacement]:
    """Return what one pass of the rules changes in `text`, in order; new words are simplified."""
    found: list[Replacement] = []
    view = list(_view(text))
    for start, end in _english_phrases(text):
        part = english.replacements(text[start:end])
        found += [Replacement(start + one.start, start + one.end, one.spoken) for one in part]
        view[start:end] = _HIDDEN * (end - start)
    for rule, match in cancellable(matches("".join(view))):
        found.append(Replacement(match.start(), match.end(), _spoken(rule, match)))
    changed = [one for one in found if one.spoken != text[one.start : one.end]]
    return sorted(changed, key=lambda one: one.start)


def _spoken(rule: Grammar, match: re.Match[str]) -> str:
    return SLOT.sub(lambda slot: READERS[slot[2]](match[slot[1]], match), rule.template(match))


def _merged(pieces: list[Replacement], found: list[Replacement]) -> list[Replacement]:
    """Return `pieces`, which together are a text, after the changes `found` in what they are spoken as.

    A change takes whole pieces: what it leaves of them stays beside its words.
    """
    text = "".join(piece.spoken for piece in pieces)
    places = list(accumulate((len(piece.spoken) for piece in pieces), initial=0))
    merged: list[Replacement] = []
    number, waiting = 0, deque(found)
    while waiting:
        first, last = bisect_right(places, waiting[0].start) - 1, bisect_left(places, waiting[0].end)
        place, spoken = places[first], ""
        while waiting and waiting[0].start < places[last]:
            change = waiting.popleft()
            last = max(last, bisect_left(places, change.end))
            spoken += text[place : change.start] + change.spoken
            place = change.end
        spoken += text[place : places[last]]
        merged += [*pieces[number:first], Replacement(pieces[first].start, pieces[last - 1].end, spoken)]
        number = last
    return [*merged, *pieces[number:]]


def is_traditional(text: str, *, default: bool = False) -> bool:
    """Whether more characters of `text` exist only in traditional writing than only in simplified writing.

    GB 2312 and Big5 are the character sets of the two, and are what decides it; `default` if neither has more.
    """
    balance = sum(_encodes(char, "big5") - _encodes(char, "gb2312") for char in text if has_han(char))
    return balance > 0 if balance else default


@cache
def _encodes(char: str, name: str) -> bool:
    try:
        char.encode(name)
    except UnicodeEncodeError:
        return False
    return True


@cache
def _traditional() -> dict[int, str]:
    pairs = table()["traditional"]
    return {ord(simple): written for simple, written in zip(pairs["from"], pairs["to"], strict=True)}


def _written_traditionally(spoken: str) -> str:
    for word, other in table()["traditional_words"].items():
        spoken = spoken.replace(word, other)
    return spoken.translate(_traditional())


@cache
def _simplified() -> dict[int, str]:
    pairs = table()["simplified"]
    return {ord(written): simple for written, simple in zip(pairs["from"], pairs["to"], strict=True)}


def _view(text: str) -> str:
    """Return `text` as the rules see it, of the same length."""
    text = _FULL_STOP.sub(lambda mark: "." if mark[0] == "．" else ",", text)
    return text.translate(_FULL_WIDTH | {ord(char): same for char, same in _SAME.items()} | _simplified())


def _english_phrases(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of the phrases that are clearly English.

    Such a phrase has two words or more, one of them a word of English grammar, such as "the". A number that touches a
    Chinese character is not part of it.
    """
    found: list[tuple[int, int]] = []
    grammar = frozenset(table()["words"]["ascii_function"].split())
    for run in _ASCII.finditer(text):
        words = {word[0].lower() for word in _WORD.finditer(text, *run.span())}
        if len(words) < 2 or not words & grammar:
            continue
        start, end = run.span()
        if start and has_han(text[start - 1]) and (number := _NUMBER_FIRST.match(run[0])):
            start += number.end()
        if has_han(text[end : end + 1]) and (number := _NUMBER_LAST.search(run[0])):
            end -= len(number[0])
        found.append((start, end))
    return found
