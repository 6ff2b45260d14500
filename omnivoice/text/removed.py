"""What the clean-up removes from a text, so that a warning can name it. White space and line breaks are not noted."""

from __future__ import annotations

import re

from .vocabulary import named

_MESSAGES = {
    "markup": "markup was removed from the {}: ",
    "tokens": "special tokens were removed from the {}: ",
    "symbols": "symbols that are not spoken were removed from the {}: ",
    "runs": "long runs of symbols or marks in the {} were shortened: ",
}


class Removed:
    """Collects what is removed from one text, by kind: "markup", "tokens", "symbols" or "runs"."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {kind: {} for kind in _MESSAGES}

    def add(self, kind: str, *names: str) -> None:
        """Note `names`; blanks are left out."""
        self._found[kind].update((name, None) for name in names if name.strip())

    def include(self, other: Removed) -> None:
        """Note everything that `other` holds."""
        for kind, names in other._found.items():
            self._found[kind].update(names)

    def blank(self, kind: str, pattern: re.Pattern[str], text: str) -> str:
        """Return `text` with every match as a space, and note it: a symbol by its characters, all else as a whole."""

        def note(match: re.Match[str]) -> str:
            self.add(kind, *(match[0] if kind == "symbols" else [match[0]]))
            return " "

        return pattern.sub(note, text)

    def warnings(self, source: str = "text") -> tuple[str, ...]:
        """Return one warning for each kind, which names the first ten and the `source`: "text" or "transcript"."""
        found = self._found.items()
        return tuple(_MESSAGES[kind].format(source) + named(list(names)) for kind, names in found if names)
