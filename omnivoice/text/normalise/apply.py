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

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from ...intake.cancel import hear_cancel
from ...intake.limits import MAX_RUN_CHARS
from ...text.languages import language_id
from . import chinese, english, other
from .protected import protected_spans
from .result import Normalised, Replacement, applied, joined
from .scripts import language_parts

HIDDEN = "\ufffc"  # stands for each character of a control span
_MAX_ROUNDS = 5  # each finds less; two are enough for any text that people write
_CHINESE = ("zh", "yue", "nan")


def normalise(
    text: str, language: str | None, *, tokens: Collection[str] = (), kept: Sequence[tuple[int, int]] = ()
) -> Normalised:
    """Return `text` as it is spoken: numbers, symbols and abbreviations in words, control spans as they are.

    language: anything that `language_id` takes; None = by the script of each part. tokens: strings that the model
    knows as tokens of their own. kept: (start, end) of parts that stay as they are, in order. A language without rules
    leaves the text as it is, with a warning if a number in it stays. The rules are applied until they change nothing
    more, so that the result, normalised again, stays as it is; a result of more than `MAX_RUN_CHARS` is not normalised
    again, since it is too long to be spoken.
    Raises InputError for an unknown language, and nothing for any text.
    """
    language = language_id(language)
    result = _once(text, language, tokens, kept)
    for _ in range(_MAX_ROUNDS):
        if not result.changes or len(result.text) > MAX_RUN_CHARS:
            break
        again = _once(result.text, language, tokens, result.moved(kept))
        if not again.changes:
            break
        result = joined(text, result, again)
    return result


def _once(text: str, language: str | None, tokens: Collection[str], kept: Sequence[tuple[int, int]]) -> Normalised:
    hear_cancel()
    visible = list(text)
    for start, end in protected_spans(text, tokens):
        visible[start:end] = HIDDEN * (end - start)
    masked = "".join(visible)
    found: list[Replacement] = []
    warnings: dict[str, None] = {}
    for start, end, spoken_in in [(0, len(text), language)] if language else language_parts(masked):
        rules, missing = _rules(spoken_in, masked[start:end])
        warnings.update(dict.fromkeys(missing))
        part = rules(masked[start:end])
        found += [Replacement(start + one.start, start + one.end, one.spoken) for one in part]
    return replace(applied(text, _allowed(text, masked, found, kept)), warnings=tuple(warnings))


def _rules(language: str | None, part: str) -> tuple[Callable[[str], list[Replacement]], tuple[str, ...]]:
    """Return the rules of the language, and a warning if `part` has numbers that they cannot speak."""
    if language == "en":
        return english.replacements, ()
    if language in _CHINESE:
        return partial(chinese.replacements, traditional=language != "zh"), ()
    return other.rules_of(language), other.warnings_of(language, part)


def _allowed(
    text: str, masked: str, found: Iterable[Replacement], kept: Sequence[tuple[int, int]]
) -> Iterator[Replacement]:
    """Yield the replacements in order, without those of control spans and of places that are kept or already taken."""
    starts, end = [start for start, _ in kept], 0
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if one.start < end or HIDDEN in masked[one.start : one.end] or text[one.start : one.end] == one.spoken:
            continue
        before = bisect_left(starts, one.end)  # the number of kept parts that start before it ends
        if before and kept[before - 1][1] > one.start:
            continue
        yield one
        end = one.end
