"""Other languages: through num2words, or through nothing, with a message that says so once."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import ClassVar

import pytest

from omnivoice.text.normalise import normalise


def lettered(text: str) -> str:
    """The text with the digits in angle brackets as letters: <21> is <cb>, words that no rule takes for a number."""
    return re.sub(r"<[^>]*>", lambda match: match[0].translate(str.maketrans("0123456789", "abcdefghij")), text)


class FakeConverter:
    """A converter with the two things that are used of num2words' own: names of currencies and their plural."""

    CURRENCY_FORMS: ClassVar = {"EUR": (("Taler", "Taler"), ("Groschen", "Groschens"))}

    def pluralize(self, number: int, forms: tuple[str, str]) -> str:
        return forms[number != 1]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """A num2words that gives <kind number>, and fails as the real one does where a language has no such number."""
    calls = []

    def words(number: int, to: str, lang: str) -> str:
        calls.append((number, to, lang))
        if number == 13:
            raise NotImplementedError
        return lettered(f"<{to} {number}>" if to != "cardinal" else f"<{number}>")

    package = SimpleNamespace(
        num2words=words, CONVERTER_CLASSES=dict.fromkeys(("de", "no", "es", "ja"), FakeConverter())
    )
    monkeypatch.setitem(sys.modules, "num2words", package)
    return calls


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("de", "21 Hunde", "<21> Hunde"),
        ("de", "-5 Grad", "minus <5> Grad"),
        ("de", "3,14 und 1.234,5", "<3> Komma <1> <4> und <1234> Komma <5>"),
        ("de", "50 % und 2,5%", "<50> Prozent und <2> Komma <5> Prozent"),
        ("de", "im Jahr 1984 und 2024", "im Jahr <year 1984> und <2024>"),
        ("de", "am 3. Mai. Es sind 3. Und", "am <ordinal 3>n Mai. Es sind <3>. Und"),
        ("de", "3,50 € oder 1 €", "<3> Taler <50> Groschens oder ein Taler"),
        ("de", "15:30, 12.03.2024, A4, v1.2.3", "15:30, 12.03.2024, A4, v1.2.3"),
        ("de", "13 und 007", "13 und <0> <0> <7>"),
        ("nb", "21", "<21>"),
        ("es", "la 3ª vez, el 2.º", "la <ordinal 3> vez, el <ordinal 2>"),
        ("es", "$5", "$<5>"),
        ("ja", "りんごが3.5個", "りんごが<3>点<5>個"),
        ("de", "[pause 2s] 2 [B EY1 S]", "[pause 2s] <2> [B EY1 S]"),
        ("de", "9" * 40, "9" * 40),
        ("de", "² ½ ٣", "² ½ ٣"),
    ],
)
def test_numbers(fake: list, language: str, text: str, expected: str) -> None:
    assert normalise(text, language).text == lettered(expected)


@pytest.mark.parametrize(
    ("language", "package", "message"),
    [
        ("de", None, "numbers stay as they are in de: install the package num2words (pip install num2words)"),
        ("sw", None, "numbers stay as they are in sw: there are no rules for this language; write them as words"),
        (
            "fr",
            SimpleNamespace(num2words=None, CONVERTER_CLASSES={}),
            "numbers stay as they are in fr: this num2words does not know it; a newer one may",
        ),
    ],
)
def test_numbers_that_stay_are_named_once(
    monkeypatch: pytest.MonkeyPatch, language: str, package: object, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "num2words", package)
    result = normalise("5 und 6\n7", language)
    assert result.text == "5 und 6\n7" and result.warnings == (message,)
    assert normalise("no number", language).warnings == ()


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "de",
            "Am 3. Mai 1984 kosteten 21 Äpfel 3,50 €.",
            "Am dritten Mai neunzehnhundertvierundachtzig kosteten einundzwanzig Äpfel drei Euro fünfzig Cent.",
        ),
        (
            "fr",
            "la 2e fois, 1 234 €, 3,5 %",
            "la deuxième fois, mille deux cent trente-quatre euros, trois virgule cinq pour cent",
        ),
        ("es", "la 3ª vez, 1.000.000", "la tercera vez, un millón"),
        ("ru", "5 ₽ и -3", "пять рублей и минус три"),
        ("ja", "3.5個と21個", "三点五個と二十一個"),
        ("tr", "%50", "yüzde elli"),
        ("nl", "de 3e keer", "de derde keer"),
    ],
)
def test_with_the_real_package(language: str, text: str, expected: str) -> None:
    pytest.importorskip("num2words", reason="num2words is not installed; tests/requirements.txt has it")
    assert normalise(text, language).text == expected
