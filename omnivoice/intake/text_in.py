"""Text from outside, made safe to normalise, tokenise, log and store.

Invisible characters are removed: they split words, reorder lines and forge logs. The joiners U+200C and U+200D stay
between two letters or marks, where Persian and Indic spelling needs them. Control characters that mean white space
become white space, so that no two words run together. Normalising, trimming and the question whether anything
speakable remains belong to `text`.
"""

from __future__ import annotations

import re
import unicodedata

from .limits import MAX_TEXT_CHARS, check_text_length

_LINES = re.compile(r"[\x0b\x0c\x85]")  # vertical tab, form feed, next line
_SOFT_HYPHEN = re.compile(r"\xad[ \t]*(?:\r\n|\r|\n)[ \t]*(?=\w)")  # the rest of the word is on the next line
_SPACES = re.compile(r"[\x1c-\x1f]")  # information separators
_DROPPED = re.compile(
    r"[\x00-\x08\x0e-\x1b\x7f-\x9f\xad"  # C0, C1, soft hyphen
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    r"\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # zero-width, invisible operators, BOM, annotation
    r"\ud800-\udfff\U000e0000-\U000e007f]+"  # lone surrogates, invisible tags
)
_JOINERS = re.compile(r"[\u180e\u200c\u200d]+")  # Mongolian vowel separator, non-joiner, joiner


def clean_text(text: object, *, name: str = "text", limit: int = MAX_TEXT_CHARS) -> str:
    """Return `text` without lone surrogates and without control, direction and zero-width characters.

    Tab, LF and CR stay, except after a soft hyphen, which cuts a word there; VT, FF and NEL become LF; the four
    information separators become spaces. Of a run of joiners between two letters or marks the first stays; other
    joiners are removed. Cleaning twice changes nothing more, takes time linear in the length, and always gives text
    that UTF-8 can encode. Raises TextError, which calls the text `name`, unless it is a str of at most `limit`
    characters.
    """
    checked = check_text_length(text, name=name, limit=limit)
    plain = _DROPPED.sub("", _SOFT_HYPHEN.sub("", _SPACES.sub(" ", _LINES.sub("\n", checked))))
    return _JOINERS.sub(_keep_between_letters, plain)


def _keep_between_letters(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    if start == 0 or end == len(text) or not (_is_letter(text[start - 1]) and _is_letter(text[end])):
        return ""
    return text[start]


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LM"
