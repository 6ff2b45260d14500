"""Roman numerals in English: after names ("the eighth"), after headings ("four"), of centuries and of years."""

from __future__ import annotations

import re

from .english_words import cardinal, ordinal, year
from .rules import Rule, rule, word_after, word_before
from .tables import english_map, english_words

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_VALID = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")


def roman(text: str) -> int:
    """Return the value of a Roman numeral in capitals, or 0 if it is not a well-formed one."""
    if not text or not _VALID.fullmatch(text):
        return 0
    values = [_VALUES[char] for char in text]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0]))


def _roman(match: re.Match[str]) -> str | None:
    """A numeral after a name ("the eighth"), after a heading ("four"), or after another capitalised word."""
    numeral, name = match["numeral"], match["name"]
    number = roman(numeral.upper())
    bare, full = name.rstrip("."), english_map("before_numbers").get(name, name)
    if not number or (numeral == "I" and not _is_numeral(match, bare)):
        return None
    if numeral.islower() and bare.lower() not in english_words("small_roman"):
        return None
    small = numeral.islower() and len(numeral) > 1
    if small or bare.lower() in english_words("headings") or (full != name and len(numeral) > 1):
        return f"{full} {cardinal(number)}"
    if numeral.islower() or (len(numeral) < 2 and not _is_ruler(match, bare)):
        return None
    if _is_ruler(match, bare) or _is_person(match, bare):
        return f"{name} the {ordinal(number)}"
    named = bare[:1].isupper() and bare.lower() not in english_words("no_roman")
    medical = numeral == "IV" and word_after(match) in english_words("after_drips")
    if number < 40 and named and not medical and numeral not in ("XX", "XXX"):
        return f"{name} {cardinal(number)}"
    return None


def _is_numeral(match: re.Match[str], name: str) -> bool:
    """Whether an I is a numeral, and not the pronoun: "World War I veterans", but "In part I agree"."""
    after = word_after(match)
    if name in ("War", "Type") or not after or (after[:1].isupper() and name[:1].isupper()):
        return after not in english_words("after_pronoun")
    return name[:1].isupper() and after in english_words("after_numeral")


def _is_ruler(match: re.Match[str], name: str) -> bool:
    titled = word_before(match).lower() in english_words("titles")
    return (titled or name in english_words("rulers")) and roman(match["numeral"]) < 30


def _is_person(match: re.Match[str], name: str) -> bool:
    """Whether a first name and a surname stand before the numeral: "John Smith III"."""
    return (
        match["numeral"] in ("II", "III", "IV")
        and name[:1].isupper()
        and word_before(match).rstrip(".") in english_words("first_names")
    )


def _roman_century(match: re.Match[str]) -> str | None:
    number = roman(match["numeral"])
    return ordinal(number) if number else None


def _roman_year(match: re.Match[str]) -> str | None:
    number = roman(match[0])
    return year(number) if 1500 <= number <= 2100 else None


def _with_article(match: re.Match[str]) -> str | None:
    """Louis the XIVth."""
    number = roman(match["numeral"])
    known = number and match["name"] in english_words("rulers")
    return f"{match['name']} the {ordinal(number)}" if known else None


def _two(match: re.Match[str]) -> str | None:
    """A ruler of two countries: James VI and I."""
    first, second = roman(match["first"]), roman(match["second"])
    if match["name"] not in english_words("rulers") or not (first and second):
        return None
    return f"{match['name']} the {ordinal(first)} and {ordinal(second)}"


def _several(match: re.Match[str]) -> str | None:
    """Several numerals after a heading in the plural: Sections III–V, World Wars I and II."""
    name = match["name"]
    if name.lower().removesuffix("s") not in english_words("headings") or not name.endswith("s"):
        return None
    numerals = re.findall("[IVXLC]+", match["numerals"])
    if not all(map(roman, numerals)):
        return None
    spoken = re.sub("[IVXLC]+", lambda one: cardinal(roman(one[0])), match["numerals"])
    return f"{name} {re.sub(' ?[-–] ?', ' to ', spoken)}"


RULES = (
    rule(r"\bWW ?(?:(?P<second>II|2)|I|1)\b", lambda match: f"World War {'two' if match['second'] else 'one'}"),
    rule(r"\b(?P<name>[A-Z][a-z]+) (?P<the>the) (?P<numeral>[IVX]{1,5})(?:th)?(?![\w'])", _with_article),
    Rule(re.compile("[\u2160-\u216b]"), lambda match: cardinal(ord(match[0]) - 0x215F)),
    rule(
        r"\b(?P<name>[A-Z][a-z]+) (?P<first>[IVX]{1,5}) and (?P<second>[IVX]{1,5})(?=$|[,.;:)\n]| (?:of|was)\b)", _two
    ),
    Rule(
        re.compile(
            r"(?<![\w.-])(?P<name>[A-Za-z]{3,12}s) (?P<numerals>[IVXLC]{1,7}"
            r"(?:(?: ?[-–] ?|, (?:and |or )?| and | or | to | through )[IVXLC]{1,7})+)(?![\w'’])"
        ),
        _several,
    ),
    Rule(re.compile(r"\b(?P<numeral>[IVX]{1,6})(?:th)?(?=(?: and [IVX]+)? (?:century|centuries)\b)"), _roman_century),
    Rule(
        re.compile(
            r"(?<![\w.-])(?P<name>[^\W\d_][\w'’-]{0,30}\.?)[ \u00a0](?P<numeral>[IVXLC]{1,8}|[ivx]{1,5})"
            r"(?=['’]s\b|(?![\w'’&/]|-\w|\.\w))"
        ),
        _roman,
    ),
    Rule(re.compile(r"\b(?=MC|MD|MM)[MDCLXVI]{4,15}\b"), _roman_year),
)
