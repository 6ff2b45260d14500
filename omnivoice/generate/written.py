"""The one place where a text is changed before it is cleaned: by a dictionary, then by normalisation, both on request.

Both work on the text without invisible characters. What the dictionary puts in is not normalised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from ..errors import InputError
from ..intake.limits import MAX_RUN_CHARS, check_text_length, shown
from ..intake.text_in import clean_text
from ..text.dictionary import Respelled, respelled
from ..text.languages import language_label
from ..text.normalise import Normalised, changes_note, normalise
from ..text.normalise.result import places
from ..text.rules import TextRules
from ..text.vocabulary import named
from ..types import Change, Dictionary, DictionaryEntry, GenerationPlan, GenerationRequest, Speech


@dataclass(frozen=True)
class Written:
    """A text as it is to be spoken, and what was changed, with places in the text without invisible characters."""

    text: str
    respelled: tuple[Change, ...] = ()
    normalised: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()
    used: frozenset[DictionaryEntry] = frozenset()

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each of the two that names its changes."""
        return _notes(self.respelled, self.normalised)


def written_text(request: GenerationRequest, rules: TextRules, language: str | None) -> Written:
    """Return the text of a request with its dictionary and normalisation; tags and the model's own tokens stay."""
    text = clean_text(request.text)
    made = Respelled(Normalised(text))
    tokens = [*(token.text for token in rules.own.tokens if not token.is_word), *(f"[{tag}]" for tag in rules.tags)]
    if request.dictionary is not None:
        made = respelled(text, request.dictionary, language, tokens=tokens)
    first, second = made.result, Normalised(made.result.text)
    if request.normalise:
        spoken_in = language_label(language) if language else None
        second = normalise(first.text, spoken_in, tokens=tokens, kept=places(first.changes))
    check_text_length(second.text, name="the text with its numbers as words", limit=MAX_RUN_CHARS)
    changes = tuple(replace(one, start=first.origin(one.start), end=first.origin(one.end)) for one in second.changes)
    return Written(second.text, first.changes, changes, second.warnings, made.used)


def check_dictionary(dictionary: object) -> Dictionary | None:
    """Return a dictionary, or None for None; raises InputError for anything else."""
    if dictionary is not None and not isinstance(dictionary, Dictionary):
        raise InputError(f"dictionary must be a Dictionary, got {shown(dictionary)}; make one with parse_dictionary")
    return dictionary


def text_notes(spoken: Iterable[GenerationPlan | Speech]) -> tuple[str, ...]:
    """Return what the dictionary and normalisation changed in all texts, and which entries none of them used."""
    every = [*spoken]
    words = [change for one in every for change in one.respelled]
    return (*_notes(words, [change for one in every for change in one.normalised]), *unused_entries(every))


def _notes(words: Sequence[Change], numbers: Sequence[Change]) -> tuple[str, ...]:
    pairs = (("dictionary", words), ("normalised", numbers))
    return tuple(changes_note(changes, name) for name, changes in pairs if changes)


def unused_entries(spoken: Iterable[GenerationPlan | Speech]) -> tuple[str, ...]:
    """Return one line for the dictionary of these plans or speeches that names the entries none of them used."""
    found: dict[int, tuple[Dictionary, set[DictionaryEntry]]] = {}
    for one in spoken:
        dictionary = None if one.request is None else one.request.dictionary
        if dictionary is not None:
            found.setdefault(id(dictionary), (dictionary, set()))[1].update(one.used_entries)
    return tuple(line for dictionary, used in found.values() for line in unused_line(dictionary, used))


def unused_line(dictionary: Dictionary, used: Collection[DictionaryEntry]) -> tuple[str, ...]:
    """Return one line that names the entries that are not in `used`; nothing if all are."""
    unused = [entry.word for entry in dictionary.entries if entry not in used]
    count = len(dictionary.entries)
    return (f"dictionary: not in the text are {len(unused)} of {count} entries: {named(unused)}",) if unused else ()
