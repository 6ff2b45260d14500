"""Text from files, standard input and arguments: UTF-8 whatever the locale says."""

from __future__ import annotations

import os
from typing import TextIO

from ..errors import TextError
from ..intake.files import open_regular
from ..intake.limits import MAX_TEXT_CHARS, check_text_length
from ..intake.paths import shown_name

_NAME = "the text that was piped in"
_MAX_BYTES = 4 * MAX_TEXT_CHARS + 3  # no character takes more than four bytes, a byte order mark takes three


def read_text_stream(stream: TextIO | None) -> str:
    """Return all text of a stream, without a byte order mark; raises TextError if it is closed, too long or not UTF-8.

    The text is not cleaned.
    """
    if stream is None:  # Python's value for a closed standard input
        raise TextError("no text was piped in: standard input is closed")
    return _decoded(stream.buffer.read(_MAX_BYTES + 1), _NAME)


def read_text_file(path: str) -> str:
    """Return the text of a UTF-8 file, as `read_text_stream` does; raises FileError or TextError."""
    with open_regular(path) as (file, _):
        return _decoded(file.read(_MAX_BYTES + 1), shown_name(path))


def _decoded(data: bytes, name: str) -> str:
    if len(data) > _MAX_BYTES:
        raise TextError(f"{name} must be at most {MAX_TEXT_CHARS} characters: split it into parts")
    try:
        return check_text_length(data.decode("utf-8-sig"), name=name)
    except UnicodeDecodeError:
        raise TextError(f"{name} is not UTF-8: convert it first") from None


def text_argument(text: str, name: str) -> str:
    """Return an argument of the command line, decoded as UTF-8; raises TextError if it is not UTF-8.

    Under a locale that cannot decode it (LANG=C), Python passes it as surrogates, which cleaning would drop.
    """
    try:
        return os.fsencode(text).decode("utf-8") if any("\ud800" <= char <= "\udfff" for char in text) else text
    except UnicodeError:
        raise TextError(f"{name} is not UTF-8: check the terminal's encoding, or pipe it in as a UTF-8 file") from None
