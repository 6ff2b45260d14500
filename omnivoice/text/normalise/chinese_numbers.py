"""Number words of Mandarin: cardinals, decimals, digit by digit. Numbers come as ASCII digits, in text.

2 is 二, but before a counted thing 两; at the head of a number it is 两 before 百, 千, 万 and 亿, though ordinals and
percentages have 二百. The words themselves are in chinese.json.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from ...intake.tables import load_table

MAX_DIGITS = 16
"""A longer number is read digit by digit."""


@cache
def table() -> dict[str, Any]:
    """Return chinese.json."""
    return cast("dict[str, Any]", load_table("text/normalise/chinese.json"))


def digits(text: str, *, telephone: bool = False) -> str:
    """Return `text` with each digit as a word: 2024 as 二零二四. With `telephone`, 1 is 幺."""
    return text.translate(_digits(telephone))


@cache
def _digits(telephone: bool) -> dict[int, str]:
    words = {ord(str(value)): name for value, name in enumerate(table()["digits"])}
    return {**words, ord("1"): table()["telephone_one"]} if telephone else words


def cardinal(text: str, *, two: bool = True, hundreds: bool = True) -> str:
    """Return an integer in words; leading zeros do not count.

    two: whether a leading 2 before 千, 万 and 亿 is 两. hundreds: whether it is before 百, too.
    """
    text = text.lstrip("0")
    if len(text) > MAX_DIGITS:
        return digits(text)
    if not text:
        return digits("0")
    words = _spelled(text)
    ten = digits("1") + table()["places"][1]
    if words.startswith(ten):
        words = words[1:]
    large = (*table()["places"][2 if hundreds else 3 :], *table()["groups"][1:])
    if two and words[:1] == digits("2") and words[1:].startswith(large):
        words = table()["two"] + words[1:]
    return words


def _spelled(text: str) -> str:
    """Return 1-16 digits in words, in groups of four; zeros between two other digits are said once."""
    zero, groups = digits("0"), table()["groups"]
    padded = text.zfill(-(-len(text) // 4) * 4)
    parts = [padded[place : place + 4] for place in range(0, len(padded), 4)]
    words = ""
    for number, part in enumerate(parts):
        if part == "0000":
            continue
        name = groups[len(parts) - 1 - number]
        if words and (part[0] == "0" or parts[number - 1] == "0000"):
            words += zero
        words += _group(part) + name
    return _without_doubled(words)


def _without_doubled(words: str) -> str:
    """Return `words` with 亿 said once for a number that has both 万亿 and 亿."""
    small, large = table()["groups"][2], table()["groups"][3]
    head, found, tail = words.partition(large)
    return head + large[:-1] + tail if found and small in tail else words


def _group(part: str) -> str:
    """Return four digits in words, without the zeros at either end."""
    places = table()["places"]
    words = ""
    for place, digit in enumerate(part):
        if digit != "0":
            words += digits(digit) + places[3 - place]
        elif words and part[place + 1 :].strip("0") and not words.endswith(digits("0")):
            words += digits("0")
    return words


def number(text: str, *, two: bool = True, hundreds: bool = True) -> str:
    """Return a number in words: with thousands commas, a decimal point, or zeros that lead a code (007)."""
    whole, point, fraction = text.replace(",", "").partition(".")
    if not point and len(whole) > 1 and whole[0] == "0":
        return digits(whole)
    words = cardinal(whole, two=two, hundreds=hundreds)
    return words + (table()["spoken"]["point"] + digits(fraction) if point else "")


def counted(text: str) -> str:
    """Return a number as it is said before what it counts: 2 as 两."""
    return table()["two"] if text == "2" else number(text)
