"""Words that a model of a small vocabulary cannot say, told before it speaks.

Such a model was trained on some hundred words and makes others up from the sounds it knows. Nothing is changed in the
text.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_TAG = re.compile(r"\[[^\]]*\]")
SHOWN = 8


def vocabulary_warnings(text: str, words: Collection[str]) -> tuple[str, ...]:
    """What to tell about `text` if `words`, lower-case, are all that can be said; none of them: any text can."""
    if not words:
        return ()
    spoken = (word.lower().replace("\u2019", "'") for word in _WORD.findall(_TAG.sub(" ", text)))
    unknown = [word for word in dict.fromkeys(spoken) if word not in words]
    if not unknown:
        return ()
    some = ", ".join(unknown[:SHOWN]) + (f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else "")
    return (
        f"this model says a small vocabulary, and {some} will not be understood; the {len(words)} words it knows: "
        f"{', '.join(sorted(words))}",
    )
