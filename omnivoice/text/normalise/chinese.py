"""Chinese: the rules come with the next change."""

from __future__ import annotations

from .result import Replacement


def replacements(text: str) -> list[Replacement]:
    """Return no replacement yet."""
    return []
