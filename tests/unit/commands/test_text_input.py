"""Text that is piped in."""

from __future__ import annotations

import io

import pytest

from omnivoice.commands.text_input import read_text_stream
from omnivoice.errors import TextError


class Piped(io.TextIOWrapper):
    """Standard input with a locale that is not the text's."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="ascii")


def test_piped_text_is_utf8_in_any_locale() -> None:
    assert read_text_stream(Piped("\u4f60\u597d\n".encode())) == "\u4f60\u597d\n"
    assert read_text_stream(Piped(b"\xef\xbb\xbfhello")) == "hello"
    assert read_text_stream(Piped(b"")) == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("h\xe9".encode("latin-1"), "is not UTF-8: convert it first"),
        ("hello".encode("utf-16"), "is not UTF-8: convert it first"),
        (b"x" * 200_001, "must be at most 200000 characters, got 200001"),
        (b"x" * 800_004, "must be at most 200000 characters: split it"),
    ],
)
def test_piped_text_that_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(TextError, match=f"^the text that was piped in {message}"):
        read_text_stream(Piped(data))
