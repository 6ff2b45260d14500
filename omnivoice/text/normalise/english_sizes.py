"""English sizes: temperatures, angles, heights in feet and inches, 3 × 4 m, 1920x1080, blood pressure."""

from __future__ import annotations

import re

from .english_counts import AMOUNT, FRACTION, NUMBER, SIGN, is_one, spoken_amount, spoken_number
from .english_units import spoken_unit
from .english_words import cardinal, code
from .phrases import attributive
from .rules import rule, text_after, text_before, word_after, word_before
from .tables import english_words

_LENGTHS = "km|cm|mm|dm|nm|µm|μm|m|ft|in|yd|mi"
_SCALES = {"C": "Celsius", "F": "Fahrenheit", "K": "Kelvin", "N": "north", "S": "south", "E": "east", "W": "west"}
_SIZE = rf"(?:{FRACTION}|{NUMBER})"


def _degrees(match: re.Match[str]) -> str:
    """20 °C, 350°F, 90°, 40.7° N, 20℃."""
    scale = {"℃": "C", "℉": "F"}.get(match["joined"] or "", match["scale"] or "")
    amount = match["amount"]
    turned = not scale and word_after(match) in english_words("turns")
    one = amount == "1" or turned or (not scale and attributive(match))
    words = f"{spoken_number((match['sign'] or '').strip() + amount)} degree{'' if one else 's'}"
    return f"{words} {_SCALES[scale]}" if scale else words


def _bare_degrees(match: re.Match[str]) -> str | None:
    """350F after words that speak of a temperature."""
    cues = english_words("temperature_cues")
    if match["amount"][0] not in "-−" and not any(
        word.strip(".,") in cues for word in text_before(match).lower().split()[-4:]
    ):
        return None
    return f"{spoken_number(match['amount'])} degrees {'Celsius' if match['scale'] == 'C' else 'Fahrenheit'}"


def _angle(match: re.Match[str]) -> str:
    """Degrees, minutes and seconds of arc: 40°26′46″N."""
    words = f"{spoken_number(match['degrees'])} degrees {spoken_number(match['minutes'])} minutes"
    if match["seconds"]:
        words += f" {spoken_number(match['seconds'])} seconds"
    return f"{words} {_SCALES[match['side']]}" if match["side"] else words


def _in_quotes(match: re.Match[str]) -> bool:
    """Whether a quotation is open before the match, so that its mark closes it."""
    mark = '["“”]' if match["mark"] in '"“”' else "['‘’]"
    line = match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()]
    opened = len(re.findall(rf"(?:^|[\s(\[]){mark}", line))
    return opened > len(re.findall(rf"[^\s\d(\[\"'“‘]{mark}(?!\w)", line))


def _height(match: re.Match[str]) -> str | None:
    """Feet and inches: 5'10", 6' 2", 6' tall."""
    feet, inches = match["feet"], match["inches"]
    if not inches and match["mark"] != "′" and (_in_quotes(match) or re.match(r" [A-Z]", text_after(match))):
        return None
    words = f"{cardinal(int(feet))} {'foot' if feet == '1' else 'feet'}"
    if inches == "0":
        return words
    return f"{words} {spoken_amount(inches)}" + (" inch" if inches == "1" else " inches") if inches else words


def _inches(match: re.Match[str]) -> str | None:
    """A size in inches, unless the mark closes a quotation."""
    if match["mark"] != "″" and _in_quotes(match):
        return None
    noun = word_after(match)
    one = (
        is_one(match["amount"])
        or word_before(match).lower() in ("a", "an")
        or (noun.islower() and noun not in english_words("no_nouns"))
    )
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


def _pressure(match: re.Match[str]) -> str:
    """Blood pressure: 120/80 mmHg, or after the words."""
    unit = " millimeters of mercury" if "unit" in match.re.groupindex else ""
    return f"{cardinal(int(match['above']))} over {cardinal(int(match['below']))}{unit}"


RULES = (
    rule(r"(?<=degrees )[CF]\b", lambda match: _SCALES[match[0]]),
    rule(r"(?:(?<=\d (?:cm|mm|km|ft|in|yd))|(?<=\d(?:cm|mm|km|ft|in|yd))|(?<=\d m)) [x×] (?=\d)", lambda match: " by "),
    rule(r"(?<=[\d½¼¾][\"″'′”’]) ?[x×✕] ?(?=\d)", lambda match: " by "),
    rule(
        r"(?<![\w.])(?P<degrees>\d+)° ?(?P<minutes>\d+)[′'’] ?(?:(?P<seconds>[\d.]+)[″\"”] ?)?"
        r"(?P<side>[NSEW]\b)?",
        _angle,
    ),
    rule(
        rf"(?P<sign>{SIGN} ?)?(?<!\d)(?P<amount>{NUMBER}) ?(?:(?:°|º|deg\b\.?)(?: ?(?P<scale>[CFKNSEW])\b)?"
        r"|(?P<joined>[℃℉]))",
        _degrees,
    ),
    rule(r"(?<![\w.,])(?P<amount>[-−]?\d{2,4}) ?(?P<scale>[CF])(?![\w'’-])", _bare_degrees),
    rule(
        rf"(?<![\w.,'’])(?P<feet>\d{{1,2}})(?:['’′] ?(?P<inches>{AMOUNT})"
        rf"(?:[\"”″]|''|’’)|(?P<mark>['’′])(?:(?!\w)|(?=[x×]\d)))",
        _height,
    ),
    rule(
        rf"(?<![\w.,/:])(?P<sizes>{_SIZE}(?: ?[x×✕X] ?{_SIZE}){{1,3}})"
        rf"(?: ?(?P<unit>(?:{_LENGTHS})[²³]?)(?![\w/])(?:\.(?=[,;:)]|\s[a-z\d]))?)?"
        rf"(?![\w^⁰¹²³⁴-⁹]|\.\d)(?![^=\n]{{0,12}}=)",
        _size,
    ),
    rule(rf"{SIGN}?(?<![\w.,])(?P<amount>{AMOUNT})(?P<mark>[\"”″])", _inches),
    rule(r"(?<![\w.,/])(?P<above>\d{2,3})/(?P<below>\d{2,3})(?P<unit> ?mm ?Hg)", _pressure),
    rule(
        r"(?<=blood pressure )(?P<at>(?:of|was|is) )(?P<above>\d{2,3})/(?P<below>\d{2,3})\b",
        lambda match: match["at"] + _pressure(match),
    ),
)
