"""English clock times, durations, ratios with a colon, and chapter and verse."""

from __future__ import annotations

import re

from .english_counts import DASH, spoken_number
from .english_words import cardinal, pair
from .rules import rule, text_after, text_before, word_after, word_before
from .tables import english_words

_HALF = r"(?P<half>[aApP])\.?[mM]\b(?P<dot>\.?)"
_HOURS = ("hour", "minute", "second")
_RATIO = re.compile(
    r"\b(?:ratios?|aspect|odds|scale|mix|mixture|proportions?|dilut\w+|solution|gear(?:ing)?|leverage|concentrate)\b"
)


def clock(hour: int, minute: int) -> str:
    """Return a time of day in words: "three oh five", "three o'clock", "fifteen hundred"."""
    if minute:
        return f"{cardinal(hour)} {pair(minute)}"
    if hour in (0, 24):
        return "midnight"
    return cardinal(hour) + (" hundred" if hour > 12 else " o'clock")


def _half(match: re.Match[str]) -> str:
    """AM or PM, with the full stop if it also ends the sentence."""
    ends = match["dot"] and re.match(r"\s*$|\n|[\"”’)]|\s+(?:[A-Z]\w*)", text_after(match))
    if ends and (after := word_after(match)):
        ends = after in english_words("starters") or text_after(match)[:1] == "\n"
    return f"{match['half'].upper()}M" + ("." if ends else "")


def _twelve(match: re.Match[str]) -> str:
    """3 pm, 3:05 p.m., 9–11 am."""
    words = _hour_words(match["hour"], match["minute"])
    if match["second"] and int(match["second"]):
        words += f" and {cardinal(int(match['second']))} second{'s' * (match['second'] != '01')}"
    if match["from"]:
        words = f"{_hour_words(match['from'], match['from_minute'])} to {words}"
    return f"{words} {_half(match)}"


def _hour_words(hour: str, minute: str | None) -> str:
    return cardinal(int(hour)) + (f" {pair(int(minute))}" if minute and int(minute) else "")


def _clock(match: re.Match[str]) -> str | None:
    """15:00 and 3:05, unless they are a ratio."""
    if _is_ratio(match):
        return None
    hour, minute = int(match["hour"]), int(match["minute"])
    if hour == 0 and minute:
        return f"zero {pair(minute)}"
    if minute == 0 and re.match(r"\s(?:hours|hrs)\b", text_after(match)):
        return f"{cardinal(hour)} hundred"
    return clock(hour, minute)


def _is_ratio(match: re.Match[str]) -> bool:
    return bool(_RATIO.search(text_before(match, 25).lower()) or _RATIO.search(text_after(match, 18).lower()))


def _three_parts(match: re.Match[str]) -> str:
    """Hours, minutes and seconds: a clock after "at" or with two digits for a small hour, else a duration."""
    parts = [int(match[name]) for name in ("hour", "minute", "second")]
    fraction = match["fraction"] or ""
    if word_before(match).lower() in ("at", "utc", "until", "by", "since", "from") or match["hour"] in (
        "01",
        "02",
        "03",
        "04",
        "05",
        "06",
        "07",
        "08",
        "09",
    ):
        named = f"{cardinal(parts[0])} {pair(parts[1]) if parts[1] else 'hundred'}"
        seconds = spoken_number(f"{parts[2]}{fraction}")
        return f"{named} and {seconds} second{'s' * (seconds != 'one')}"
    words = [spoken_number(f"{number}{fraction if name == 'second' else ''}") for number, name in zip(parts, _HOURS)]
    return ", ".join(f"{one} {name}{'s' * (one != 'one')}" for one, name in zip(words, _HOURS) if one != "zero")


def _lap(match: re.Match[str]) -> str:
    """Minutes and seconds with a fraction: 1:23.45."""
    minutes, seconds = int(match["minute"]), match["second"]
    spoken = spoken_number(seconds[1:] if seconds[0] == "0" else seconds)
    return f"{cardinal(minutes)} minute{'s' * (minutes != 1)} {spoken} seconds"


def _span(match: re.Match[str]) -> str:
    """2h 30m, 5m30s, 1h 5m 10s."""
    pairs = re.findall(r"(\d+) ?([hms])", match[0])
    names = {"h": "hour", "m": "minute", "s": "second"}
    return " ".join(f"{cardinal(int(number))} {names[unit]}{'s' * (number != '1')}" for number, unit in pairs)


def _military(match: re.Match[str]) -> str:
    """0800 hours, 1430 hours."""
    hour, minute = int(match["hour"]), int(match["minute"])
    hours = f"oh {cardinal(hour)}" if match["hour"][0] == "0" and hour else ("zero" if hour == 0 else cardinal(hour))
    return f"{hours} {pair(minute) if minute else 'hundred'}"


def _ratio_words(text: str) -> str:
    return " to ".join(spoken_number(part.strip()) for part in text.split(":"))


def _ratio(match: re.Match[str]) -> str:
    if match[0] == "50:50":
        return "fifty fifty"
    return _ratio_words(match[0])


def _verse(match: re.Match[str]) -> str:
    """John 3:16, and 1 Corinthians 13:4–7."""
    words = f"{match['book']} {cardinal(int(match['chapter']))} {cardinal(int(match['verse']))}"
    if match["last"]:
        words += f" to {cardinal(int(match['last']))}"
    return f"{('First', 'Second', 'Third')[int(match['number']) - 1]} {words}" if match["number"] else words


def _book(match: re.Match[str]) -> str:
    return ("First", "Second", "Third")[int(match[0]) - 1]


def _books() -> str:
    return "|".join(_BOOKS.split())


_BOOKS = (
    "Genesis Exodus Leviticus Numbers Deuteronomy Joshua Judges Ruth Samuel Kings Chronicles Ezra Nehemiah Esther Job "
    "Psalms? Proverbs Ecclesiastes Isaiah Jeremiah Lamentations Ezekiel Daniel Hosea Joel Amos Obadiah Jonah Micah "
    "Nahum Habakkuk Zephaniah Haggai Zechariah Malachi Matthew Mark Luke John Acts Romans Corinthians Galatians "
    "Ephesians Philippians Colossians Thessalonians Timothy Titus Philemon Hebrews James Peter Jude Revelation"
)
_NUMBERED = "Samuel|Kings|Chronicles|Corinthians|Thessalonians|Timothy|Peter|John"
_MINUTES = r"[0-5]\d"

RULES = (
    rule(r"(?<![\w.,:])\d{1,3} : \d{1,3}(?![\w:]|[.,]\d)", lambda match: _ratio_words(match[0])),
    rule(r"(?<![\w.,:])(?P<hour>[01]?\d|2[0-3])h(?P<minute>[0-5]\d)(?!\w)", _clock),
    rule(
        r"(?<![\w.,])(?:\d{1,3}h ?\d{1,2}m(?:in)?(?: ?\d{1,2}s(?:ec)?)?"
        r"|\d{1,3}m ?\d{1,2}s(?:ec)?)(?!\w)",
        _span,
    ),
    rule(
        rf"\b(?:(?P<number>[1-3]) )?(?P<book>{_books()}) (?P<chapter>\d{{1,3}}):(?P<verse>\d{{1,3}})"
        rf"(?:[-–](?P<last>\d{{1,3}}))?(?![\w:])",
        _verse,
    ),
    rule(rf"(?<![\w.,:])[1-3](?= (?:{_NUMBERED})\b(?! and\b))", _book),
    rule(
        rf"(?<![\w.,:$])(?:(?P<from>1[0-2]|0?[1-9])(?::(?P<from_minute>{_MINUTES}))?{DASH})?"
        rf"(?P<hour>1[0-9]|2[0-3]|0?\d)(?:[:.](?P<minute>{_MINUTES}))?(?::(?P<second>{_MINUTES}))?[ \u00a0]?{_HALF}",
        _twelve,
    ),
    rule(
        rf"(?<![\w.,:/])(?P<hour>\d{{1,2}}):(?P<minute>{_MINUTES}):(?P<second>{_MINUTES})"
        r"(?P<fraction>\.\d+)?(?![\w:]|\.\d)",
        _three_parts,
    ),
    rule(rf"(?<![\w.,:/])(?P<minute>\d{{1,2}}):(?P<second>{_MINUTES}\.\d{{1,3}})(?![\w:])", _lap),
    rule(rf"(?<![\w.,:/])(?P<hour>[01]\d|2[0-4]):?(?P<minute>{_MINUTES})(?= (?:hours|hrs)\b)", _military),
    rule(rf"(?:(?<=\bat )|(?<=\bby )|(?<=\buntil ))(?P<hour>0\d)(?P<minute>{_MINUTES})(?![\w:]|[.,]\d)", _military),
    rule(rf"(?<![\w.,:/])(?P<hour>[01]?\d|2[0-4]):(?P<minute>{_MINUTES})(?![\d:%]|(?!ish\b)[A-Za-z_]|\.\d)", _clock),
    rule(r"(?<![\w.,:/])\d{1,4}(?:\.\d+)?(?::\d{1,4}(?:\.\d+)?)+(?![\w:]|\.\d)", _ratio),
)
