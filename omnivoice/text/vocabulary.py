"""Words that a model with a small vocabulary cannot say, reported before it speaks.

Such a model, like the demo voice, was trained on a few hundred words and makes noise of all others. The text is not
changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_TAG = re.compile(r"\[[^\]]*\]")
MAX_NAMED = 10


def vocabulary_warnings(text: str, words: Collection[str]) -> tuple[str, ...]:
    """Return one warning that names the words of `text` outside `words`, the model's lower-case vocabulary.

    An empty `words` means that the model can say any text.
    """
    if not words:
        return ()
    spoken = (word.lower().replace("’", "'") for word in _WORD.findall(_TAG.sub(" ", text)))
    unknown = [word for word in dict.fromkeys(spoken) if word not in words]
    if not unknown:
        return ()
    return (
        f"this model knows only {len(words)} words and cannot say {named(unknown)}; demo_voice/CARD.md lists the words "
        "of the demo voice",
    )


def named(words: Sequence[str]) -> str:
    """Return the first ten `words` separated by commas, and how many more there are."""
    more = len(words) - MAX_NAMED
    return ", ".join(words[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
