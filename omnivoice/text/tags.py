"""Non-verbal tags, such as `[laughter]` and `[sigh]`, that are written in the text.

Each known tag is tokenized separately, so that it has the same ids everywhere. The model reads any other bracket aloud,
except phonemes in CMU notation (`[B EY1 S]`, see `pronunciation`); `tag_warnings` warns about it. Nothing here removes
text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, cast

from ..intake.tables import load_table
from .pronunciation import is_phonemes, pinyin_faults, pronunciation_fault

BRACKETED = re.compile(r"\[([^\[\]\n]{1,200})\]")
"""A bracket that may be a tag or phonemes and is never cut; a longer one is ordinary text in brackets."""

_SPELLED = re.compile(r"\[([^\[\]]{1,200})\]")  # also a tag with a line break in it
_MAX_TAG_CHARS = 40
_MAX_NAMED = 5
_MAX_LISTED = 60


def _table() -> dict[str, Any]:
    return cast("dict[str, Any]", load_table("text/tags.json"))


@cache
def nonverbal_tags() -> tuple[str, ...]:
    """Return the names of the tags that OmniVoice was trained on."""
    return tuple(_table()["tags"])


def is_tag(piece: str) -> bool:
    """Whether `piece` is a known tag in its brackets."""
    return piece[:1] == "[" and piece[1:-1] in nonverbal_tags()


def split_tags(text: str) -> list[str]:
    """Return `text` cut before and after each known tag, without empty pieces; joined, they give `text` again."""
    known = "|".join(map(re.escape, nonverbal_tags()))
    return [piece for piece in re.split(rf"(\[(?:{known})\])", text) if piece]


def canonical_tags(text: str, own: Collection[str] = ()) -> str:
    """Return `text` with tags in other spellings (`[LAUGHTER]`, `[laugh]`, `[question_en]`) in the trained spelling.

    own: names of tags that the model has in addition, which stay as they are.
    """
    aliases = cast("dict[str, str]", _table()["aliases"])

    def replace(match: re.Match[str]) -> str:
        if match[1] in own:
            return match[0]
        key = _key(match[1])
        name = aliases.get(key, key)
        return f"[{name}]" if name in nonverbal_tags() else match[0]

    return _SPELLED.sub(replace, text)


def with_own_spelling(text: str, own: Collection[str]) -> str:
    """Return `text` with tags of the model in another case, such as `[Happy]`, as the model spells them."""
    spellings = {_key(name): name for name in own}
    own = frozenset(own)

    def replace(match: re.Match[str]) -> str:
        return match[0] if match[1] in own else f"[{spellings.get(_key(match[1]), match[1])}]"

    return _SPELLED.sub(replace, text) if own else text


def tag_warnings(text: str, own: Collection[str] = ()) -> tuple[str, ...]:
    """Return a warning for each unknown tag and each wrong pronunciation in `text`, at most five of each.

    own: names of tags that the model knows in addition.
    """
    known = (*nonverbal_tags(), *own)
    names = [match[1] for match in BRACKETED.finditer(text) if len(match[1]) <= _MAX_TAG_CHARS]
    unknown = [name for name in dict.fromkeys(names) if name not in known and not is_phonemes(name)]
    worth = [name for name in unknown if any(char.isalpha() for char in name)]
    return (*(_warning(name, known) for name in worth[:_MAX_NAMED]), *pinyin_faults(text)[:_MAX_NAMED])


def _key(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _warning(name: str, tags: Sequence[str]) -> str:
    if fault := pronunciation_fault(name):
        return fault
    close = difflib.get_close_matches(_key(name), tags, n=1)
    known = ", ".join(f"[{tag}]" for tag in tags[:_MAX_LISTED])
    hint = f"did you mean [{close[0]}]?" if close else f"known tags: {known}"
    return f"[{name}] is not a tag that this model knows and will be read aloud; {hint}"
