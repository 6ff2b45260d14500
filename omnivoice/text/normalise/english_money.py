"""English money: $3.5 million, £1,200.50, €5bn, 99¢, ¥500, 20 USD, a $5 bill, $3/lb."""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from ...intake.tables import load_table
from .english_counts import AMOUNT, DASH, spoken_amount, spoken_number
from .english_words import cardinal
from .phrases import attributive
from .rules import Rule

_SCALES = {
    "k": "thousand",
    "m": "million",
    "mm": "million",
    "mn": "million",
    "mil": "million",
    "mln": "million",
    "b": "billion",
    "bn": "billion",
    "bln": "billion",
    "t": "trillion",
    "tn": "trillion",
    "trn": "trillion",
}
_SCALE = (
    r"(?:[ \u00a0-]?(?P<word>hundred|thousand|million|billion|trillion|quadrillion|grand|lakh|crore)\b"
    r"|(?P<letter>[kKmMbBtT]|MM|mm)(?![\w])|[ \u00a0]?"
    r"(?P<short>mn|mln|mil|bn|bln|tn|trn|Mn|Mln|Bn|Bln|Tn|MN|BN|TN)\b)?"
)


@cache
def _currencies() -> dict[str, tuple[str, ...]]:
    """Return {sign or code: (singular, plural, singular and plural of its hundredth)}."""
    table = cast("dict[str, dict[str, str]]", load_table("text/normalise/currencies.json"))["currencies"]
    return {sign: tuple(names.split("|")) for sign, names in table.items()}


@cache
def _signs() -> str:
    """Return a pattern of all signs and codes, longest first."""
    return "|".join(map(re.escape, sorted(_currencies(), key=len, reverse=True)))


def _spoken(match: re.Match[str]) -> str | None:
    """An amount with its currency before or after it, a range, and a scale."""
    american = match["sign"] == "$" and match.re.groupindex.get("code") and match["code"]
    one, many, *cents = _currencies()["USD" if american else match["sign"]]
    scale = (match["word"] or _SCALES.get((match["letter"] or match["short"] or "").lower(), "")).lower()
    amount, low = match["amount"], match["low"]
    minus = "minus " if match["minus"] else ""
    if re.fullmatch(r"\d+,\d\d", amount):
        amount = amount.replace(",", ".")  # the decimal comma of other languages
    if low and not match["low_scale"]:
        if "." in low + amount and not scale:
            return f"{minus}{_sum(low, one, many, cents)} to {_sum(amount, one, many, cents)}"
        minus += f"{spoken_amount(low)} to "
    elif low:
        minus += f"{spoken_amount(low)} {_SCALES[match['low_scale'].lower()]} to "
    if scale:
        words = f"{spoken_amount(amount)} {scale} {one if attributive(match) else many}"
    elif attributive(match) and re.fullmatch(r"[\d,]+(?:\.00)?", amount):
        words = f"{spoken_number(amount.removesuffix('.00'))} {one}"
    else:
        words = _sum(amount, one, many, cents)
    return minus + words


def _sum(amount: str, one: str, many: str, cents: list[str]) -> str:
    """Return an amount without a scale; two decimals are cents."""
    whole, _, decimals = amount.partition(".")
    if not cents or len(decimals) != 2 or not decimals.isdigit():
        return f"{spoken_amount(amount)} {one if amount == '1' else many}"
    number = int(decimals)
    words = []
    if whole.replace(",", "").strip("0") or not number:
        words.append(f"{spoken_number(whole or '0')} {one if whole == '1' else many}")
    if number:
        words.append(f"{cardinal(number)} {cents[number != 1]}")
    return " and ".join(words)


def _cents(match: re.Match[str]) -> str | None:
    sign, amount = match["sign"].strip(), match["amount"]
    if sign == "p" and (len(amount) > 2 or not amount.isdigit()):
        return None
    low = f"{spoken_number(match['low'])} to " if match["low"] else ""
    if sign == "p":
        return f"{low}{spoken_number(amount)} {'penny' if amount == '1' else 'pence'}"
    return f"{low}{spoken_number(amount)} cent{'s' * (amount != '1' and not attributive(match))}"


def _pattern(before: bool) -> re.Pattern[str]:
    """Return the pattern of an amount whose currency stands before or after it."""
    sign, second = rf"(?P<sign>{_signs()})", rf"(?:{_signs()})?" if before else ""
    low = rf"(?:(?P<low>{AMOUNT})(?P<low_scale>[kKmMbB])?{DASH}{second})?"
    number = rf"{low}(?P<amount>(?<!\d)(?:\d{{1,6}},\d\d(?![\d,])|{AMOUNT})){_SCALE}"
    if before:
        minus = r"(?:(?<![\w.,)$€£¥-])(?P<minus>[-−–]))?"
        return re.compile(rf"{minus}(?<![A-Za-z]){sign}[ \u00a0]?{number}(?P<code> ?USD\b)?(?!\d)", re.ASCII)
    return re.compile(rf"(?<![\w.,])(?P<minus>[-−–])?{number}[ \u00a0]?{sign}(?![\w$€£¥])", re.ASCII)


@cache
def money_rules() -> tuple[Rule, ...]:
    """Return the rules, which need the table of currencies."""
    return (
        Rule(_pattern(True), _spoken),
        Rule(_pattern(False), _spoken),
        Rule(re.compile(rf"(?<![\w.,])(?:(?P<low>\d+){DASH})?(?P<amount>\d+(?:\.\d+)?)(?P<sign> ?¢|p\b)"), _cents),
    )
