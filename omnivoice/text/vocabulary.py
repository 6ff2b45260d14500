"""Words that a model with a small vocabulary cannot say, reported before it speaks.

Such a model, like the demo voice, was trained on a few hundred words and makes noise of all others. The text is not
changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence

from .characters import is_unspaced
from .duration import text_weight

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_TAG = re.compile(r"\[[^\]]*\]")
MAX_NAMED = 10
_SHORT_WEIGHT = 12.0  # four Chinese characters, five kana, eight Thai letters


def vocabulary_warnings(text: str, words: Collection[str]) -> tuple[str, ...]:
    """Return one warning that names the words of `text` outside `words`, the model's lower-case vocabulary.

    An empty `words` means that the model can say any text.
    """
    if not words:
        return ()
    spoken = (
        word.replace("’", "'") for word in _WORD.findall(_TAG.sub(" ", unicodedata.normalize("NFC", text).lower()))
    )
    known = {unicodedata.normalize("NFC", word) for word in words}
    unknown = [word for word in dict.fromkeys(spoken) if word not in known]
    if not unknown:
        return ()
    return (
        f"this model knows only {len(words)} words and cannot say {named(unknown)}; demo_voice/CARD.md lists the words "
        "of the demo voice",
    )


def is_one_word(text: str) -> bool:
    """Whether `text` has at most one word: a tag, a word, or a few letters of a script without spaces."""
    letters = _TAG.sub(" ", text)
    if not letters.isascii():
        letters = "".join(char for char in letters if unicodedata.category(char)[0] != "M")
    words = _WORD.findall(letters)
    return len(words) <= 1 and (not any(map(is_unspaced, letters)) or text_weight(letters.strip()) <= _SHORT_WEIGHT)


def named(words: Sequence[str]) -> str:
    """Return the first ten `words` separated by commas, and how many more there are."""
    more = len(words) - MAX_NAMED
    return ", ".join(words[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
