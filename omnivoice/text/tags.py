"""Non-verbal tags: `[laughter]`, `[sigh]` and their like, written inside the text.

Each known tag is tokenized alone, so that it has the same ids everywhere. A fine-tune may know more: every
function takes the tuple of names. A bracket that is neither a tag nor phonemes (`[B EY1 S]`, CMU notation) is read
aloud by the model; `tag_warnings` says so. Nothing here removes text.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import cast

from ..errors import InputError
from ..intake.tables import load_table

NONVERBAL_TAGS: tuple[str, ...] = (
    "laughter",
    "sigh",
    "confirmation-en",
    "question-en",
    "question-ah",
    "question-oh",
    "question-ei",
    "question-yi",
    "surprise-ah",
    "surprise-oh",
    "surprise-wa",
    "surprise-yo",
    "dissatisfaction-hnn",
)
"""The tags OmniVoice was trained on (upstream models/omnivoice.py:1651)."""

BRACKETED = re.compile(r"\[([^\[\]\n]{1,200})\]")
"""A bracket that may be a tag or phonemes, and is never cut; longer ones are prose in brackets."""

_SPELLED = re.compile(r"\[([^\[\]]{1,200})\]")  # a tag broken over two lines is one once they are joined
_MAX_TAG_CHARS = 40
_MAX_NAMED = 5


@lru_cache(maxsize=64)
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    for tag in tags:
        if not isinstance(tag, str) or not tag or len(tag) > _MAX_TAG_CHARS or re.search(r"[\[\]\n]", tag):
            raise InputError(f"a tag must be 1-{_MAX_TAG_CHARS} characters without brackets, got {str(tag)[:60]!r}")
    return re.compile(r"\[(?:" + "|".join(map(re.escape, tags)) + r")\]" if tags else r"(?!)")


def split_tags(text: str, tags: tuple[str, ...] = NONVERBAL_TAGS) -> list[str]:
    """`text` cut before and after each known tag, without empty pieces; joined they give `text` again."""
    pieces, end = [], 0
    for match in _pattern(tags).finditer(text):
        pieces += [text[end : match.start()], match.group()]
        end = match.end()
    return [piece for piece in (*pieces, text[end:]) if piece]


def canonical_tags(text: str, tags: tuple[str, ...] = NONVERBAL_TAGS) -> str:
    """`text` with tags in other spellings (`[LAUGHTER]`, `[laugh]`, `[question_en]`) in the trained one."""
    _pattern(tags)
    aliases = cast("dict[str, dict[str, str]]", load_table("text/tags.json"))["aliases"]
    by_key = {_key(tag): tag for tag in tags}

    def replace(match: re.Match[str]) -> str:
        key = _key(match[1])
        name = by_key.get(key) or by_key.get(aliases.get(key, ""))
        return match[0] if name is None or match[1] in tags else f"[{name}]"

    return _SPELLED.sub(replace, text)


def tag_warnings(text: str, tags: tuple[str, ...] = NONVERBAL_TAGS) -> tuple[str, ...]:
    """One warning for each bracket in `text` that looks like a tag but is none, at most five."""
    names = [match[1] for match in BRACKETED.finditer(text) if len(match[1]) <= _MAX_TAG_CHARS]
    unknown = [name for name in dict.fromkeys(names) if name not in tags and not is_phonemes(name)]
    worth = [name for name in unknown if any(char.isalpha() for char in name)]
    return tuple(_warning(name, tags) for name in worth[:_MAX_NAMED])


def is_phonemes(name: str) -> bool:
    """Whether `name` is a pronunciation in CMU notation, as between the brackets of `[B EY1 S]`."""
    table = cast("dict[str, list[str]]", load_table("text/tags.json"))
    parts = name.split(" ")
    return all(part in table["consonants"] or part.rstrip("012") in table["vowels"] for part in parts)


def _key(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _warning(name: str, tags: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(_key(name), tags, n=1)
    hint = f"did you mean [{close[0]}]?" if close else "known are " + ", ".join(f"[{tag}]" for tag in tags)
    return f"[{name}] is not a sound this model knows and will be read aloud; {hint}"
