"""Non-verbal tags, such as `[laughter]` and `[sigh]`, that are written in the text.

Each known tag is tokenized separately, so that it has the same ids everywhere. A fine-tuned model may know more tags,
so every function takes their names. The model reads any other bracket aloud, except phonemes in CMU notation
(`[B EY1 S]`); `tag_warnings` warns about it. Nothing here removes text.
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
"""A bracket that may be a tag or phonemes and is never cut; a longer one is ordinary text in brackets."""

_SPELLED = re.compile(r"\[([^\[\]]{1,200})\]")  # also a tag with a line break in it
_MAX_TAG_CHARS = 40
_MAX_NAMED = 5


@lru_cache(maxsize=64)
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    for tag in tags:
        if not isinstance(tag, str) or not tag or len(tag) > _MAX_TAG_CHARS or re.search(r"[\[\]\n]", tag):
            raise InputError(f"a tag must be 1-{_MAX_TAG_CHARS} characters without brackets, got {str(tag)[:60]!r}")
    return re.compile(r"\[(?:" + "|".join(map(re.escape, tags)) + r")\]" if tags else r"(?!)")


def split_tags(text: str, tags: tuple[str, ...] = NONVERBAL_TAGS) -> list[str]:
    """Return `text` cut before and after each known tag, without empty pieces; joined, they give `text` again."""
    pieces, end = [], 0
    for match in _pattern(tags).finditer(text):
        pieces += [text[end : match.start()], match.group()]
        end = match.end()
    return [piece for piece in (*pieces, text[end:]) if piece]


def canonical_tags(text: str, tags: tuple[str, ...] = NONVERBAL_TAGS) -> str:
    """Return `text` with tags in other spellings (`[LAUGHTER]`, `[laugh]`, `[question_en]`) in the trained spelling."""
    _pattern(tags)
    aliases = cast("dict[str, dict[str, str]]", load_table("text/tags.json"))["aliases"]
    by_key = {_key(tag): tag for tag in tags}

    def replace(match: re.Match[str]) -> str:
        key = _key(match[1])
        name = by_key.get(key) or by_key.get(aliases.get(key, ""))
        return match[0] if name is None or match[1] in tags else f"[{name}]"

    return _SPELLED.sub(replace, text)


def tag_warnings(text: str, tags: tuple[str, ...] = NONVERBAL_TAGS) -> tuple[str, ...]:
    """Return a warning for each bracket in `text` that looks like a tag but is unknown, at most five."""
    names = [match[1] for match in BRACKETED.finditer(text) if len(match[1]) <= _MAX_TAG_CHARS]
    unknown = [name for name in dict.fromkeys(names) if name not in tags and not is_phonemes(name)]
    worth = [name for name in unknown if any(char.isalpha() for char in name)]
    return tuple(_warning(name, tags) for name in worth[:_MAX_NAMED])


def is_phonemes(name: str) -> bool:
    """Whether `name`, the inside of a bracket such as `[B EY1 S]`, is a pronunciation in CMU notation."""
    table = cast("dict[str, list[str]]", load_table("text/tags.json"))
    parts = name.split(" ")
    return all(part in table["consonants"] or part.rstrip("012") in table["vowels"] for part in parts)


def _key(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _warning(name: str, tags: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(_key(name), tags, n=1)
    hint = f"did you mean [{close[0]}]?" if close else "known tags: " + ", ".join(f"[{tag}]" for tag in tags)
    return f"[{name}] is not a tag that this model knows and will be read aloud; {hint}"
