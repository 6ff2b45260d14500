"""The parts of a text that no rule may change: what controls the speech rather than being spoken.

These are tags, pauses, pronunciations, overrides, speaker labels, markup and a model's own tokens. A mark that is
nearly right, such as `[pause soon]`, is protected too, so that the message about it shows what was written.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import cast

from ...intake.tables import load_table
from ...text.characters import HAN
from ...text.markup import ENTITY, MARKUP
from ...text.pauses import ATTEMPT, PAUSE
from ...text.pronunciation import is_phonemes, pinyin_syllables, pronunciation_fault
from ...text.tags import BRACKETED, canonical_tags, is_tag

_OVERRIDE = re.compile(r"\{[ \t]*voice\b[^{}\n]{0,300}\}")
_SPECIAL = re.compile(r"<\|\w{0,64}\|>")
_SYLLABLE = r"((?:[A-ZÜ]{1,6}|[A-Z]{1,4}U:[A-Z]{0,2})[1-5])"
_PINYIN = re.compile(rf"(?<![A-Za-z0-9]){_SYLLABLE}+(?![A-Za-z0-9])")
_NEAR_HAN = re.compile(rf"[{HAN}]")
_BRACKET_LABEL = re.compile(r"^[ \t]*\[[^\[\]\n]{1,80}\][ \t]*[:：]", re.MULTILINE)
_LABEL = re.compile(
    r"^[ \t]*(?P<name>(?:[^\W\d_][\w.'’-]{0,30}[ \t]){1,4}(?:\d{1,3}|[A-Z])"
    r"|(?:Dr|Mr|Mrs|Ms|Prof)\.?[ \t][^\W\d_][\w'’-]{0,30})"
    r"(?=[ \t]?[:：][ \t]+\S)",
    re.MULTILINE,
)


def protected_spans(text: str, tokens: Collection[str] = ()) -> list[tuple[int, int]]:
    """Return (start, end) of every part of `text` that must stay as it is, in order and without overlap.

    tokens: strings that the model knows as tokens of their own, found exactly as they are.
    """
    found = [
        match.span()
        for pattern in (PAUSE, ATTEMPT, MARKUP, ENTITY, _OVERRIDE, _SPECIAL)
        for match in pattern.finditer(text)
    ]
    found += [match.span() for match in BRACKETED.finditer(text) if _is_control(match[1])]
    found += [match.span() for match in _BRACKET_LABEL.finditer(text)]
    found += [match.span() for match in _LABEL.finditer(text) if _is_label(match["name"])]
    found += _pinyin(text)
    for token in sorted(filter(None, tokens)):
        found += [match.span() for match in re.finditer(re.escape(token), text)]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _is_control(name: str) -> bool:
    """Whether the inside of a bracket is a known tag in any spelling, or a pronunciation, even a wrong one."""
    return is_tag(canonical_tags(f"[{name}]")) or is_phonemes(name) or pronunciation_fault(name) is not None


def _is_label(name: str) -> bool:
    """Whether the start of a line, before its colon, names a speaker; `Chapter 4:` and `In 1984:` do not."""
    words = name.split()
    return all(word[:1].isupper() or word.isdigit() for word in words) and words[0].lower() not in _headings()


@cache
def _headings() -> frozenset[str]:
    return frozenset(cast("dict[str, str]", load_table("text/normalise/protected.json"))["not_speakers"].split())


def _pinyin(text: str) -> list[tuple[int, int]]:
    """Return the pinyin with tones: next to Chinese characters or other pinyin, or of three letters and more."""
    found: list[tuple[int, int]] = []
    for match in _PINYIN.finditer(text):
        start, end = match.span()
        near = _NEAR_HAN.search(text[max(0, start - 1) : start] + text[end : end + 1])
        parts = re.findall(_SYLLABLE, match[0])
        known = all(part[:-1].replace("U:", "V").replace("Ü", "V") in pinyin_syllables() for part in parts)
        if known and end - start > (2 if near else 3):
            found.append((start, end))
    return found
