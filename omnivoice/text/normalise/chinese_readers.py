"""The readers that the rules of chinese.json name: each returns how a group of a match is spoken."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from functools import cache

from .chinese_grammar import expanded
from .chinese_numbers import cardinal, counted, digits, number, table

Reader = Callable[[str, "re.Match[str]"], str]
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_RUNS = re.compile(r"[0-9]+(?:[.][0-9]+)*|[^0-9]+")


@cache
def _counts() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return patterns for what may follow a 2: more numbers of a series, what is counted with 二, and with 两."""
    series = re.compile(expanded("«SERIES»"))
    return series, re.compile(expanded("«two_er»|«TWO_POINT»")), re.compile(expanded("«COUNTED_TWO»"))


def _count(text: str, match: re.Match[str]) -> str:
    """Return a number with 两 or 二 for 2, as what follows the match asks."""
    if text == "2":
        series, er, liang = _counts()
        after = series.match(match.string, match.end())
        place = after.end() if after else match.end()
        if er.match(match.string, place) or not liang.match(match.string, place):
            return number(text)
    return counted(text)


def _minute(text: str, match: re.Match[str]) -> str:
    return digits(text) if len(text) == 2 and text[0] == "0" != text[1] else cardinal(text)


def _half(text: str, match: re.Match[str]) -> str:
    """Return the half of the day for the hour of the match."""
    if text[0] in "Aa":
        return table()["spoken"]["am"]
    return table()["spoken"]["evening" if 6 <= int(match["h"]) < 12 else "pm"]


def _percent(text: str, match: re.Match[str]) -> str:
    return table()["spoken"]["hundred_percent"] if text == "100" else number(text, hundreds=False)


def _money(text: str, match: re.Match[str]) -> str:
    """Return an amount without the zeros that end its cents: 3.50 as 三点五."""
    return counted(re.sub(r"[.]0*$|([.][0-9]*?[1-9])0+$", r"\1", text))


def _scaled(text: str, match: re.Match[str]) -> str:
    """Return an amount with an English scale, such as 5 million, in Chinese ones."""
    power = {"k": 3, "m": 6, "b": 9, "t": 12}[match["k"][0].lower()]
    value = Decimal(text.replace(",", "")).scaleb(power)
    for exponent, name in ((8, table()["groups"][2]), (4, table()["groups"][1])):
        if value >= Decimal(10) ** exponent:
            return counted(f"{value.scaleb(-exponent).normalize():f}") + name
    return counted(f"{value.normalize():f}")


def _code_number(text: str) -> str:
    """Return a number of a name or code: up to two digits or round hundreds as a cardinal, others digit by digit."""
    whole, _, fraction = text.partition(".")
    if "." in fraction:
        return _dotted(text)
    spoken = digits(whole)
    if (len(whole) < 3 and whole[0] != "0") or re.fullmatch("[1-9]00", whole):
        spoken = cardinal(whole, hundreds=False)
    return spoken + (table()["spoken"]["point"] + digits(fraction) if fraction else "")


def _code(text: str, match: re.Match[str] | None = None) -> str:
    """Return a code of letters and digits, without the hyphens beside its digits."""
    text = re.sub(r"(?<=[0-9])-|-(?=[0-9])", "", text)
    runs = _RUNS.findall(text)
    spoken = "".join(_code_number(run) if run[0].isdigit() else run for run in runs)
    return spoken.replace("+", table()["operators"]["+"])


def _dotted(text: str, match: re.Match[str] | None = None) -> str:
    """Return the numbers of a version or address: the first of a version as a number, others digit by digit."""
    parts = text.split(".")
    first = digits(parts[0]) if len(parts) == 4 or len(parts[0]) > 2 else number(parts[0])
    return table()["spoken"]["point"].join([first, *map(digits, parts[1:])])


def _hyphens(text: str, match: re.Match[str]) -> str:
    return table()["spoken"]["dash"].join(map(_code_number, text.split("-")))


def _unit(text: str, match: re.Match[str]) -> str:
    return table()["units"].get(text, text)


def _url(text: str, match: re.Match[str]) -> str:
    names = table()["url"]
    return "".join(names.get(char, char) for char in digits(text))


def _roman(text: str, match: re.Match[str]) -> str:
    values = [_ROMAN[char] for char in text]
    signed = [-value if value < max(values[place:]) else value for place, value in enumerate(values)]
    return number(str(sum(signed)))


def _plain(text: str) -> str:
    """Return raised or lowered digits as ASCII."""
    return unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-")


def _raised(text: str, match: re.Match[str]) -> str:
    plain = _plain(text)
    sign = table()["spoken"]["minus"] if plain.startswith("-") else ""
    return sign + number(plain.replace("-", "") or "0")


def _vulgar(text: str, match: re.Match[str]) -> str:
    above, _, below = unicodedata.normalize("NFKC", text).partition("\N{FRACTION SLASH}")
    return number(below or "1") + table()["spoken"]["fraction"] + number(above)


def _symbol(text: str, match: re.Match[str]) -> str:
    """Return a circled, bracketed or Roman number; other symbols stay."""
    value = unicodedata.numeric(text, -1)
    return cardinal(str(int(value))) if value >= 0 and value == int(value) else text


def _more(text: str, match: re.Match[str]) -> str:
    return counted(text) + (table()["spoken"]["more"] if text.endswith("0") else table()["operators"]["+"])


def _long(text: str, match: re.Match[str]) -> str:
    return number(text) if text.endswith("0000") else digits(text)


def _telephone(text: str, match: re.Match[str]) -> str:
    return digits(re.sub("[^0-9*]", "", text), telephone=True)


def _plain_digits(text: str, match: re.Match[str]) -> str:
    return digits(re.sub("[ -]", "", text))


READERS: dict[str, Reader] = {
    "digits": _plain_digits,
    "phone": _telephone,
    "int": lambda text, match: cardinal(text),
    "number": lambda text, match: number(text),
    "liang": lambda text, match: counted(re.sub("^0(?=[0-9]$)", "", text)),
    "ordinal": lambda text, match: number(text, hundreds=False),
    "count": _count,
    "percent": _percent,
    "money": _money,
    "minute": _minute,
    "half": _half,
    "scaled": _scaled,
    "code": _code,
    "spaced": lambda text, match: number(text.replace(" ", "")),
    "dotted": _dotted,
    "hyphens": _hyphens,
    "decade": lambda text, match: digits(text) if text == "00" else cardinal(text),
    "unit": _unit,
    "currency": lambda text, match: table()["currency"][text],
    "operator": lambda text, match: table()["operators"][text],
    "url": _url,
    "roman": _roman,
    "superscript": _raised,
    "subscript": lambda text, match: digits(_plain(text)),
    "vulgar": _vulgar,
    "symbol": _symbol,
    "more": _more,
    "long": _long,
    "keep": lambda text, match: text,
    "none": lambda text, match: "",
}
