"""What to speak again: pairs of a number and a seed, as in "3=99, 7=5"."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..errors import InputError
from ..intake.limits import MAX_ORDER_CHARS, check_integer, check_text_length, shown

_PAIR = re.compile(r"(\d{1,9})\s*=\s*(\d{1,20})", re.ASCII)


def parse_redo(text: object) -> dict[int, int]:
    """Return {number: seed}; {} for a blank text. Pairs are separated by commas, semicolons, spaces or line breaks.

    Raises InputError for anything else, and for a number that stands there twice.
    """
    if not isinstance(text, str):
        raise InputError(f'redo must be a text such as "3=99, 7=5", got {shown(text)}')
    check_text_length(text, name="redo", limit=MAX_ORDER_CHARS)
    found: dict[int, int] = {}
    rest = _PAIR.sub(" ", text)
    if rest.strip(" ,;\t\r\n"):
        raise InputError(f'redo must be number=seed pairs such as "3=99, 7=5", got {shown(text)}')
    for number, seed in _PAIR.findall(text):
        if int(number) in found:
            raise InputError(f"redo names {int(number)} twice: keep one seed for it")
        found[int(number)] = check_integer("seed", int(seed), shown_as=f"the seed of {int(number)} in redo")
    return found


def check_redo(redo: Mapping[int, int], numbers: Collection[int], what: str) -> None:
    """Raise InputError for a number that is not among `numbers`, which it calls "line" or "part"."""
    unknown = [number for number in redo if number not in numbers]
    if unknown:
        raise InputError(
            f"redo names {what} {unknown[0]}, which is not spoken: the {what}s are {min(numbers)} to {max(numbers)}"
        )
