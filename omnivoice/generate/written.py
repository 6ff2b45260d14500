"""The one place where a text is changed before it is cleaned: by a dictionary, then by normalisation, both on request.

Both work on the text without invisible characters. What the dictionary puts in is not normalised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import InputError
from ..intake.limits import shown
from ..intake.text_in import clean_text
from ..text.dictionary import Respelled, respelled
from ..text.languages import language_id, language_label
from ..text.normalise import Normalised, changes_note, normalise
from ..text.normalise.result import places
from ..text.rules import PUBLISHED, TextRules
from ..text.vocabulary import named
from ..types import Change, Dictionary, DictionaryEntry, GenerationRequest


@dataclass(frozen=True)
class Written:
    """A text as it is to be spoken, and what was changed, with places in the text without invisible characters."""

    text: str
    respelled: tuple[Change, ...] = ()
    normalised: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each of the two that names its changes."""
        pairs = (("dictionary", self.respelled), ("normalised", self.normalised))
        return tuple(changes_note(changes, name) for name, changes in pairs if changes)


def written_text(request: GenerationRequest, rules: TextRules, language: str | None) -> Written:
    """Return the text of a request with its dictionary and normalisation; tags and the model's own tokens stay."""
    text = clean_text(request.text)
    first, second = Normalised(text), Normalised(text)
    if request.dictionary is not None:
        first = _respelled(text, request.dictionary, rules, language).result
        second = Normalised(first.text)
    if request.normalise:
        spoken_in = language_label(language) if language else None
        second = normalise(first.text, spoken_in, tokens=_tokens(rules), kept=places(first.changes))
    changes = tuple(replace(one, start=first.origin(one.start), end=first.origin(one.end)) for one in second.changes)
    return Written(second.text, first.changes, changes, second.warnings)


def check_dictionary(dictionary: object) -> Dictionary | None:
    """Return a dictionary, or None for None; raises InputError for anything else."""
    if dictionary is not None and not isinstance(dictionary, Dictionary):
        raise InputError(f"dictionary must be a Dictionary, got {shown(dictionary)}; make one with parse_dictionary")
    return dictionary


def unused_entries(requests: Iterable[GenerationRequest], rules: TextRules = PUBLISHED) -> tuple[str, ...]:
    """Return one line for the dictionary of `requests` that names the entries without a word in any of their texts."""
    found: dict[int, tuple[Dictionary, set[DictionaryEntry]]] = {}
    for request in requests:
        if request.dictionary is not None:
            language = language_id(request.language, rules.languages)
            used = _respelled(clean_text(request.text), request.dictionary, rules, language).used
            found.setdefault(id(request.dictionary), (request.dictionary, set()))[1].update(used)
    lines = []
    for dictionary, used in found.values():
        unused = [entry.word for entry in dictionary.entries if entry not in used]
        if unused:
            lines.append(
                f"dictionary: {len(unused)} of {len(dictionary.entries)} entries have no word in the text: "
                f"{named(unused)}"
            )
    return tuple(lines)


def _respelled(text: str, dictionary: Dictionary, rules: TextRules, language: str | None) -> Respelled:
    return respelled(text, dictionary, language, tokens=_tokens(rules))


def _tokens(rules: TextRules) -> list[str]:
    return [*(token.text for token in rules.own.tokens if not token.is_word), *(f"[{tag}]" for tag in rules.tags)]
