"""English measures: 5 km, 20 °C, 10 kg/m², 5'10", 3 × 4 m, 1920x1080, 50%, and "per" signs.

A symbol counts as a unit only after a number. Where it is also a word or a letter, such as "in", it needs a sign that
it is not: a full stop, a hyphen, or a measure beside it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, cast

from ...intake.tables import load_table
from .english_counts import AMOUNT, FRACTION, NUMBER, SCALE, SIGN, is_one, spoken_amount, spoken_number
from .english_words import cardinal, code
from .phrases import attributive
from .rules import Rule, rule, text_after, text_before, word_after, word_before
from .tables import english_words

_POWERS = {"²": "square", "2": "square", "^2": "square", "³": "cubic", "3": "cubic", "^3": "cubic"}
_TIMES = frozenset(["s", "sec", "h", "hr", "min", "ms"])
_FINANCE = re.compile(r"\b(?:rates?|yields?|spreads?|fed|bonds?|hikes?|cut|fell|rose|margins?|interest|points?)\b")
_LENGTHS = "km|cm|mm|dm|nm|µm|μm|m|ft|in|yd|mi"


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
    one = attributive(match) or space == "-"
    many = not (one or (is_one(amount) and not match["scale"]))
    dot = match["dot"] if match["dot"] and not re.match(r"\s*[a-z\d,;:)(]", text_after(match)) else ""
    scale = f" {match['scale'].strip()}" if match["scale"] else ""
    words = "".join([spoken_amount(amount), scale, "-" if space == "-" else " ", spoken_unit(unit, many)])
    return words + dot if letters else None


def _is_unit(match: re.Match[str], unit: str, space: str) -> bool:
    """Whether the symbol after the number is a unit there, and not a word or the name of something."""
    after = text_after(match)
    if unit in _table("never_alone").split():
        return False
    if unit == "in":
        return (
            bool(match["dot"] and re.match(r"\s*(?:[a-z\d,;:)(]|$)", after))
            or space == "-"
            or bool(re.match(r" ?[x×] ?\d", after))
        )
    if unit in _table("spaced").split() and (space != " " or re.match(r" ?[A-Z]", after)):
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


def _degrees(match: re.Match[str]) -> str:
    """20 °C, 350°F, 90°, 40.7° N, 5 °C/min."""
    scale = {
        "C": " Celsius",
        "F": " Fahrenheit",
        "K": " Kelvin",
        "N": " north",
        "S": " south",
        "E": " east",
        "W": " west",
    }
    sign = (match["sign"] or "").lstrip()
    amount = match["amount"]
    one = amount == "1" or (match["scale"] is None and attributive(match))
    return f"{spoken_number(sign + amount)} degree{'' if one else 's'}{scale.get(match['scale'] or '', '')}"


def _bare_degrees(match: re.Match[str]) -> str | None:
    """350F after words that speak of a temperature."""
    cues = english_words("temperature_cues")
    if not any(word.strip(".,") in cues for word in text_before(match).lower().split()[-4:]):
        return None
    return f"{spoken_number(match['amount'])} degrees {'Celsius' if match['scale'] == 'C' else 'Fahrenheit'}"


def _angle(match: re.Match[str]) -> str:
    """Degrees, minutes and seconds of arc: 40°26′46″N."""
    words = f"{spoken_number(match['degrees'])} degrees {spoken_number(match['minutes'])} minutes"
    if match["seconds"]:
        words += f" {spoken_number(match['seconds'])} seconds"
    return words + {"N": " north", "S": " south", "E": " east", "W": " west"}.get(match["side"] or "", "")


def _in_quotes(match: re.Match[str]) -> bool:
    """Whether a quotation is open before the match, so that its mark closes it."""
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    return len(re.findall(r"(?:^|[\s(\[])[\"'“‘]", line)) > len(re.findall(r"[^\s\d(\[\"'“‘][\"'”’](?!\w)", line))


def _height(match: re.Match[str]) -> str | None:
    """Feet and inches: 5'10", 6' 2", 6' tall."""
    feet, inches = match["feet"], match["inches"]
    if not inches and match["mark"] != "′" and _in_quotes(match):
        return None
    words = f"{cardinal(int(feet))} {'foot' if feet == '1' else 'feet'}"
    return f"{words} {spoken_amount(inches)}" + (" inch" if inches == "1" else " inches") if inches else words


def _inches(match: re.Match[str]) -> str | None:
    """A size in inches, unless the mark closes a quotation."""
    if match["mark"] != "″" and _in_quotes(match):
        return None
    noun = word_after(match)
    one = is_one(match["amount"]) or (noun.islower() and noun not in english_words("no_nouns"))
    return f"{spoken_amount(match['amount'])} inch{'' if one else 'es'}"


def _size(match: re.Match[str]) -> str | None:
    """Sizes: 3 × 4 m, 1920x1080, 4x4, 8.5 x 11 in; "2 × 4" alone is a product."""
    numbers = re.split(r"\s?[x×✕X*]\s?", match["sizes"])
    unit = match["unit"]
    around = f"{text_before(match)} {text_after(match)}".lower()
    is_pair = "×" in match["sizes"] and " " in match["sizes"] and not unit and len(numbers) == 2
    if is_pair and len(numbers[0]) < 3 and not set(re.findall("[a-z]+", around)) & set(english_words("size_cues")):
        return None
    pixels = not unit and all(len(number) > 2 and number.isdigit() for number in numbers)
    words = " by ".join(code(number) if pixels and int(number) > 320 else spoken_amount(number) for number in numbers)
    noun = word_after(match)
    one = numbers[-1] == "1" or (noun.islower() and noun not in english_words("no_nouns"))
    return f"{words} {spoken_unit(unit, not one)}" if unit else words


def _percent(match: re.Match[str]) -> str:
    sign = {"%": "percent", "‰": "per mille", "％": "percent"}[match["sign"]]
    return f"{spoken_amount(match['amount'])} {sign}"


def _times(match: re.Match[str]) -> str | None:
    """10x faster, 2X."""
    return f"{spoken_number(match['amount'])} times" if match["amount"] != "1" else "one time"


def _per(match: re.Match[str]) -> str | None:
    word = _table("per")[match["unit"]]
    return f" {word}" if word == "each" else f" per {word}"


def _pressure(match: re.Match[str]) -> str:
    """Blood pressure: 120/80 mmHg, or after the words."""
    unit = " millimeters of mercury" if "unit" in match.re.groupindex else ""
    return f"{cardinal(int(match['above']))} over {cardinal(int(match['below']))}{unit}"


@cache
def unit_rules() -> tuple[Rule, ...]:
    """Return the rules, which need the table of units."""
    symbols = _symbols()
    term = rf"(?:{symbols})(?:\^[23](?!\d)|[²³]|(?<=m)[23](?![\d.])|(?<=ft)[23](?!\d))?"
    unit = rf"(?P<unit>{term}(?:[/·⋅]{term}){{0,3}})"
    per = "|".join(map(re.escape, sorted(_table("per"), key=len, reverse=True)))
    size = rf"(?:{FRACTION}|{NUMBER})"
    start = r"(?<![\w.,/:])"
    return (
        rule(
            r"(?<![\w.])(?P<degrees>\d+)° ?(?P<minutes>\d+)[′'’] ?(?:(?P<seconds>[\d.]+)[″\"”] ?)?"
            r"(?P<side>[NSEW]\b)?",
            _angle,
        ),
        rule(rf"(?P<sign>{SIGN} ?)?(?<!\d)(?P<amount>{NUMBER}) ?(?:°|º|deg\b)(?: ?(?P<scale>[CFKNSEW])\b)?", _degrees),
        Rule(
            re.compile(rf"(?P<sign>{SIGN} ?)?(?<!\d)(?P<amount>{NUMBER}) ?℃"),
            lambda match: _degrees_of(match, "Celsius"),
        ),
        Rule(
            re.compile(rf"(?P<sign>{SIGN} ?)?(?<!\d)(?P<amount>{NUMBER}) ?℉"),
            lambda match: _degrees_of(match, "Fahrenheit"),
        ),
        rule(r"(?<![\w.,])(?P<amount>[-−]?\d{2,4}) ?(?P<scale>[CF])(?![\w'’-])", _bare_degrees),
        rule(
            rf"(?<![\w.,'’])(?P<feet>\d{{1,2}})(?:['’′] ?(?P<inches>{AMOUNT})"
            rf"(?:[\"”″]|''|’’)|(?P<mark>['’′])(?![\w]))",
            _height,
        ),
        rule(
            rf"{start}(?P<sizes>{size}(?: ?[x×✕X] ?{size}){{1,3}})"
            rf"(?: ?(?P<unit>(?:{_LENGTHS})[²³]?)(?![\w/])(?:\.(?=[,;:)]|\s[a-z\d]))?)?"
            rf"(?![\w^⁰¹²³⁴-⁹]|\.\d)(?![^=\n]{{0,12}}=)",
            _size,
        ),
        rule(rf"{SIGN}?(?<![\w.,])(?P<amount>{AMOUNT})(?P<mark>[\"”″])", _inches),
        rule(rf"(?P<amount>{SIGN}?(?<!\d){AMOUNT}) ?(?P<sign>[%‰％])", _percent),
        rule(r"(?<![\w.,/])(?P<above>\d{2,3})/(?P<below>\d{2,3})(?P<unit> ?mm ?Hg)", _pressure),
        rule(
            r"(?<=blood pressure )(?P<at>(?:of|was|is) )(?P<above>\d{2,3})/(?P<below>\d{2,3})\b",
            lambda match: match["at"] + _pressure(match),
        ),
        rule(
            rf"(?P<amount>{SIGN}?(?<![\w.])(?<![A-Za-z]-){AMOUNT})(?P<scale> {SCALE})?(?P<space>[ \u00a0-]?){unit}"
            rf"(?![\w²³^°%/&@'’]|-\w)(?P<dot>\.(?!\w))?",
            _measure,
        ),
        rule(rf"(?<![\w.,])(?P<amount>{NUMBER})[xX](?![\w-])", _times),
        rule(rf"(?<=[\w%¢€£¥.)²³])/(?P<unit>{per})(?![\w/²³])(?:\.(?=[,;:)]|\s[a-z\d]))?", _per_after_number),
    )


def _degrees_of(match: re.Match[str], scale: str) -> str:
    return f"{spoken_number((match['sign'] or '').strip() + match['amount'])} degrees {scale}"


def _per_after_number(match: re.Match[str]) -> str | None:
    """The stroke of $5/month and of 100 people/km², but not of "and/or each"."""
    before = text_before(match, 30)
    if not re.search(r"(?:[$€£¥]\s?[\d.,]+[kKmMbB]?n?|\d[\d.,]*|\d[\d.,]*[ \u00a0]?(?:[A-Za-z]+|[%¢]))$", before):
        return None
    return _per(match)
