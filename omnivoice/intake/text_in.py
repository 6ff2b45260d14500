"""Text from outside: what is safe to normalise, tokenise, log and store.

What is unusual: invisible characters go (they split words, reorder lines and forge logs), but the joiners U+200C
and U+200D stay where Persian and Indic spelling needs them, between two letters or marks, and control characters
that stand for white space become white space, so that no two words run together. It does not normalise, trim or
judge whether anything speakable is left: that is `text`'s business.
"""

from __future__ import annotations

import re
import unicodedata

from .limits import MAX_TEXT_CHARS, check_text_length

_LINES = re.compile(r"[\x0b\x0c\x85]")  # vertical tab, form feed, next line
_SPACES = re.compile(r"[\x1c-\x1f]")  # information separators
_DROPPED = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x9f\xad"  # C0, C1, soft hyphen
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    r"\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero-width, invisible operators, BOM, annotation
    r"\ud800-\udfff\U000e0000-\U000e007f]+"  # lone surrogates, invisible tags
)
_JOINERS = re.compile(r"[\u180e\u200c\u200d]+")  # Mongolian vowel separator, non-joiner, joiner


def clean_text(text: object, *, name: str = "text", limit: int = MAX_TEXT_CHARS) -> str:
    """`text` without lone surrogates, control, direction and zero-width characters; tab, LF and CR stay.

    VT, FF and NEL become LF, the four information separators a space. A run of joiners between two letters or marks
    becomes its first; elsewhere it goes. Idempotent; linear in the length; encodes to UTF-8 whatever came in.
    Raises TextError, which calls the text `name`, for what is no str or has more than `limit` characters.
    """
    checked = check_text_length(text, name=name, limit=limit)
    plain = _DROPPED.sub("", _SPACES.sub(" ", _LINES.sub("\n", checked)))
    return _JOINERS.sub(_keep_between_letters, plain)


def _keep_between_letters(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    if start == 0 or end == len(text) or not (_is_letter(text[start - 1]) and _is_letter(text[end])):
        return ""
    return text[start]


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LM"
