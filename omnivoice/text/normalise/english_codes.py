"""English versions, internet addresses, model numbers, and names with digits in them: v2.0.1, A4, B2B, COVID-19, 4K."""

from __future__ import annotations

import re

from .english_counts import NUMBER, spoken_number
from .english_words import cardinal, code, digits, pair
from .rules import rule, word_after, word_before
from .tables import english_map, english_words


def _version(match: re.Match[str]) -> str:
    """v2.0.1, 1.2.3."""
    words = _points(match["number"])
    return f"version {words}" if match["v"] else words


def _points(text: str) -> str:
    parts = (digits(part) if len(part) > 1 and part[0] == "0" else cardinal(int(part)) for part in text.split("."))
    return " point ".join(parts)


def _named_version(match: re.Match[str]) -> str | None:
    """A number with one point after the name of a program or a standard: Python 3.11."""
    name = word_before(match)
    named = name.lower() in english_words("versioned") and (name != name.lower() or name in english_words("versions"))
    return _points(match[0]) if named else None


def _ip(match: re.Match[str]) -> str | None:
    if any(int(part) > 255 for part in match[0].split(".")):
        return None
    return " dot ".join(map(digits, match[0].split(".")))


def _hexadecimal(match: re.Match[str]) -> str:
    return " ".join(digits(char) if char.isdigit() else char.upper() for char in match[0])


def _number_sign(match: re.Match[str]) -> str:
    number = match["number"]
    return f"number {digits(number) if len(number) > 3 or number[0] == '0' else cardinal(int(number))}"


def _special(match: re.Match[str]) -> str | None:
    return english_map("special").get(match[0])


def _mixed(match: re.Match[str]) -> str:
    """Letters and digits in one word: A4, MP3, iPhone15, 221B, 1Z999AA1."""
    return " ".join(map(_token, match[0].split("-")))


def _token(token: str) -> str:
    parts = re.findall(r"\d+|\D+", token)
    many = len(parts) > 3 or (len(parts) == 3 and len(token) > 4)
    words = []
    for part in parts:
        if part.isdigit():
            single = (many and len(part) > 2) or (part[0] == "0" and len(part) > 1)
            words.append(digits(part) if single else code(part))
        else:
            words.append(" ".join(part) if many and part.isupper() and len(part) < 4 else part)
    return " ".join(words)


def _thousands(match: re.Match[str]) -> str | None:
    """1.5M followers, 2.3k views, 10bn."""
    if not _is_scale(match):
        return None
    return f"{spoken_number(match['number'])} {english_map('thousands')[match['scale'].strip()]}"


def _is_scale(match: re.Match[str]) -> bool:
    """Whether the letter after a number is a scale: after decimals always, else for k and M."""
    number, scale = match["number"], match["scale"].strip()
    if scale == "m" and word_after(match) in english_words("millions"):
        return True
    if scale in "kK" and word_after(match) == "gold":
        return False
    if scale in ("bn", "mn", "tn"):
        return True
    if "." in number or "," in number:
        return scale not in "t"
    if scale == "K" and (
        len(number) > 3 or match[0] in ("2K", "4K", "8K") or word_after(match).lower() in english_words("races")
    ):
        return False
    return scale in "kKM"


def _after_capitals(match: re.Match[str]) -> str:
    """The hyphen of F-16 and COVID-19."""
    return f"{match['name']} {code(match['number'])}" + ("s" if match["plural"] else "")


def _decimal_name(match: re.Match[str]) -> str:
    """PM2.5"""
    return f"{match['name']} {spoken_number(match['number'])}"


def _airliner(match: re.Match[str]) -> str:
    return " ".join(map(code, match[0].split("-")))


def _quarter(match: re.Match[str]) -> str:
    """Q3'24."""
    number = f" {cardinal(int(match['name'][-1]))}" if match["name"][-1].isdigit() else ""
    return f"{match['name'].rstrip('1234')}{number} {pair(int(match['year']))}"


RULES_FIRST = (
    rule(r"(?<![\w.])0[xX][\dA-Fa-f]{1,16}(?!\w)", _hexadecimal),
    rule(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]\d|\w)", _ip),
    rule(
        r"(?<![\w.])(?:(?P<v>v|V(?=\.?\d+\.\d)|v\. ?(?=\d+\.\d))\.?|(?=\d+\.\d+\.\d)(?!\d{1,3}(?:\.\d{3}){2}))"
        r"(?P<number>\d{1,6}(?:\.\d{1,6}){0,4})"
        r"(?!\d|[.,]\d|(?!(?:a|b|rc|beta|alpha|dev)\d*\b)\w)",
        _version,
    ),
    rule(r"(?<![\w.,])\d{1,4}\.\d{1,3}(?!\w|[.,]\d|%)", _named_version),
)
RULES = (
    rule(r"\bNo(?=\d{1,3}\b)", lambda match: "number "),
    rule(r"\b(?P<name>Q[1-4]|H[12]|FY)['’](?P<year>\d\d)(?!\w)", _quarter),
    rule(r"(?<![\w&])#(?=[A-Z]{1,3}-?\d+\b)", lambda match: "number "),
    rule(r"(?<![\w.])(?P<name>[A-Z]{1,4})(?P<number>\d+\.\d+)(?!\w|\.\d)", _decimal_name),
    rule(r"(?<=\b[aA] )7[0-8]7(?!\w|[.,]\d|-| [a-z]+s\b)", _airliner),
    rule(r"(?<![\w&])(?:#|№|＃) ?(?P<number>\d{1,12})(?![\w.,]\d|[a-z])", _number_sign),
    rule(r"(?<![\w])[A-Za-z\d][\w()]{1,10}(?!\w)", _special),
    rule(r"(?<![\w.,])7[0-8]7-(?:[1-9]00|8|9|10)(?![\w-])", _airliner),
    rule(r"(?<![\w.,])7[0-8]7(?= (?:MAX|Max|Dreamliner|jets?|planes?|aircraft|airliner)\b)", _airliner),
    rule(rf"(?<![\w.,$])(?P<number>{NUMBER})(?P<scale>[kKmMbBtT]|[ \u00a0]?(?:bn|mn|tn))(?![\w'’-])", _thousands),
    rule(
        r"(?<!\w)(?P<name>(?=[A-Za-z]*[A-Z])[A-Za-z]{1,12})-(?P<number>\d{1,5})(?P<plural>s?)(?!\w|-\w|[.,]\d)",
        _after_capitals,
    ),
    rule(
        r"(?<![\w.])(?!\d+(?:st|nd|rds?|ths?|s|ers|ST|ND|RD|TH)\b)(?=[A-Za-z-]*\d)(?=\d*[A-Za-z])"
        r"(?:[A-Za-z]+\d+|\d+[A-Za-z]+)[A-Za-z\d]*(?:-(?=[A-Z]*\d)[A-Z\d]+)*(?!\w)",
        _mixed,
    ),
)
