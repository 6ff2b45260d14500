"""Naming items: an error about one of several requests says which one. A single request is not named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..errors import OmniVoiceError
from ..intake.limits import shown

NAME_CHARS = 24  # of an item's text


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
    return f"item {index + 1} of {len(texts)} {first_words(texts[index])}"


def first_words(text: object) -> str:
    """Return the beginning of a text in quotes and brackets, to recognise it by."""
    words = " ".join(text[: 8 * NAME_CHARS].split()) if isinstance(text, str) else shown(text)
    words = "".join(char if char.isprintable() else "�" for char in words)
    return f'("{words if len(words) <= NAME_CHARS else words[:NAME_CHARS].rstrip() + "…"}")'
