"""English numbers in digits: cardinals, decimals, fractions, and the patterns that other rules build on.

A `NUMBER` has commas and a decimal point; an `AMOUNT` may also be a fraction or a power of ten: "1 1/2", "3 × 10^6".
"""

from __future__ import annotations

import re

from .english_words import cardinal, code, digits, ordinal, plural
from .rules import rule, text_after, text_before, word_after, word_before
from .tables import english_words

WHOLE = (
    r"(?:\d{1,3}(?:,\d{2,3}){0,11},\d{3}(?![\d,]*\d)|\d{1,3}(?:[\u00a0\u2009\u202f]\d{3})+(?!\d)"
    r"|\d{1,3}(?: 000)+(?!\d)|\d+)"
)
NUMBER = rf"(?:{WHOLE}(?:\.\d+)?|\.\d+)"
VULGAR = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒"
_VULGAR_PARTS = dict(
    zip(
        VULGAR,
        [
            "1/2",
            "1/3",
            "2/3",
            "1/4",
            "3/4",
            "1/5",
            "2/5",
            "3/5",
            "4/5",
            "1/6",
            "5/6",
            "1/8",
            "3/8",
            "5/8",
            "7/8",
            "1/7",
            "1/9",
            "1/10",
        ],
    )
)
_SLASH = r"\d{1,3}[/⁄]\d{1,3}(?![\d/⁄])"
FRACTION = rf"(?:\d{{1,3}}[ \u00a0-]{_SLASH}|{_SLASH}|(?:\d{{1,4}} ?)?[{VULGAR}])"
SCALE = r"(?:hundred|thousand|million|billion|trillion|quadrillion|dozen)"
SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_SUPERSCRIPTS = str.maketrans(f"{SUPER}⁻⁺", "0123456789-+")
SCIENTIFIC = (
    rf"(?:{NUMBER}[eE][-+−]?\d{{1,3}}(?!\w)"
    rf"|(?:{NUMBER} ?[×x·⋅*] ?)?10(?:\^[{{(]?[-−+]?\d{{1,4}}[)}}]?|⁻?[{SUPER}]{{1,4}}))"
)
AMOUNT = rf"(?:{SCIENTIFIC}|{FRACTION}|{NUMBER})"
START = r"(?<![\w.,/:])"  # no number goes on before this
SIGN = r"(?:(?<![\w.,)\]%°])[-−–+±~≈])"
DASH = r"(?:[-–—‐‑−]|[ \u00a0][-–—‐‑−][ \u00a0])"
_SIGNS = {"-": "minus", "−": "minus", "–": "minus", "+": "plus", "±": "plus or minus", "~": "about", "≈": "about"}
_MAX_DIGITS = 36


def spoken_number(text: str) -> str:
    """Return a number with commas, a decimal point or a sign in words: "-1,234.5"."""
    if text[0] in _SIGNS:
        return f"{_SIGNS[text[0]]} {spoken_number(text[1:])}"
    whole, point, decimals = re.sub(r"[,\s]", "", text).partition(".")
    words = _whole(whole) if whole else ""
    return f"{words} point {digits(decimals)}".strip() if point else words


def _whole(text: str) -> str:
    leading = len(text) > 1 and text[0] == "0"
    return digits(text) if leading or len(text) > _MAX_DIGITS else cardinal(int(text))


def spoken_amount(text: str) -> str:
    """Return an amount in words: a number, a fraction such as 3/4 or ½, or both, as in 3 1/2."""
    if text[0] in _SIGNS:
        return f"{_SIGNS[text[0]]} {spoken_amount(text[1:])}"
    if power := re.fullmatch(r"(.+)[eE]([-+−]?)0*(\d+)", text):
        sign = power[2].strip("+")
        return f"{spoken_number(power[1])} times ten {exponent(sign + power[3])}"
    if power := re.search(rf"10(?:\^(.+)|([⁻⁺{SUPER}]+))$", text):
        factor = re.match(rf"({NUMBER}) ?[×x·⋅*]", text)
        words = f"ten {exponent(power[1] or power[2])}"
        return f"{spoken_number(factor[1])} times {words}" if factor else words
    if text[-1] in _VULGAR_PARTS:
        text = f"{text[:-1].strip()} {_VULGAR_PARTS[text[-1]]}".strip()
    text = text.replace("⁄", "/")
    whole, _, part = re.sub(r"[ \u00a0-]", " ", text).rpartition(" ")
    if "/" not in text:
        return spoken_number(text)
    above, below = (int(number) for number in part.split("/"))
    if not whole:
        return fraction(above, below)
    words = fraction(above, below)
    if above == 1:
        words = ("an " if words[4:5] in "aeiou" else "a ") + words[4:]
    return f"{_whole(whole)} and {words}"


def exponent(text: str) -> str:
    """Return a power in words: 2 gives "squared", -6 "to the power of minus six"; superscripts count as digits."""
    text = text.translate(_SUPERSCRIPTS).strip("{}()")
    if text in ("2", "3"):
        return "squared" if text == "2" else "cubed"
    return f"to the power of {spoken_number(text) if text[-1:].isdigit() else text}"


def fraction(above: int, below: int) -> str:
    """Return a fraction in words: 1, 2 gives "one half", 3, 4 "three quarters", and 5, 0 "five over zero"."""
    if below < 2 or (below > 20 and below not in (32, 64, 100, 1000) and (above > below or below % 10)):
        return f"{cardinal(above)} over {cardinal(below)}"
    name = {2: "half", 4: "quarter", 100: "hundredth", 1000: "thousandth"}.get(below) or ordinal(below)
    if above == 1:
        return f"one {name}"
    return f"{cardinal(above)} {'halves' if below == 2 else plural(name)}"


def is_one(text: str) -> bool:
    """Whether a thing of this amount is named in the singular: 1, and fractions below 1."""
    plain = text.lstrip("-−–+±~≈")
    return plain == "1" or (len(plain) == 1 and plain in VULGAR) or bool(re.fullmatch(r"\d+[/⁄]\d+", plain))


def _ordinal(match: re.Match[str]) -> str | None:
    number = re.sub(r"\D", "", match["number"])
    if len(number) > _MAX_DIGITS:
        return None
    return ordinal(int(number)) + ("s" if match["plural"] else "")


def _plural_number(match: re.Match[str]) -> str | None:
    """Numbers in the plural: "the 49ers", "100s of people", "1s and 0s"."""
    number, ending = match["number"], match["ending"]
    if len(number) > 1 and number[0] == "0":
        return None
    words = code(number) if len(number) > 2 and int(number) % 100 else cardinal(int(number))
    if ending == "ers":
        return words.removesuffix("e") + "ers" if not words.endswith("y") else f"{words[:-1]}iers"
    if number in ("10", "100", "1000") and re.match(r"\s+(?:of|and)\b", text_after(match)):
        words = words.removeprefix("one ")
    return plural(words)


def _list(match: re.Match[str]) -> str:
    return ", ".join(cardinal(int(number)) for number in match[0].split(","))


def _hyphens(match: re.Match[str]) -> str:
    """Three and more numbers with hyphens: a formation, a record, a haiku."""
    numbers = re.split("[-–]", match[0])
    return " ".join(digits(one) if len(one) > 4 or one[0] == "0" else cardinal(int(one)) for one in numbers)


def _fraction(match: re.Match[str]) -> str:
    """A fraction, or two numbers that people only name: 24/7, 50/50, 9/11, or a rating out of 10."""
    above, slash, below = match[0].replace("⁄", "/").partition("/")
    if not slash or not (above.isdigit() and below.isdigit()):
        return spoken_amount(match[0])
    first, second = int(above), int(below)
    if match[0] in ("24/7", "20/20", "9/11", "7/11", "911") or (first + second == 100 and first >= 40):
        return f"{cardinal(first)} {cardinal(second)}"
    near = {word_before(match).lower(), word_after(match).lower(), *text_before(match).lower().split()[-4:]}
    if first == second or (below in ("5", "10", "20", "50", "100") and near & set(english_words("ratings"))):
        return f"{cardinal(first)} out of {cardinal(second)}"
    return f"{cardinal(first)} over {cardinal(second)}" if first > second and first > 30 else fraction(first, second)


def _dash(match: re.Match[str]) -> str | None:
    """The dash of a range: between two numbers, with a sign or a unit after the first."""
    before = (
        r"(?:[\d½¼¾%°¢]|\d ?(?:[A-Za-z]{1,3}|[ap]\.m\.|°[CF]|(?:thousand|million|billion|trillion))|noon|midnight)$"
    )
    formula = "−" in match[0] or (match[0][0] == " " and re.search(r"[=^√²³][^.;\n]*$", text_before(match)))
    if formula or re.match(r"[\d.,\s+×*/x-]{1,14}=", text_after(match)):
        return None  # a difference
    return " to " if re.search(before, text_before(match, 12)) else None


def _rating(match: re.Match[str]) -> str:
    return " out of ".join(map(spoken_number, match[0].split("/")))


def _spoken(match: re.Match[str]) -> str:
    return spoken_number(match[0])


RULES = (
    rule(r"(?<![\w.,])\d{1,3}(?:\.\d{3}){2,}(?!\w|[.,]\d)", lambda match: spoken_number(match[0].replace(".", ""))),
    rule(r"(?<![\w/])24/7/365(?![\w/])", lambda match: "twenty-four seven three sixty-five"),
    rule(r"(?<![\w.,/])(?P<part>\d{1,3}/\d{1,3})(?:rds?|ths?|nds?|sts?)\b", lambda match: spoken_amount(match["part"])),
    rule(r"(?<![\w.,-])50[-–]50(?![\w.,-]\d|\w)", lambda match: "fifty fifty"),
    rule(r"(?<![\w.,/])\d{1,3}\.\d{1,2}/(?:5|10|20|50|100|\d{1,2}\.\d{1,2})(?![\w/]|\.\d)", _rating),
    rule(
        rf"(?<![\w.,:])(?<!\d/)(?P<number>{WHOLE})[ -]?(?:st|nd|rd|th|ST|ND|RD|TH|ˢᵗ|ⁿᵈ|ʳᵈ|ᵗʰ)(?P<plural>s?)\b",
        _ordinal,
    ),
    rule(rf"{START}(?P<number>\d{{1,4}})(?P<ending>ers|s)\b", _plural_number),
    rule(rf"{SIGN}?{START}{FRACTION}(?![\w/])", _fraction),
    rule(r"(?<![\w.,])\d{1,2}(?:,\d{1,2}){2,}(?![\w,]|\.\d)", _list),
    rule(r"(?<![\w.-])\d{1,4}(?:[-–]\d{1,4}){2,}(?![\w-])", _hyphens),
    rule(rf"(?<=[\w.%°¢½¼¾]){DASH}(?=[$€£¥'’]?\.?[\d½¼¾]|noon\b|midnight\b)", _dash),
    rule(rf"{SIGN}?(?<!\d){NUMBER}", _spoken),
)
