"""Pronunciations in the text: CMU phonemes for English, as in `[B EY1 S]`, and pinyin for Chinese, as in 打ZHE2出.

Upstream documents both (README, "Pronunciation Control"): phonemes are capitals in brackets; pinyin is capitals with a
tone of 1-5, without brackets, between the characters. What is almost one of the two is named as that. A code such as
RTX4 between Chinese characters is not taken for pinyin. Nothing here changes a text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import cast

from ..intake.tables import load_table
from .characters import HAN

_PHONEME = re.compile(r"([A-Z]{1,2})(\d*)")
_SYLLABLE = re.compile(r"([A-Z]{1,6}|[A-Z]{1,4}U:[A-Z]{0,2})(\d)", re.IGNORECASE)
_SHAPE = re.compile(r"(?:[ZCS]H)?[B-DF-HJ-NP-TV-Z]?[AEIOUV]{1,3}(?:NG?|R)?|[ZCS]H[A-Z]{0,4}", re.IGNORECASE)
_IN_TEXT = re.compile(rf"(?:(?<=[{HAN}])[A-ZÜ]{{2,6}}\d(?![A-Za-z\d])|(?<![A-Za-z\d])[A-ZÜ]{{2,6}}\d(?=[{HAN}]))")


@cache
def _table(name: str) -> frozenset[str]:
    return frozenset(cast("dict[str, list[str]]", load_table("text/tags.json"))[name])


@cache
def pinyin_syllables() -> frozenset[str]:
    """Return every syllable of Mandarin in pinyin, in capitals, with V for ü."""
    table = cast("dict[str, dict[str, str]]", load_table("text/tags.json"))["pinyin"]
    return frozenset((initial + final).upper() for initial, finals in table.items() for final in finals.split())


def is_phonemes(name: str) -> bool:
    """Whether `name`, the inside of a bracket such as `[B EY1 S]`, is a pronunciation in CMU notation."""
    return not _wrong_phonemes(name.split())


def pronunciation_fault(name: str) -> str | None:
    """Return what is wrong with the inside of a bracket that is nearly CMU notation, or pinyin; None for all else."""
    parts = name.split()
    if _is_nearly_phonemes(parts):
        return (
            f"[{name}] is not a pronunciation in CMU notation, because of {', '.join(_wrong_phonemes(parts))}: vowels "
            "have a stress of 0-2 and consonants have none, as in [B EY1 S]"
        )
    if is_phonemes(name.upper()) and any(map(str.isdigit, name)):
        return f"[{name}] is in CMU notation, which is written in capitals: [{name.upper()}]"
    if not parts or not all(map(_SYLLABLE.fullmatch, parts)) or len(name) < 3:
        return None
    wrong = [part for part in parts if _pinyin_fault(part)]
    if not wrong:
        return f"[{name}] is pinyin, which is written in capitals and without brackets: {name.upper()}"
    if len(wrong) < len(parts) or any(_SHAPE.fullmatch(part[:-1]) for part in parts):
        return f"[{name}] is not pinyin: {_pinyin_fault(wrong[0])}"
    return None


def pinyin_faults(text: str) -> list[str]:
    """Return what is wrong with each piece of pinyin next to a Chinese character, such as 打ZHE9."""
    found = [match[0] for match in _IN_TEXT.finditer(text)]
    faults = [_pinyin_fault(part) for part in dict.fromkeys(found) if _SHAPE.fullmatch(_plain(part[:-1]))]
    return [f"{fault}; if it is not meant as pinyin, all is well" for fault in faults if fault]


def _is_nearly_phonemes(parts: list[str]) -> bool:
    """Whether all `parts` look like phonemes, and at least half of them are, but for their stress."""
    matches = [match for match in map(_PHONEME.fullmatch, parts) if match]
    known = [match for match in matches if match[1] in _table("consonants") | _table("vowels")]
    single = len(parts) == 1 and not parts[0][-1:].isdigit()
    return len(matches) == len(parts) > 0 and 2 * len(known) >= len(parts) and not single


def _wrong_phonemes(parts: list[str]) -> list[str]:
    consonants, vowels = _table("consonants"), _table("vowels")
    return [part for part in parts if part not in consonants and re.sub("[0-2]$", "", part) not in vowels]


def _plain(syllable: str) -> str:
    return syllable.upper().replace("U:", "V").replace("Ü", "V")


def _pinyin_fault(part: str) -> str | None:
    """Return why `part`, letters and a digit, is not pinyin; None if it is."""
    if _plain(part[:-1]) not in pinyin_syllables():
        return f"{part} has no syllable of Mandarin in it, such as ZHE2"
    return None if part[-1] in "12345" else f"{part} has no tone of Mandarin, 1-5 (5 is the neutral one)"
