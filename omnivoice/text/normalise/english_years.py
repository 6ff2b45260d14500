"""English years: which numbers of four digits are years, and decades, seasons, and years before and after Christ.

A number from 1100 to 2099 without a comma is a year unless the words around it count something: "1500 people", "about
2000 miles". A comma makes it a count: 1,984.
"""

from __future__ import annotations

import re

from .english_counts import DASH, START
from .english_words import cardinal, code, pair, plural, year
from .rules import rule, text_after, text_before, word_after, word_before
from .tables import english_words

_ERA = r"(?:BCE?|B\.C\.(?:E\.)?|AD|A\.D\.|CE|C\.E\.)"
_NOT_PLURAL = re.compile(r"(?:ss|us|is|[’']s)$")


def is_year(match: re.Match[str]) -> bool:
    """Whether a number of four digits without a comma is a year, by the words before and after it."""
    number, before, after = int(match[0]), word_before(match).lower(), word_after(match)
    following = text_after(match)
    if re.search(r"\b(?:pre|post|mid)[-–]$", text_before(match, 8)):
        return True
    if before == "year" or (text_before(match, 1) == "(" and following[:1] == ")" and number < 2100):
        return number >= 1000
    if not (1100 if before not in ("in", "since", "year", "until") else 1000) <= number <= 2099:
        return False
    if re.match(rf"[ \u00a0]?{_ERA}\b", following) or re.search(r"(?:©|\(c\)|['’])\s?$", text_before(match)):
        return True
    if counted := _counts(match, after):
        return before in english_words("year_cues") and not counted.startswith("!") and number >= 1800
    if before in english_words("count_cues"):
        return number % 50 != 0 and number >= 1900
    if before in english_words("year_cues") or before.rstrip(".") in english_words("months"):
        return True
    return number >= 1900 or number % 100 != 0


def _counts(match: re.Match[str], after: str) -> str:
    """Return the plural that the number seems to count, with "!" before it if it is surely counted; else ""."""
    if not after or not re.match(r"[ \u00a0]", text_after(match)):
        return ""
    if after.lower() in english_words("counted"):
        return f"!{after}"
    plural_noun = after.endswith("s") and after.islower() and not _NOT_PLURAL.search(after)
    if not plural_noun or after in english_words("not_counted"):
        return ""
    the = word_before(match).lower() in ("the", "this", "that", "these", "those", "our", "their")
    return "" if the and int(match[0]) >= 1900 else after


def _year(match: re.Match[str]) -> str | None:
    return year(int(match[0])) if is_year(match) else None


def _span(match: re.Match[str]) -> str | None:
    """Two years: 1914–1918, 1914-18, 2019/20."""
    first, second = match["first"], match["second"]
    if len(second) == 2:
        if second == "00" and first[2:] == "99":
            return f"{year(int(first))} to {year(int(first) + 1)}"
        last = int(second) if int(first) < 2000 else int(first[:2] + second)
        if int(first[2:]) >= int(second) or not (1100 <= int(first) <= 2099):
            return None
        words = pair(last) if last < 100 else year(last)
        return f"{year(int(first))} to {words}"
    if not (1000 <= int(first) <= int(second) <= 2099) or int(second) - int(first) > 900:
        return None
    if re.match(r"[ \u00a0]", text_after(match)) and word_after(match).lower() in english_words("counted"):
        return None
    return f"{year(int(first))} to {year(int(second))}"


def _decade(match: re.Match[str]) -> str:
    number = match["decade"]
    if number == "00":
        return "two thousands"
    if len(number) == 2:
        return plural(cardinal(int(number)))
    if number[2:] == "00":
        return plural(year(int(number)))
    return f"{cardinal(int(number[:2]))} {plural(cardinal(int(number[2:])))}"


def _short(match: re.Match[str]) -> str | None:
    """A year with an apostrophe: the summer of '99, the class of '05."""
    before = word_before(match).lower()
    cued = before in english_words("year_cues") + english_words("months")
    return pair(int(match["year"])) if cued or not re.match(r" [a-z]", text_after(match)) else None


def _with_era(match: re.Match[str]) -> str:
    """A year before or after Christ: 44 BC, AD 79."""
    number, era = (match["year"] or match["later"]).replace(",", ""), match["era"] or match["first"]
    words = code(number) if len(number) == 3 and number[1:] != "00" else year(int(number))
    stop = "." if era.endswith(".") and re.match(r"\s*$|\s*\n", text_after(match)) else ""
    era = era.replace(".", "")
    return f"{era} {words}" if match["first"] else f"{words} {era}{stop}"


RULES = (
    rule(r"(?<=BC|CE|AD)(?:[-–]| [-–] )(?=AD|\d)", lambda match: " to "),
    rule(
        rf"(?<![\w.,])(?:(?P<first>AD|A\.D\.) ?(?P<later>\d{{1,4}})\b"
        rf"|(?P<year>\d{{1,2}},\d{{3}}|\d{{1,5}})[ \u00a0]?(?P<era>{_ERA})(?![A-Za-z]))",
        _with_era,
    ),
    rule(rf"{START}(?P<first>1[1-9]\d\d|20\d\d)(?:{DASH}|/)(?P<second>\d{{4}}|\d\d)(?!\w|[,.]\d|[-–/]\d)", _span),
    rule(r"(?<![\w.,])['’‘]?(?P<decade>(?:1\d|20)\d0|[2-9]0|00)['’]?s\b", _decade),
    rule(r"(?<![\w.,])['’‘](?P<year>\d\d)(?![\w'’]|\.\d)", _short),
    rule(r"(?<![\w.,$€£¥#])\d{4}(?![\d\w]|[.,:]\d|%)", _year),
)
