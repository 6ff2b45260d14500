"""Languages: from what a user writes to the id that the prompt receives.

The table holds all 646 ids and names of upstream (utils/lang_map.py) and adds other ISO 639 codes, common names and
native names. A tag such as en-US, zh_TW or sr-Latn-RS counts as its language. Unlike upstream, case never matters and
an unknown name is reported with close matches. Nothing here detects the language of a text.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import cast

from ..errors import InputError
from ..intake.limits import shown
from ..intake.tables import load_table

_MAX_NAME_CHARS = 80
_MAX_SUGGESTIONS = 4
_EXTENDED = re.compile("[a-z]{3}")  # a subtag that is itself a language, as in zh-yue
_SUBTAG = re.compile("[a-z0-9]{1,8}")
_OWN = re.compile("id: ?([a-z]{2,8}(?:-[a-z0-9]{1,8}){0,3})")
_NO_LANGUAGE = re.compile("(?:und|mul|zxx|mis)(?:[-_][a-z0-9]{1,8})*")  # ISO 639's codes for none, or for several
_CANTONESE = re.compile(
    r"(?!.*\b(?:cmn|mandarin)\b)(?=.*(?:\b(?:zh|zho|chi|chinese)\b|中文))"
    r"(?=.*(?:\b(?:hk|mo|hong ?kong|maca[ou])\b|香港|澳門|澳门))"
)
_ACCEPTED = "auto, an id (en), a tag (en-US) and an English name are accepted"
_WHERE_LISTED = "python -m omnivoice languages lists them all"
_ID_LIKE = re.compile("[a-z]{2,3}|id:.*")


def language_id(value: object, own: Collection[str] = ()) -> str | None:
    """Return the id of the language that `value` names: an id, a BCP 47 tag in any spelling, a name or an alias.

    None, "auto", "" and their synonyms give None: the model guesses from the text. `id:la` gives "la", a language of
    one's own, whether it is in the table or not; for an id in `own`, those of the model, "la" does too. Raises
    InputError for a language that is not known, with close matches.
    """
    if value is None:
        return None
    key = _folded(value) if isinstance(value, str) and value.isascii() else ""
    if key in own:
        return key
    if named := _OWN.fullmatch(key):
        return named[1]
    hint = (
        "; write id:la if your model was trained with an id of its own, such as la" if _ID_LIKE.fullmatch(key) else ""
    )
    return _identified(value, _ids_by_key(), _table()["names"], _WHERE_LISTED + hint)


def language_label(language: str) -> str:
    """Return what `language_id` turns into `language`, an id: itself, or `id:la` for a language of one's own."""
    return language if language in _table()["names"] else f"id:{language}"


def own_languages(languages: Iterable[str | None], known: Collection[str] = ()) -> tuple[str, ...]:
    """Return one warning that names the ids in `languages` that are of one's own; none if OmniVoice has them all.

    known: more ids, those that the model says it was trained with.
    """
    names = _table()["names"]
    own = dict.fromkeys(one for one in languages if one and one not in names and one not in known)
    if not own:
        return ()
    return (f"{', '.join(own)}: not a language of OmniVoice; only a model that was trained with this id knows it",)


@cache
def language_options() -> tuple[tuple[str, str], ...]:
    """Return (id, display name) of every language, by name, for menus and lists."""
    return tuple(sorted(_table()["names"].items(), key=lambda item: _folded(item[1])))


def whisper_languages() -> Mapping[str, str]:
    """Return {display name: Whisper's id} of the 100 languages that Whisper transcribes."""
    return cast("Mapping[str, str]", load_table("text/whisper_languages.json"))


def whisper_language_id(value: object) -> str | None:
    """Return Whisper's id of the language that `value` names; otherwise as `language_id`."""
    names = {code: name for name, code in whisper_languages().items()}
    return _identified(
        value, _whisper_ids_by_key(), names, f"Whisper knows {len(names)} languages; the menu lists them"
    )


def _identified(value: object, known: Mapping[str, str], names: Mapping[str, str], where_listed: str) -> str | None:
    """Look `value` up in `known`, {folded spelling: id}; `names`, {id: display name}, is for the error message."""
    if not isinstance(value, str):
        raise InputError(f"language must be a string, got {shown(value)}: {_ACCEPTED}")
    key = _folded(value)
    if not key or key in _table()["unspecified"] or _NO_LANGUAGE.fullmatch(key):
        return None
    if len(key) <= _MAX_NAME_CHARS:
        for form in _forms(key):
            if form in known:
                return known[form]
    close = _close_matches(key[:_MAX_NAME_CHARS], known)
    hint = f"did you mean {', '.join(f'{names[code]} ({code})' for code in close)}? " if close else ""
    raise InputError(f"language {shown(value)} is not known: {hint}{_ACCEPTED}; {where_listed}")


def _close_matches(key: str, known: Mapping[str, str]) -> list[str]:
    """Return up to four ids whose spellings resemble `key` or contain it."""
    containing = [form for form in known if len(key) > 3 and key in form]
    spellings = (*difflib.get_close_matches(key, known, n=_MAX_SUGGESTIONS), *containing)
    return list(dict.fromkeys(known[form] for form in spellings))[:_MAX_SUGGESTIONS]


def _table() -> dict[str, dict[str, str]]:
    return cast("dict[str, dict[str, str]]", load_table("text/languages.json"))


@cache
def _ids_by_key() -> dict[str, str]:
    """Return {folded spelling: id}; ids win over names, and names win over aliases."""
    names = _table()["names"]
    known = {_folded(alias): language for alias, language in _table()["aliases"].items()}
    known.update((_folded(display), language) for language, display in names.items())
    known.update((language, language) for language in names)
    return known


@cache
def _whisper_ids_by_key() -> dict[str, str]:
    """Return {folded spelling: Whisper's id}: its own ids and names, and every alias of the same languages."""
    ours = _ids_by_key()
    whisper_ids = {ours[code]: code for code in whisper_languages().values() if code in ours}
    whisper_ids.setdefault("nb", "no")  # Whisper has one id for Bokmål and for Norwegian
    known = {key: whisper_ids[language] for key, language in ours.items() if language in whisper_ids}
    for name, code in whisper_languages().items():
        known.update({_folded(name): code, code: code})
    return known


def _folded(name: str) -> str:
    """Return `name` without case, accents or repeated spaces."""
    plain = unicodedata.normalize("NFKD", name[: 4 * _MAX_NAME_CHARS]).lower()
    return " ".join("".join(char for char in plain if not unicodedata.combining(char)).split())


def _forms(key: str) -> list[str]:
    """Return what `key` may stand for, best first: as it is, without a remark in brackets, without its subtags."""
    spaced = key.replace("_", " ")
    if _CANTONESE.match(spaced):  # zh-HK, Chinese (Macao): Chinese is spoken so there
        return ["yue"]
    forms = [key, key.replace("_", "-"), spaced, spaced.partition("(")[0].strip()]
    first, *subtags = re.split("[-_]", re.sub(r"[.@][\w-]*", "", key))  # a POSIX locale: de_DE.UTF-8, ca_ES@valencia
    if all(map(_SUBTAG.fullmatch, subtags)):
        forms += [subtag for subtag in subtags[:1] if _EXTENDED.fullmatch(subtag)]
        forms.append(first.strip())
    return forms
