"""Languages without rules of our own: numbers through the package num2words, when it is installed."""

from __future__ import annotations

from collections.abc import Callable

from .result import Replacement


def rules_of(language: str | None) -> Callable[[str], list[Replacement]]:
    """Return the rules of the language; none for one that is not known."""
    return lambda text: []


def warnings_of(language: str | None, text: str) -> tuple[str, ...]:
    """Return why the numbers in `text` stay as they are."""
    if not any(map(str.isdigit, text)):
        return ()
    return (f"numbers stay as they are in {language or 'a text whose language is not given'}",)
