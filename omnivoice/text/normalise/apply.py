"""`normalise`: finds the language of each part of a text, asks its rules, and makes the replacements they return.

A language's rules are a function `replacements(text) -> list[Replacement]`. It receives a part of the text in which
every character of a control span is U+FFFC, the object replacement character, so that places count as in the original
and rules still see what stands around a span. What a rule returns for a control span, or twice for one place, is left
out.

Without a language, the script of the letters decides: Han is Chinese, or Japanese if the text has kana; Latin is
English; Hangul is Korean. Numbers and symbols belong to the nearest letter, or to the one before them if both are as
near. Text in other scripts stays as it is, because a script has many languages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from ...text.languages import language_id
from . import chinese, english, other
from .protected import protected_spans
from .result import Change, Normalised, Replacement
from .scripts import language_parts

HIDDEN = "\ufffc"  # stands for each character of a control span
_CHINESE = ("zh", "yue", "nan")


def normalise(text: str, language: str | None, *, tokens: Collection[str] = ()) -> Normalised:
    """Return `text` as it is spoken: numbers, symbols and abbreviations in words, control spans as they are.

    language: anything that `language_id` takes; None = by the script of each part. tokens: strings that the model
    knows as tokens of their own. A language without rules leaves the text as it is, with a warning if a number in it
    stays. Raises InputError for an unknown language, and nothing for any text.
    """
    language = language_id(language)
    spans = protected_spans(text, tokens)
    visible = list(text)
    for start, end in spans:
        visible[start:end] = HIDDEN * (end - start)
    masked = "".join(visible)
    found: list[Replacement] = []
    warnings: dict[str, None] = {}
    for start, end, spoken_in in [(0, len(text), language)] if language else language_parts(masked):
        rules, missing = _rules(spoken_in, masked[start:end])
        warnings.update(dict.fromkeys(missing))
        part = rules(masked[start:end])
        found += [Replacement(start + one.start, start + one.end, one.spoken) for one in part]
    return _applied(text, masked, found, tuple(warnings))


def _rules(language: str | None, part: str) -> tuple[Callable[[str], list[Replacement]], tuple[str, ...]]:
    """Return the rules of the language, and a warning if `part` has numbers that they cannot speak."""
    if language == "en":
        return english.replacements, ()
    if language in _CHINESE:
        return partial(chinese.replacements, traditional=language != "zh"), ()
    return other.rules_of(language), other.warnings_of(language, part)


def _applied(text: str, masked: str, found: Iterable[Replacement], warnings: tuple[str, ...]) -> Normalised:
    parts: list[str] = []
    changes: list[Change] = []
    end = 0
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        original = text[one.start : one.end]
        if one.start < end or HIDDEN in masked[one.start : one.end] or original == one.spoken:
            continue
        parts += [text[end : one.start], one.spoken]
        changes.append(Change(one.start, one.end, original, one.spoken))
        end = one.end
    return Normalised("".join([*parts, text[end:]]), tuple(changes), warnings)
