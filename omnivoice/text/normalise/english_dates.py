"""English dates: 12/31/2024, 2024-03-05, March 5, 5 March 2024, Mar. 5th, and the short names of months and days.

Where the order of day and month is open, the American one counts: 3/4/2024 is March fourth.
"""

from __future__ import annotations

import re

from .english_counts import DASH
from .english_times import clock
from .english_words import ordinal, pair, year
from .rules import Rule, rule, text_after, text_before, word_after, word_before
from .tables import english_words

_FULL = "January|February|March|April|May|June|July|August|September|October|November|December"
_SHORT = r"(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\b\.?"
_CAPITALS = r"(?:JAN|FEB|MAR|APR|JUN|JUL|AUG|SEPT|SEP|OCT|NOV|DEC)\b\.?"
MONTH = rf"(?:(?:{_FULL}|{_FULL.upper()})\b|{_SHORT}|{_CAPITALS})"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_NTH = r"(?:st|nd|rd|th)?"
_YEAR = r"(?:1[0-9]|20)\d\d"
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_WEEKDAY = r"(?:Mon|Tues?|Wed|Thurs?|Thu|Fri|Sat|Sun)\b"


def month_name(text: str) -> str:
    """Return the full name of a month in any of its short forms."""
    start = text[:3].capitalize()
    return next(name for name in _FULL.split("|") if name.startswith(start))


def _spoken(month: int, day: int, number: str = "") -> str | None:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    return f"{_FULL.split('|')[month - 1]} {ordinal(day)}" + (f", {_year(number)}" if number else "")


def _year(text: str) -> str:
    return year(int(text)) if len(text) == 4 else pair(int(text))


def _iso(match: re.Match[str]) -> str | None:
    return _spoken(int(match["month"]), int(match["day"]), match["year"])


def _iso_time(match: re.Match[str]) -> str | None:
    """2024-03-05T14:30:00Z"""
    words = _spoken(int(match["month"]), int(match["day"]), match["year"])
    zone = " UTC" if match["zone"] == "Z" else ""
    return f"{words}, {clock(int(match['hour']), int(match['minute']))}{zone}" if words else None


def _month_and_year(match: re.Match[str]) -> str:
    return f"{_FULL.split('|')[int(match['month']) - 1]} {_year(match['year'])}"


def _numeric(match: re.Match[str]) -> str | None:
    """12/31/2024, 31.12.2024, 3-4-21: month first where both are possible, but day first with dots."""
    first, second, number = int(match["first"]), int(match["second"]), match["year"]
    if len(number) == 2 and match["mark"] != "/":
        return None
    if first > 12 or (match["mark"] == "." and second <= 12):
        first, second = second, first
    if len(number) == 2 and int(number) >= 30:
        number = f"19{number}"
    return _spoken(first, second, f"20{number}" if len(number) == 2 else number)


def _without_year(match: re.Match[str]) -> str | None:
    """A month and a day, such as "on 3/14", unless it is more likely a fraction."""
    month, day = int(match["month"]), int(match["day"])
    if match[0] == "9/11":
        return None
    if re.search(rf"\b{_WEEKDAY}(?:\.?,|day,) $", text_before(match)):
        return _spoken(month, day)
    cue = word_before(match).lower()
    if (
        cue not in english_words("on_dates")
        or (cue in ("by", "before", "after", "from") and day <= 12 and month < day)
        or word_after(match).lower() in ("of", "cup")
    ):
        return None
    return _spoken(month, day)


def _month_first(match: re.Match[str]) -> str | None:
    """March 5, Mar. 5th, March 5–7, March 5, 2024."""
    words = f"{month_name(match['month'])} {ordinal(int(match['day']))}"
    if match["last"]:
        words += f" to {ordinal(int(match['last']))}"
    if not match["year"]:
        return words
    return f"{words}, {year(int(match['year']))}"


def _day_first(match: re.Match[str]) -> str:
    """5 March 2024, 5th of March, 5–7 March."""
    days = ordinal(int(match["day"]))
    if match["last"]:
        days += f" to {ordinal(int(match['last']))}"
    article = "" if word_before(match).lower() in ("the", "of") else "the "
    article = article.capitalize() if _starts_sentence(match) else article
    words = f"{article}{days} of {month_name(match['month'])}"
    return f"{words}, {_year(match['year'].lstrip(chr(39) + '’'))}" if match["year"] else words


def _starts_sentence(match: re.Match[str]) -> bool:
    return not match.string[: match.start()].rstrip(" \t\"'“‘(") or bool(
        re.search(r"[.!?\n]\s*[\"“(]?$", match.string[max(0, match.start() - 4) : match.start()])
    )


def _month_alone(match: re.Match[str]) -> str | None:
    """The short name of a month before a number, or with a full stop where the sentence goes on."""
    after = text_after(match, 3)
    if re.match(r"\s?['’]?\d", after):
        return month_name(match[0])
    if match[0].endswith(".") and re.match(r"[,;)]| [a-z]", after):
        return month_name(match[0])
    if not match[0].endswith(".") or word_before(match).lower() not in english_words("year_cues"):
        return None
    ends = not after.strip() or after[:1] == "\n" or bool(re.match(r"\s[A-Z]", after))
    return month_name(match[0]) + ("." if ends else "")


def _between(match: re.Match[str]) -> str | None:
    """The dash between two dates, months or days of the week."""
    before = rf"(?:\d(?:st|nd|rd|th)?|\b(?:{_WEEKDAY}|{_FULL}|{_SHORT}|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day)\.?)$"
    return " to " if re.search(before, text_before(match)) else None


def _weekday(match: re.Match[str]) -> str | None:
    name = next(day for day in _DAYS if day.startswith(match["day"][:3]))
    date_follows = re.match(
        rf",? (?:{MONTH} \d|\d{{1,2}} {MONTH}|\d{{1,2}}[:/–-]\d|\d{{1,2}} ?[ap]\.?m\b)", text_after(match)
    )
    in_span = re.match(rf"{DASH}(?:{_WEEKDAY}|\w+day\b)", text_after(match)) or re.search(
        rf"{_WEEKDAY}\.?{DASH}$", match.string[max(0, match.start() - 12) : match.start()]
    )
    if match["dot"] and not date_follows and word_before(match).lower() in english_words("before_weekdays"):
        return name + ("" if re.match(r" [a-z\d]", text_after(match)) else ".")
    return name if date_follows or in_span else None


RULES = (
    rule(
        rf"(?<![\w./-])(?P<year>{_YEAR})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)"
        r"(?::[0-5]\d(?:\.\d+)?)?(?P<zone>Z?)(?![\w:])",
        _iso_time,
    ),
    rule(
        rf"(?<![\w./-])(?P<year>{_YEAR})(?P<mark>[-/.])(?P<month>\d\d?)(?P=mark)(?P<day>\d\d?)"
        r"(?=T\d\d:|[^\w/-]|$)(?!\.\d)",
        _iso,
    ),
    rule(r"(?<![\w./-])(?P<month>0?[1-9]|1[0-2])/(?P<year>(?:19|20)\d\d)(?![\w/-]|\.\d)", _month_and_year),
    rule(
        r"(?<![\w./-])(?P<first>\d\d?)(?P<mark>[-/.])(?P<second>\d\d?)(?P=mark)"
        r"(?P<year>(?:1[6-9]|20)\d\d|\d\d)(?![\w/-]|\.\d)",
        _numeric,
    ),
    rule(rf"(?<![\w./-])(?P<month>0?[1-9]|1[0-2])/(?P<day>{_DAY})(?![\w/-]|\.\d)", _without_year),
    rule(
        rf"\b(?P<month>{MONTH}) ?(?P<day>{_DAY}){_NTH}\b"
        rf"(?:{DASH}(?P<last>{_DAY}){_NTH}\b(?! ?(?:{MONTH})))?(?![,.:]\d|\d|[-/]\d|%)"
        rf"(?:,? (?P<year>{_YEAR})(?![\w:/]|[,.]\d))?",
        _month_first,
    ),
    rule(
        rf"(?<![\w.,:/$£€#-])(?:(?P<day>{_DAY}){_NTH}(?:{DASH}(?P<last>{_DAY}){_NTH})?)"
        rf"(?:-| (?:of )?)(?P<month>{MONTH})(?![a-z])"
        rf"(?:(?:,? |-)(?P<year>{_YEAR}|['’]\d\d)(?![\w:/]|[,.]\d))?",
        _day_first,
    ),
    Rule(re.compile(rf"{DASH}(?=(?:{_WEEKDAY}|{_FULL}|{_SHORT})(?:day)?\b)"), _between),
    rule(rf"\b{_SHORT}", _month_alone),
    rule(rf"\b(?P<day>{_WEEKDAY})(?P<dot>\.?)", _weekday),
)
