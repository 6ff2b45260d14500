"""Languages: from what a user writes to the id that the prompt receives.

All 646 ids and names of upstream (utils/lang_map.py) plus aliases: other ISO 639 codes, common and native names.
Tags are reduced (en-US to en, zh_TW to zh). Unlike upstream, case never matters, and what is unknown is told with
close matches. Nothing here detects the language of a text.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from functools import cache
from typing import cast

from ..errors import InputError
from ..intake.limits import shown
from ..intake.tables import load_table

_MAX_NAME_CHARS = 80
_EXTENDED = 3  # letters of a subtag that is a language itself, as in zh-yue


def resolve_language(name: str | None) -> tuple[str | None, list[str]]:
    """(id, warnings) for an id, name, alias or tag; id None = unspecified, and the model guesses from the text.

    None, "" and "auto" are unspecified without a warning; an unknown name is so with one. Raises InputError for
    what is no string.
    """
    if name is None:
        return None, []
    if not isinstance(name, str):
        raise InputError(f"language must be a string or None, got {shown(name)}")
    key = _folded(name)
    if not key or key in _table()["unspecified"]:
        return None, []
    known = _ids_by_key()
    found = next((known[form] for form in _forms(key) if form in known), None) if len(key) <= _MAX_NAME_CHARS else None
    return (found, []) if found else (None, [_unknown(name, key)])


def language_options() -> tuple[tuple[str, str], ...]:
    """(id, display name) of every language, by name: for menus and lists."""
    return tuple(sorted(_table()["names"].items(), key=lambda item: _folded(item[1])))


def _table() -> dict[str, dict[str, str]]:
    return cast("dict[str, dict[str, str]]", load_table("text/languages.json"))


@cache
def _ids_by_key() -> dict[str, str]:
    """Every spelling that is known, folded, and its id; ids win over names, names over aliases."""
    names = _table()["names"]
    known = {_folded(alias): language for alias, language in _table()["aliases"].items()}
    known.update((_folded(display), language) for language, display in names.items())
    known.update((language, language) for language in names)
    return known


def _folded(name: str) -> str:
    """Without case, accents and needless space."""
    plain = unicodedata.normalize("NFKD", name[: 4 * _MAX_NAME_CHARS]).lower()
    return " ".join("".join(char for char in plain if not unicodedata.combining(char)).split())


def _forms(key: str) -> list[str]:
    """What `key` may stand for, best first: itself, without a remark in brackets, without its subtags."""
    spaced = key.replace("_", " ")
    first, *subtags = re.split("[-_]", key)
    extended = subtags[:1] if subtags and len(subtags[0]) == _EXTENDED else []
    return [key, key.replace("_", "-"), spaced, spaced.partition("(")[0].strip(), *extended, first.strip()]


def _unknown(name: str, key: str) -> str:
    known, names = _ids_by_key(), _table()["names"]
    short = key[:_MAX_NAME_CHARS]
    within = [form for form in known if len(short) > 3 and short in form]
    close = dict.fromkeys(known[form] for form in (*difflib.get_close_matches(short, known, n=4), *within))
    hints = ", ".join(f"{names[language]} ({language})" for language in list(close)[:4])
    return (
        f"language {shown(name)} is not known and is left open: the model guesses it from the text; "
        + (f"close are {hints}; " if hints else "")
        + "every id and name: python -m omnivoice languages"
    )
