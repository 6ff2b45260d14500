"""Languages without rules of our own: numbers through the package num2words, when it is installed.

It gives cardinals, ordinals, years and the names of currencies. The decimal mark, and the words for it, for a minus and
for percent, are in other.json. Numbers that belong to something else stay as they are: times, dates, versions, and
numbers in words.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, cast

from ...intake.cancel import hear_cancel
from ...intake.tables import load_table
from .result import Replacement

_FAILS = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
_MAX_DIGITS = 15
_GERMAN_CUES = re.compile(r"\b(?:(am|im|zum|vom|beim|dem|den|des|bis|seit)|der|die|das)\s$", re.IGNORECASE)


@dataclass(frozen=True)
class _Speaker:
    """The words of one language: its row of other.json, and what num2words makes of a number."""

    language: str
    row: dict[str, Any]
    words: Callable[..., str]
    converter: Any

    def number(self, value: int, kind: str = "cardinal") -> str:
        """Return the number in words, or "" where num2words has none."""
        try:
            return str(self.words(value, to=kind, lang=self.row.get("code", self.language))).strip()
        except _FAILS:
            return ""

    def currency(self, code: str, amount: int, cents: bool = False) -> str:
        """Return the name of a currency, or of its hundredth, in the right number; "" where there is none."""
        try:
            return str(self.converter.pluralize(amount, self.converter.CURRENCY_FORMS[code][int(cents)]))
        except _FAILS:
            return ""


def rules_of(language: str | None) -> Callable[[str], list[Replacement]]:
    """Return the rules of the language; none for one that is not known, or without num2words."""
    speaker = _speaker(language)
    return (lambda text: []) if isinstance(speaker, str) else partial(_replacements, speaker)


def warnings_of(language: str | None, text: str) -> tuple[str, ...]:
    """Return why the numbers in `text` stay as they are, if it has any and they do."""
    speaker = _speaker(language)
    return (speaker,) if isinstance(speaker, str) and any(map(str.isdigit, text)) else ()


def _speaker(language: str | None) -> _Speaker | str:
    """Return the speaker of a language, or why there is none."""
    if language is None:
        return "numbers stay as they are in a text whose language is not given: set the language"
    row = cast("dict[str, dict[str, Any]]", load_table("text/normalise/other.json"))["languages"].get(language)
    if row is None:
        return f"numbers stay as they are in {language}: there are no rules for this language; write them as words"
    try:
        package = importlib.import_module("num2words")
    except ImportError:
        return f"numbers stay as they are in {language}: install the package num2words (pip install num2words)"
    converter = package.CONVERTER_CLASSES.get(row.get("code", language))
    if converter is None:
        return f"numbers stay as they are in {language}: this num2words does not know it; a newer one may"
    return _Speaker(language, row, package.num2words, converter)


@cache
def _pattern(mark: str, ordinal: str, unspaced: bool) -> re.Pattern[str]:
    """Return the pattern of a number with its sign, currency, percent sign or ordinal ending."""
    group = r"[.\u00a0\u202f ’']" if mark == "," else r"[,\u00a0\u202f]"
    table = cast("dict[str, dict[str, str]]", load_table("text/normalise/other.json"))["currencies"]
    signs = "|".join(map(re.escape, sorted(table, key=len, reverse=True)))
    letters = "A-Za-z0-9" if unspaced else r"\w"
    endings = rf"|(?P<ordinal>{ordinal})(?!\w)" if ordinal else ""
    return re.compile(
        rf"(?<![{letters}.,:/])(?:(?P<before>{signs}|%)[ \u00a0]?)?(?P<sign>(?<![\w)\]])[-−])?"
        rf"(?P<whole>\d{{1,3}}(?:{group}\d{{3}})+(?!\d)|\d+)(?:[.,](?P<decimals>\d+))?"
        rf"(?:[ \u00a0]?(?P<percent>%)|[ \u00a0]?(?P<after>{signs})(?!\w){endings})?(?![A-Za-z\d]|[.,:/-]\d)"
    )


def _replacements(speaker: _Speaker, text: str) -> list[Replacement]:
    """Return what is spoken for the numbers of a text."""
    found = []
    hear_cancel()
    for match in _pattern(speaker.row["mark"], speaker.row.get("ordinal", ""), "unspaced" in speaker.row).finditer(
        text
    ):
        hear_cancel()
        spoken = _spoken(speaker, match)
        if spoken:
            found.append(Replacement(*match.span(), spoken))
        elif speaker.language == "de" and (spoken := _german_ordinal(speaker, match)):
            found.append(Replacement(match.start(), match.end() + 1, spoken))
    return found


def _spoken(speaker: _Speaker, match: re.Match[str]) -> str:
    """Return the words of one number, or "" to leave it as it is."""
    row, written = speaker.row, match["whole"]
    whole = re.sub(r"\D", "", written)
    if len(whole) > _MAX_DIGITS or not whole.isascii():
        return ""
    plain = not (match["decimals"] or match["percent"] or match["before"] or match["after"])
    if match.re.groupindex.get("ordinal") and match["ordinal"]:
        return _ordinal(speaker, int(whole), match["ordinal"])
    if plain and speaker.language == "de" and _german_ordinal(speaker, match):
        return ""  # the full stop belongs to it
    code = _currency_code(match)
    kind = "year" if plain and row.get("years") and written == whole and 1100 <= int(whole) <= 1999 else "cardinal"
    words = speaker.number(int(whole), kind)
    if len(whole) > 1 and whole[0] == "0":
        words = " ".join(speaker.number(int(digit)) for digit in whole)
    if plain and whole == "1" and re.match(r"[ \u00a0]\w", match.string[match.end() : match.end() + 2]):
        words = row.get("one", words)
    if not words:
        return ""
    gap = "" if row.get("unspaced") else " "
    sign = row["minus"] + gap if match["sign"] else ""
    if match["before"] == "%":
        sign = f"{row['percent_before']} {sign}" if "percent_before" in row else f"%{sign}"
    if code:
        return sign + _money(speaker, match, int(whole), code)
    if match["decimals"]:
        words = gap.join([words, row["point"], *(speaker.number(int(digit)) for digit in match["decimals"])])
    percent = match["percent"] and row.get("percent", "")
    return sign + words + (gap + percent if percent else "%" if match["percent"] else "")


def _currency_code(match: re.Match[str]) -> str:
    table = cast("dict[str, dict[str, str]]", load_table("text/normalise/other.json"))["currencies"]
    return table.get(match["before"] or match["after"] or "", "")


def _money(speaker: _Speaker, match: re.Match[str], whole: int, code: str) -> str:
    """Return an amount of money; two decimals are hundredths. Without a name for the currency the sign stays."""
    name = speaker.currency(code, whole)
    words = speaker.row.get("one", "") if whole == 1 else ""
    words = words or speaker.number(whole)
    decimals = match["decimals"] or ""
    if len(decimals) not in (0, 2):
        words = " ".join([words, speaker.row["point"], *(speaker.number(int(digit)) for digit in decimals)])
    if not name:
        return f"{match['before'] or ''}{words} {match['after'] or ''}".strip()
    spoken = f"{words} {name}"
    if len(decimals) == 2 and int(decimals):
        spoken += f" {speaker.number(int(decimals))} {speaker.currency(code, int(decimals), cents=True)}".rstrip()
    return spoken


def _ordinal(speaker: _Speaker, number: int, ending: str) -> str:
    """Return an ordinal; the feminine one of the languages whose ending says so."""
    words = speaker.number(number, "ordinal")
    if ending.lstrip(".") in ("ª", "ra", "da", "ta", "re", "ère", "nde"):
        french = {"premier": "première", "second": "seconde"}
        words = french.get(words, words) if speaker.language == "fr" else re.sub(r"o\b", "a", words)
    return words


def _german_ordinal(speaker: _Speaker, match: re.Match[str]) -> str:
    """Return the ordinal of "am 3. Mai" and "der 2. Platz"; "" if the full stop ends a sentence."""
    text, end = match.string, match.end()
    cue = _GERMAN_CUES.search(text[max(0, match.start() - 10) : match.start()])
    if not cue or not re.match(r"\.\s\w", text[end : end + 3]):
        return ""
    return speaker.number(int(match["whole"]), "ordinal") + ("n" if cue[1] else "")
