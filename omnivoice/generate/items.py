"""Naming items: errors and warnings about one of several requests say which one. A single request is not named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..errors import OmniVoiceError
from ..intake.limits import shown

NAME_CHARS = 24  # of an item's text
MOST_NUMBERS = 8  # item numbers in one warning


@contextmanager
def naming_item(index: int, texts: Sequence[object]) -> Iterator[None]:
    """Put the item's number and first words in front of an OmniVoiceError raised inside."""
    try:
        yield
    except OmniVoiceError as error:
        if len(texts) == 1:
            raise
        raise type(error)(f"{item_name(index, texts)}: {error}") from error


def item_name(index: int, texts: Sequence[object]) -> str:
    """Return, for example, `item 3 of 12 ("Good morning every…")`."""
    text = texts[index]
    words = " ".join(text[: 8 * NAME_CHARS].split()) if isinstance(text, str) else shown(text)
    words = "".join(char if char.isprintable() else "�" for char in words)
    first = words if len(words) <= NAME_CHARS else words[:NAME_CHARS].rstrip() + "…"
    return f'item {index + 1} of {len(texts)} ("{first}")'


def batch_warnings(texts: Sequence[str], warnings: Sequence[Sequence[str]]) -> list[str]:
    """Return each different warning once, with the items it is about; without them if it is about all.

    texts and warnings: of each item, in order.
    """
    items: dict[str, list[int]] = {}
    for index, own in enumerate(warnings):
        for warning in dict.fromkeys(own):
            items.setdefault(warning, []).append(index)
    return [_named(warning, indices, texts) for warning, indices in items.items()]


def _named(warning: str, indices: Sequence[int], texts: Sequence[str]) -> str:
    if len(indices) == len(texts):
        return warning
    if len(indices) == 1:
        return f"{item_name(indices[0], texts)}: {warning}"
    numbers = [str(index + 1) for index in indices[:MOST_NUMBERS]]
    more = [f"{len(indices) - MOST_NUMBERS} more"] if len(indices) > MOST_NUMBERS else []
    return f"items {', '.join([*numbers, *more])} of {len(texts)}: {warning}"
