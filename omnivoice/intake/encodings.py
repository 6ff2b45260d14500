"""Text files in any of the usual encodings, such as subtitles from old programs.

A byte order mark decides, then UTF-16's zero bytes, then UTF-8, which other encodings hardly ever satisfy by chance.
Of the old encodings, that one is taken whose most frequent letters make up nearly all of the text beyond ASCII; Western
European Windows text is the last choice. The caller says which was taken, because a guess can be wrong.
"""

from __future__ import annotations

import codecs
import re
from os import PathLike

from ..errors import FileError
from .files import read_bytes
from .limits import shown
from .paths import shown_name

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# (encoding, its frequent characters as bytes, the least share of them in the text beyond ASCII). Korean's syllables are
# a part of the bytes of simplified Chinese, and so come first; many common characters of Chinese lie beyond them.
_OLD = (
    ("shift_jis", rb"\x82[\x9f-\xf1]|\x83[\x40-\x96]|\x81[\x40-\x81]", 0.5),
    ("euc_kr", rb"[\xb0-\xc8][\xa1-\xfe]|\xa1[\xa1-\xfe]", 0.97),
    ("gb18030", rb"[\xb0-\xd7][\xa1-\xfe]|\xa1[\xa1-\xfe]|\xa3[\xa1-\xfe]", 0.85),
    ("big5", rb"[\xa4-\xc6][\x40-\x7e\xa1-\xfe]|\xa1[\x40-\xfe]", 0.85),
)
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\xfe]")
_PAIRS = re.compile(rb"(?:[\x81-\xfe][\x40-\xfe]){2,}")  # East Asian text comes in words of several characters
_RUN_SHARE = 0.5  # of the characters beyond ASCII
_HIGH = re.compile(rb"[\x80-\xff]")
_RUN = re.compile(rb"[\xc0-\xff]{3,}")
_CYRILLIC_SHARE = 0.6  # of the bytes beyond ASCII in runs of letters; Western text has single ones
_SAMPLE = 4096  # bytes that show the zeros of UTF-16


def read_text_file(path: str | PathLike[str], *, limit: int, encoding: str | None = None) -> tuple[str, str]:
    """Return (text, encoding) of a text file of at most `limit` bytes. encoding: the one to use, None to find out.

    Raises FileError if the file cannot be read, or its text cannot be decoded.
    """
    return decode_text(read_bytes(path, limit=limit), shown_name(path), encoding)


def decode_text(data: bytes, name: str, encoding: str | None = None) -> tuple[str, str]:
    """Return (text, encoding) of `data`, which messages call `name`; otherwise as `read_text_file`."""
    if encoding is None:
        encoding = _found(data)
    try:
        return data.decode(encoding).removeprefix("\ufeff"), codecs.lookup(encoding).name.removesuffix("-sig")
    except UnicodeError:
        raise FileError(f"{name} is not text in {encoding}: name its encoding, or save it as UTF-8") from None
    except (LookupError, ValueError):  # no encoding of text, or no name of one
        raise FileError(f"the encoding {shown(encoding)} is not known: use a name such as utf-8 or cp1252") from None


def _found(data: bytes) -> str:
    """Return the name of the encoding that `data` is most likely in."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    sample = data[:_SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) > len(sample) // 8:
        return "utf-16-le" if odd > even else "utf-16-be"
    if _decodes(data, "utf-8"):
        return "utf-8"
    high = len(_HIGH.findall(data))
    pairs = _PAIR.findall(data)
    joined = sum(len(run) // 2 for run in _PAIRS.findall(data))
    for encoding, frequent, share in _OLD if joined >= _RUN_SHARE * max(1, len(pairs)) else ():
        pattern = re.compile(frequent)
        if _decodes(data, encoding) and sum(bool(pattern.fullmatch(pair)) for pair in pairs) >= share * len(pairs):
            return encoding
    cyrillic = sum(map(len, _RUN.findall(data))) >= _CYRILLIC_SHARE * high
    return "cp1251" if cyrillic else "cp1252"


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeError:
        return False
    return True
