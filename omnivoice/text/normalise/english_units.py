"""English measures: 5 km, 10 kg/m², 50%, 10x, and "per" signs.

A symbol counts as a unit only after a number. Where it is also a word or a letter, such as "in", it needs a sign that
it is not: a full stop, a hyphen, or a measure beside it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast

from ...intake.tables import load_table
from .english_counts import AMOUNT, NUMBER, SCALE, SIGN, is_one, spoken_amount, spoken_number
from .phrases import attributive, before_noun
from .rules import Rule, rule, text_after, text_before, word_after, word_before
from .tables import english_words

_POWERS = {"²": "square", "2": "square", "^2": "square", "³": "cubic", "3": "cubic", "^3": "cubic"}
_TIMES = frozenset(["s", "sec", "h", "hr", "min", "ms"])
_FINANCE = re.compile(r"\b(?:rates?|yields?|spreads?|fed|bonds?|hikes?|cut|fell|rose|margins?|interest|points?)\b")


@cache
def _table(name: str) -> Any:
    return cast("dict[str, Any]", load_table("text/normalise/units.json"))[name]


@cache
def _symbols() -> str:
    return "|".join(map(re.escape, sorted(_table("units"), key=len, reverse=True)))


def _unit(symbol: str, many: bool) -> str:
    return str(_table("units")[symbol]).split("|")[many]


def _term(text: str, many: bool) -> str:
    """Return one unit with its power in words: m² gives "square meters", and s² "seconds squared"."""
    match = re.fullmatch(r"(.+?)(\^?[23]|[²³])?", text)
    assert match, "a term has at least one character"
    symbol, power = match[1], match[2]
    if symbol not in _table("units"):
        symbol, power = text, None
    if not power:
        return _unit(symbol, many)
    if symbol in _TIMES:
        return f"{_unit(symbol, many)} {'squared' if _POWERS[power] == 'square' else 'cubed'}"
    return f"{_POWERS[power]} {_unit(symbol, many)}"


def spoken_unit(text: str, many: bool) -> str:
    """Return a unit in words: "kg/m³" gives "kilograms per cubic meter"."""
    first, *others = text.split("/")
    parts = re.split("[·⋅*]", first)
    words = " ".join([*(_term(part, False) for part in parts[:-1]), _term(parts[-1], many)])
    return " per ".join([words, *(_term(part, False) for part in others)])


def _measure(match: re.Match[str]) -> str | None:
    """An amount and its unit."""
    amount, unit, space = match["amount"], match["unit"], match["space"]
    if not _is_unit(match, unit, space):
        return None
    letters = re.match(r"[^\d²³^/·⋅*]+", unit)
    if unit == "bps" and _FINANCE.search(f"{text_before(match)} {text_after(match)}".lower()):
        unit = "bp"
    if unit in ("t", "T") and _is_spoon(match, amount):
        unit = {"t": "tsp", "T": "tbsp"}[unit]
    if unit == "pt" and not space:
        unit = "pts"  # of a font
    one = attributive(match) or space == "-" or word_before(match).lower() in ("a", "an")
    one = one or (not space and unit in _table("before_nouns").split() and before_noun(match))
    many = not (one or (is_one(amount) and not match["scale"]))
    parts = r"\d" if unit in ("ft", "lb", "lbs", "hr", "hrs", "yr", "yrs") else ""  # 6 ft. 2 in.
    inside = space == "-" or re.match(rf"\s*[a-z{parts},;:)(]", text_after(match))
    dot = match["dot"] if match["dot"] and not inside else ""
    scale = f" {match['scale'].strip()}" if match["scale"] else ""
    words = "".join([spoken_amount(amount), scale, "-" if space == "-" else " ", spoken_unit(unit, many)])
    return words + dot if letters else None


def _is_spoon(match: re.Match[str], amount: str) -> bool:
    """Whether t and T are the spoons of a recipe: a small amount, then what is measured."""
    return before_noun(match) and match["space"] == " " and re.fullmatch(r"\d|.*[/½¼¾⅓⅔].*", amount) is not None


def _is_unit(match: re.Match[str], unit: str, space: str) -> bool:
    """Whether the symbol after the number is a unit there, and not a word or the name of something."""
    after = text_after(match)
    if unit in ("t", "T") and _is_spoon(match, match["amount"]):
        return True
    if unit in _table("never_alone").split():
        return False
    if re.fullmatch("[A-Z]", unit) and match["dot"] and re.match(r" [\dA-Z]", after):
        return False
    if unit == "m" and word_after(match) in english_words("millions"):
        return False
    if unit == "c":  # cups
        return bool(match["dot"] and re.match(r" [a-z]", after))
    if unit == "in":
        dotted = match["dot"] and re.match(r"\s*(?:[a-z\d,;:)(]|$)", after)
        beside = re.match(r"\)| ?[x×] ?\d", after) or re.search(r"\d ?ft\.? $", text_before(match))
        return bool(dotted or beside or space == "-")
    if unit in _table("spaced").split() and (space != " " or re.match(r" ?[A-Z\d]", after)):
        return False
    if (
        unit in ("A", "T", "K", "N", "J", "M", "h", "t")
        and re.match(r" [a-z]", after)
        and word_after(match) not in english_words("no_nouns")
    ):
        return False
    if unit in ("m", "g", "s", "l", "h") and after[:1] in ("'", "’"):
        return False
    if unit == "s" and not space and match["amount"].isdigit():
        cue = word_before(match).lower() in english_words("second_cues")
        return cue if not match["amount"].endswith("0") else False
    return True


def _percent(match: re.Match[str]) -> str:
    sign = {"%": "percent", "‰": "per mille", "％": "percent"}[match["sign"]]
    return f"{spoken_amount(match['amount'])} {sign}"


def _times(match: re.Match[str]) -> str | None:
    """10x faster, 2X."""
    sums = re.match(r" ?[-−+=*^)]|/\d", text_after(match)) or re.search(r"[-−+=*(] ?$", text_before(match))
    if sums:
        return None  # a variable
    return f"{spoken_number(match['amount'])} times" if match["amount"] != "1" else "one time"


def _per(match: re.Match[str]) -> str | None:
    word = _table("per")[match["unit"]]
    return f" {word}" if word == "each" else f" per {word}"


@cache
def unit_rules() -> tuple[Rule, ...]:
    """Return the rules, which need the table of units."""
    symbols = _symbols()
    term = rf"(?:{symbols})(?:\^[23](?!\d)|[²³]|(?<=m)[23](?![\d.])|(?<=ft)[23](?!\d))?"
    unit = rf"(?P<unit>{term}(?:[/·⋅]{term}){{0,3}})"
    per = "|".join(map(re.escape, sorted(_table("per"), key=len, reverse=True)))
    return (
        rule(rf"(?P<amount>{SIGN}?(?<!\d){AMOUNT}) ?(?P<sign>[%‰％])", _percent),
        rule(
            rf"(?P<amount>{SIGN}?(?<![\w.:])(?<![A-Za-z]-){AMOUNT})(?P<scale> {SCALE})?(?P<space>[ \u00a0-]?){unit}"
            rf"(?![\w²³^°%&@'’]|/(?!\d)|-\w|\.[A-Z]\b)(?P<dot>\.(?!\w))?",
            _measure,
        ),
        rule(rf"(?<![\w.,])(?P<amount>{NUMBER})[xX](?![\w-])", _times),
        rule(rf"(?<=[\w%¢€£¥.)²³])/(?P<unit>{per})(?![\w/²³])(?:\.(?=[,;:)]|\s[a-z\d]))?", _per_after_number),
    )


def _per_after_number(match: re.Match[str]) -> str | None:
    """The stroke of $5/month and of 100 people/km², but not of "and/or each"."""
    before = text_before(match, 30)
    if not re.search(
        r"(?:[$€£¥]\s?[\d.,]+[kKmMbB]?n?|\d ?[$€£¥]|\d[\d.,]*|\d[\d.,]*[ \u00a0]?(?:[A-Za-z]+|[%¢]))$", before
    ):
        return None
    return _per(match)
