"""English mathematics and other signs: 5 + 3 = 8, 10^6, x², √16, H₂O, ≤, &, ~."""

from __future__ import annotations

import re
import unicodedata

from .english_counts import NUMBER, SCIENTIFIC, SIGN, SUPER, exponent, spoken_amount, spoken_number
from .english_words import cardinal
from .rules import Rule, rule, text_after, text_before
from .tables import english_map

_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_LEFT = r"(?<=[\w)|\]²³%°π∞])"
_RIGHT = r"(?=[-−+±√(\[$€£]?(?:\w|\.\d|[(\[√π∞$€£]))"


def _power(match: re.Match[str]) -> str:
    """10^6, x², (a + b)^2."""
    base = match["base"] or ""
    words = spoken_number(base) if base[:1].isdigit() else base
    return f"{words} {exponent(match['caret'] or match['super'])}".lstrip()


def _times_power(match: re.Match[str]) -> str:
    return spoken_amount(match[0])


def _subscript(match: re.Match[str]) -> str:
    return f" {cardinal(int(match[0].translate(_SUBSCRIPTS)))}"


def _greek(match: re.Match[str]) -> str:
    """The name of a single Greek letter."""
    return unicodedata.name(match[0]).rpartition(" ")[2].lower().replace("lamda", "lambda")


def _root(match: re.Match[str]) -> str:
    name = {"√": "square root", "∛": "cube root"}[match["sign"]]
    return ("" if text_before(match, 4).lower().endswith("the ") else "the ") + f"{name} of "


def _operator(match: re.Match[str]) -> str | None:
    """A sign between two numbers, names or brackets."""
    sign = match[0].strip()
    if sign in ("-", "–", "*", "/", "·", "⋅", "x") and not _in_equation(match):
        return None
    return f" {english_map('operators')[sign]} "


def _in_equation(match: re.Match[str]) -> bool:
    """Whether another sign near it, on the same line, shows that the sign belongs to a calculation."""
    line = text_before(match).rpartition("\n")[2] + " " + text_after(match).partition("\n")[0]
    return bool(re.search(r"[=≈≠≤≥÷√²³^]|\d ?[+×*] ?\d", line))


def _spaced(match: re.Match[str]) -> str:
    """The words of a sign, apart from the words beside it."""
    words = english_map("signs")[match[0].strip()]
    left, right = text_before(match, 1), text_after(match, 1)
    return (" " if left.isalnum() else "") + words + (" " if right.isalnum() else "")


def _compared(match: re.Match[str]) -> str:
    return f"{english_map('compared')[match[0].strip()]} "


def _chemical(match: re.Match[str]) -> str:
    """Letters with small numbers below: H₂O, CO₂."""
    parts = re.findall(r"[A-Za-z]|\d+", match[0].translate(_SUBSCRIPTS))
    return " ".join(cardinal(int(part)) if part.isdigit() else part for part in parts)


_BASE = rf"(?:(?<![\w.,])(?P<base>{NUMBER}|[A-Za-z]{{1,2}})|(?<=[)\]]))"
RULES_FIRST = (Rule(re.compile(r"(?<!\w)(?=[A-Za-z]{0,12}[₀-₉])(?:[A-Z][a-z]?[₀-₉]{0,3}){1,8}(?!\w)"), _chemical),)
POWERS = (
    rule(rf"{SIGN}?(?<![\w.,]){SCIENTIFIC}(?![\w^])", _times_power),
    rule(rf"{_BASE}(?:\^(?P<caret>[{{(]?[-−+]?(?:\d{{1,4}}|[a-z])[)}}]?)|(?P<super>[⁻⁺]?[{SUPER}]+))(?![\w^])", _power),
)
RULES = (
    rule(r"(?<=[Cc]opyright )© ?", lambda match: ""),
    Rule(re.compile(r"(?<!\w)C\+\+(?!\w)"), lambda match: "C plus plus"),
    Rule(re.compile(r"(?<![\w.])(?P<letter>[A-GJ])#(?!\w)"), lambda match: f"{match['letter']} sharp"),
    Rule(re.compile(r"(?P<sign>[√∛]) ?(?=[\w(])"), _root),
    Rule(
        re.compile(rf"{_LEFT}(?: (?:[+×÷=≈≠≤≥<>±·⋅≡*/−–x-]|<=|>=|!=|==) |(?:[+×÷=≈≠≤≥±·⋅*−]|<=|>=|!=|==)){_RIGHT}"),
        _operator,
    ),
    rule(r"(?<=[\d)])-(?=[\d(])|(?<=\b[a-z])-(?=\d)", _operator),
    Rule(re.compile(r"(?<=[A-Za-z])[₀-₉]{1,3}(?![₀-₉])"), _subscript),
    Rule(re.compile(r"(?<=\d) ?→ ?(?=\d)"), lambda match: " to "),
    Rule(re.compile(r"(?<![\u0370-\u03ff])[α-ωΓΔΘΛΞΠΣΦΨΩ](?![\u0370-\u03ff])"), _greek),
    rule(r"(?<=\d)\*(?=\d)", lambda match: " times "),
    rule(r"(?<=\d)!(?= ?[-=+×÷*/])", lambda match: " factorial"),
    rule(r"°(?P<scale>[CF])\b", lambda match: f"degrees {'Celsius' if match['scale'] == 'C' else 'Fahrenheit'}"),
    Rule(re.compile(r"(?:[~≈∼<>≤≥]|[<>]=) ?(?=[$€£]?\.?\d)"), _compared),
    Rule(re.compile(r"(?:(?<=[\d%])|(?<=\b[A-F]))\+(?![\w+])"), lambda match: " plus"),
    Rule(re.compile(r"(?<=\d)-(?=\s|$)(?<=\b[A-F]-)"), lambda match: " minus"),
    Rule(re.compile(r"(?<![&\w])&(?![&#\w])|(?<=\w)&(?=\w)|(?<=\w)&(?= )|(?<= )&(?=\w)"), _spaced),
    Rule(re.compile(r"[%@π∞±§©]|°(?=[CFKNSEW\s]|$)|(?<=\w )[=×+÷](?= \w)"), _spaced),
)
