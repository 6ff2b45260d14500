"""English telephone numbers, and other numbers that are read digit by digit in groups: cards, books, accounts."""

from __future__ import annotations

import re

from .english_words import digits
from .rules import rule, text_after, text_before, word_before
from .tables import english_map, english_words


def _phone(match: re.Match[str]) -> str | None:
    """A phone number, group by group; the commas are the pauses that people make."""
    groups = re.findall(r"\d+", match[0])
    if match[0].startswith("+1") and len(match[0]) == 12:
        groups = ["1", match[0][2:5], match[0][5:8], match[0][8:]]
    if not 7 <= sum(map(len, groups)) <= 15 or not _is_phone(match, groups):
        return None
    plus = "plus " if match[0][0] == "+" else ""
    return plus + ", ".join([digits(groups[0]), *map(_group, groups[1:])])


def _group(group: str) -> str:
    return "eight hundred" if group == "800" else digits(group)


def _is_phone(match: re.Match[str], groups: list[str]) -> bool:
    """Whether groups of digits are a phone number: by their sizes, a plus, brackets, or a word such as "call"."""
    sizes = [len(group) for group in groups]
    if match[0][0] in "+(" or sizes in ([3, 3, 4], [1, 3, 3, 4], [3, 4, 4], [4, 3, 4]):
        return True
    cued = bool(set(re.findall(r"[a-z]+", text_before(match, 30).lower())[-4:]) & set(english_words("phone_cues")))
    if sizes == [3, 4]:
        return cued or ("-" in match[0] and (groups[0] == "555" or groups[1][0] == "0"))
    return cued or (groups[0][0] == "0" and (len(groups) >= 3 or sizes == [5, 6]))


def _long(match: re.Match[str]) -> str | None:
    """Ten and more digits without a break, which nobody reads as one number unless it is round."""
    number = match[0]
    if number.endswith("000"):
        return None
    return ", ".join(map(digits, (number[:3], number[3:6], number[6:]))) if len(number) == 10 else digits(number)


def _toll(match: re.Match[str]) -> str:
    """1-800-FLOWERS."""
    area = "eight hundred" if match["area"] == "800" else digits(match["area"])
    return f"{'one, ' if match['one'] else ''}{area}, {match['name'].replace('-', ' ')}"


def _emergency(match: re.Match[str]) -> str | None:
    """911, and other short numbers that are dialled."""
    if re.match(r"[ \u00a0](?:people|times|of|[a-z]+s)\b", text_after(match)):
        return None
    if match[0] == "911":
        return None if word_before(match) in ("Porsche", "Carrera", "Targa") else digits(match[0])
    cued = set(re.findall(r"[a-z]+", text_before(match).lower())[-4:]) & set(english_words("dial_cues"))
    return digits(match[0]) if cued else None


def _short_number(match: re.Match[str]) -> str | None:
    """A number of four to six digits that messages are sent to."""
    words = re.findall(r"[a-z]+", text_before(match).lower())[-4:]
    return digits(match[0]) if set(words) & {"text", "dial", "sms", "texting", "dialing"} else None


def _grouped(match: re.Match[str]) -> str:
    """Numbers of cards, books and accounts."""
    return ", ".join(map(digits, re.findall(r"\d+", match[0])))


def _cued(match: re.Match[str]) -> str:
    """The number after "PIN", "account" or "zip code": digit by digit."""
    cue = match["cue"].rstrip()
    sign = " number" if match["sign"] else ""
    groups = re.split(r"[ -]", match["number"])
    cue = re.sub(r"\b[Nn]o\.", "number", english_map("before_numbers").get(cue, cue))
    return f"{cue}{sign} {', '.join(map(digits, groups))}"


_CUES = (
    r"(?:PIN|pin|[Pp]asscode|[Pp]assword|[Zz]ip code|ZIP code|ZIP|[Zz]ip"
    r"|[Pp]ostcode|[Pp]ostal code|SKU|[Ss]erial|[Aa]ccount"
    r"|[Tt]racking|[Cc]onfirmation|[Rr]eference|[Oo]rder|[Cc]ode|[Ii]nvoice|[Tt]icket|ISBN|SSN|ID|[Ee]xt\.|[Ee]xtension)"
)
_START, _END = r"(?<![\w.,$€£#+-])", r"(?![\w-]|[.,:/]\d|%)"

RULES = (
    rule(rf"(?<!\w)\+\d{{1,3}}(?:[ .-](?:\(\d{{1,4}}\)|\d{{1,8}})){{2,6}}{_END}", _phone),
    rule(
        r"(?<![\w.])(?P<one>1[- ])?\(?(?P<area>8(?:00|33|44|55|66|77|88)|900)\)?[- ]"
        r"(?P<name>[A-Z]{2,10}(?:-[A-Z]{2,8})?)\b",
        _toll,
    ),
    rule(
        rf"{_START}(?:\d{{3}}-\d{{2}}-\d{{4}}|97[89](?:-\d{{1,7}}){{4}}|\d{{4}}(?:[ -]\d{{4}}){{2,4}}){_END}", _grouped
    ),
    rule(rf"{_START}1[- .](?:\(\d{{3}}\) ?|\d{{3}}[-. ])\d{{3}}[-. ]\d{{4}}{_END}|(?<!\w)\+\d{{7,15}}\b", _phone),
    rule(
        rf"(?<![\w.,$€£#])(?:\+\d{{1,3}}[ .-]?)?(?:\(\d{{1,5}}\)[ .-]?)?\d{{2,8}}(?:[ .-]\d{{2,8}}){{1,4}}{_END}",
        _phone,
    ),
)
CUED_RULES = (
    rule(r"(?<![\w.,$€£¥+-])[1-9]\d{9,35}(?![\w,]|\.\d|%)", _long),
    rule(r"(?<=\d )(?:x|ext\.?) ?(?P<number>\d{1,6})(?!\w)", lambda match: f"extension {digits(match['number'])}"),
    rule(
        rf"\b(?P<cue>{_CUES}(?: (?:number|no\.|No\.|code|is|of|was))*:? )(?P<sign>#?)"
        r"(?P<number>\d{3,20}(?:[ -]\d{2,20}){0,5})(?!\w|[.,]\d| (?:items|people|pieces|times))",
        _cued,
    ),
    rule(r"(?<![\w.,])(?:911|988|999|112|[2-8]11|101|111)(?![\w,]|\.\d|[-–/:]\d|%)", _emergency),
    rule(r"(?<![\w.,$])\d{4,6}(?![\w,]|\.\d|[-–/:]\d|%)", _short_number),
)
