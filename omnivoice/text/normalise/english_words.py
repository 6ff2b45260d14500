"""Numbers as English words, in the American way: "one hundred twenty-three", without "and".

Numbers that are too large to have a name are spoken digit by digit.
"""

from __future__ import annotations

from .tables import english_words

_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def _small() -> tuple[str, ...]:
    return english_words("small")


def _tens() -> tuple[str, ...]:
    return english_words("tens")


def _scales() -> tuple[str, ...]:
    return english_words("scales")


def cardinal(number: int) -> str:
    """Return the number in words: -21 gives "minus twenty-one"."""
    if number < 0:
        return f"minus {cardinal(-number)}"
    if number >= 1000 ** len(_scales()):
        return digits(str(number))
    if number < 1000:
        return _below_thousand(number)
    words: list[str] = []
    for scale in range(len(_scales()) - 1, -1, -1):
        group = number // 1000**scale % 1000
        if group:
            words.append(_below_thousand(group) + (f" {_scales()[scale]}" if scale else ""))
    return " ".join(words)


def _below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    words = [f"{_small()[hundreds]} hundred"] if hundreds else []
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        words.append(_tens()[tens] + (f"-{_small()[ones]}" if ones else ""))
    elif rest or not words:
        words.append(_small()[rest])
    return " ".join(words)


def ordinal(number: int) -> str:
    """Return the ordinal in words: 21 gives "twenty-first"."""
    return ordinal_of(cardinal(number))


def ordinal_of(words: str) -> str:
    """Return the ordinal of a number in words: "twenty-one" gives "twenty-first"."""
    head = words.rstrip("abcdefghijklmnopqrstuvwxyz")
    last = words[len(head) :]
    if last in _ORDINALS:
        return head + _ORDINALS[last]
    return head + (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")


def plural(words: str) -> str:
    """Return the plural of a number in words: "ninety" gives "nineties"."""
    if words.endswith("y"):
        return f"{words[:-1]}ies"
    return words + ("es" if words.endswith("x") else "s")


def digits(text: str, zero: str = "zero") -> str:
    """Return the digits of `text` one by one, with `zero` for 0; other characters are left out."""
    return " ".join(zero if char == "0" else _small()[int(char)] for char in text if char.isascii() and char.isdigit())


def year(number: int) -> str:
    """Return a year as people say it: 1984, 1905, 1900, 2007, 2024; below 1000, and 2000-2009, as a cardinal."""
    century, rest = divmod(number, 100)
    if number < 1000 or number > 9999 or number % 1000 < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {pair(rest)}"


def pair(number: int) -> str:
    """Return two digits as in a year or a time: 5 gives "oh five", 15 gives "fifteen"."""
    return f"oh {_small()[number]}" if number < 10 else cardinal(number)


def code(text: str) -> str:
    """Return the digits of a code, such as a flight or a room, as people read them.

    Up to two digits are a number, three and four are read in pairs (370 is "three seventy"), and more, or those with a
    leading zero, one by one.
    """
    number = int(text)
    if text[0] == "0" or len(text) > 4:
        return digits(text)
    if len(text) < 3 or number % 1000 == 0:
        return cardinal(number)
    hundreds, rest = divmod(number, 100)
    return f"{cardinal(hundreds)} {pair(rest) if rest else 'hundred'}"
