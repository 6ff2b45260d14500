"""Text that is piped in, bounded before anything else looks at it.

What is unusual: it is read as UTF-8 whatever the locale says, so that a pipe means the same on every system.
"""

from __future__ import annotations

from typing import TextIO

from ..errors import TextError
from .limits import MAX_TEXT_CHARS, check_text_length

_NAME = "the text that was piped in"
_MAX_BYTES = 4 * MAX_TEXT_CHARS + 3  # no character takes more than four bytes, a byte order mark takes three


def read_text_stream(stream: TextIO) -> str:
    """All of a text stream, without a byte order mark; raises TextError when it is too long or not UTF-8.

    Not cleaned: give it to `clean_text`, as any other text.
    """
    buffer = getattr(stream, "buffer", None)
    if buffer is None:  # a stand-in for standard input that holds text already
        return check_text_length(stream.read(MAX_TEXT_CHARS + 1), name=_NAME)
    data = buffer.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise TextError(f"{_NAME} must be at most {MAX_TEXT_CHARS} characters: split it into parts")
    try:
        return check_text_length(data.decode("utf-8-sig"), name=_NAME)
    except UnicodeDecodeError:
        raise TextError(f"{_NAME} is not UTF-8: convert it first") from None
