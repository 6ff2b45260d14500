"""Mutations that the fuzz campaigns share: of bytes, of the numbers in them, and of the structure of JSON.

All chance comes from the `random.Random` of the caller, so that a seed gives the same inputs again. The functions are
meant for millions of calls: a byte edit takes about a microsecond besides copying, an edit of JSON two or three.

    data = mutate(rng, seed, others)                 # one to four byte edits
    broken = JsonText(b'{"a": [1, 2]}').mutate(rng)  # one to three edits, mostly still JSON
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

_Item = TypeVar("_Item")

# Integers at and beyond the ends of the usual types, and small ones.
HOSTILE_INTEGERS = tuple(
    sorted(
        {
            sign * ((1 << bits) + step)
            for bits in (0, 7, 8, 15, 16, 31, 32, 63, 64)
            for step in (-1, 0, 1)
            for sign in (1, -1)
        }
    )
)
HOSTILE_BYTES = bytes(
    (0, 1, 9, 10, 13, 32, 34, 44, 45, 47, 58, 91, 92, 93, 123, 125, 127, 128, 192, 237, 239, 254, 255)
)
HOSTILE_STRINGS = (
    b'""',
    b'"' + b"a" * 300 + b'"',
    b'"\\ud800"',
    b'"\\udfff\\ud800"',
    b'"\\u0000"',
    b'"\\u202e\\u200b"',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\x00"',
    b'"\n"',
    b'"\\x"',
    b'"unfinished',
    b'"../../etc/passwd"',
    b'"C:\\\\x"',
    b'"__metadata__"',
    b'"1"',
    b'"NaN"',
    b'"\xf0\x9f\x98\x80\xcc\x88"',
)
HOSTILE_NUMBERS = (
    *(str(number).encode() for number in HOSTILE_INTEGERS),
    b"NaN",
    b"-NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"1e308",
    b"5e-324",
    b"-0",
    b"-0.0",
    b"0.5",
    b"1.0",
    b"1e2",
    b"007",
    b"+1",
    b"0x10",
    b"1_000",
    b"9" * 25,
    b"9" * 5000,
    "\N{ARABIC-INDIC DIGIT ONE}".encode(),
)
HOSTILE_VALUES = (
    *HOSTILE_STRINGS,
    *HOSTILE_NUMBERS,
    b"true",
    b"false",
    b"null",
    b"nul",
    b"[]",
    b"{}",
    b"[[]]",
    b'{"a":1}',
    b'{"a":1,"a":2}',
    b"[1,2,3,4,5,6,7,8,9]",
    b"[" * 100 + b"]" * 100,
    b"[" * 3000 + b"]" * 3000,
    b'{"a":' * 3000 + b"1" + b"}" * 3000,
    b"",
    b",",
    b"]",
    b"}",
)


def below(rng: Random, count: int) -> int:
    """Return a number from 0 to `count` - 1, 0 if there is none; three times as fast as randrange."""
    return int(rng.random() * count)


def pick(rng: Random, items: Sequence[_Item]) -> _Item:
    """Return one of `items`; twice as fast as choice."""
    return items[int(rng.random() * len(items))]


# Edits of bytes: (rng, data, other input) -> data. Each takes any data, also none.


def flip_bit(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with one bit changed."""
    at = below(rng, len(data))
    return data[:at] + bytes(byte ^ (1 << below(rng, 8)) for byte in data[at : at + 1]) + data[at + 1 :]


def set_byte(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with one byte set to one that means something to parsers."""
    at, new = below(rng, len(data)), below(rng, len(HOSTILE_BYTES))
    return data[:at] + HOSTILE_BYTES[new : new + 1] + data[at + 1 :]


def set_integer(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with an integer of 1, 2, 4 or 8 bytes in either byte order overwritten by a hostile one."""
    size = 1 << below(rng, 4)
    at = below(rng, max(1, len(data) - size + 1))
    number = pick(rng, HOSTILE_INTEGERS) % (1 << 8 * size)
    return data[:at] + number.to_bytes(size, "little" if rng.random() < 0.5 else "big") + data[at + size :]


def truncate(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return the start of `data`."""
    return data[: below(rng, len(data))]


def cut(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` without a range, which is mostly short."""
    at = below(rng, len(data))
    return data[:at] + data[at + _length(rng, len(data)) :]


def repeat(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with a range there twice or more, at most 64 KiB longer."""
    at = below(rng, len(data))
    part = data[at : at + _length(rng, len(data))]
    times = min(1 << below(rng, 6), (1 << 16) // (len(part) or 1))
    return data[:at] + part * times + data[at:]


def insert(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with one to sixteen random or equal bytes more."""
    at, count = below(rng, len(data) + 1), 1 + below(rng, 16)
    new = rng.randbytes(count) if rng.random() < 0.5 else bytes((pick(rng, HOSTILE_BYTES),)) * count
    return data[:at] + new + data[at:]


def overwrite(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with a range of the same length from elsewhere in it, or of equal bytes."""
    at, size = below(rng, len(data)), _length(rng, len(data))
    start = below(rng, len(data))
    new = data[start : start + size] if rng.random() < 0.5 else bytes((pick(rng, HOSTILE_BYTES),)) * size
    return (data[:at] + new + data[at + len(new) :])[: len(data)]


def splice(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return the start of `data` and the end of `other`."""
    return data[: below(rng, len(data) + 1)] + other[below(rng, len(other) + 1) :]


def transplant(rng: Random, data: bytes, other: bytes = b"") -> bytes:
    """Return `data` with a range of `other` in it."""
    at, start = below(rng, len(data) + 1), below(rng, len(other))
    return data[:at] + other[start : start + _length(rng, len(other))] + data[at:]


EDITS: tuple[Callable[[Random, bytes, bytes], bytes], ...] = (
    flip_bit,
    set_byte,
    set_integer,
    truncate,
    cut,
    repeat,
    insert,
    overwrite,
    splice,
    transplant,
)


def mutate(rng: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Return `data` after one to four byte edits, more often few. others: inputs to take parts from, else itself."""
    other = pick(rng, others) if others else data
    data = pick(rng, EDITS)(rng, data, other)
    while rng.random() < 0.4:
        data = pick(rng, EDITS)(rng, data, other)
    return data


def _length(rng: Random, size: int) -> int:
    """Return the length of a range in `size` bytes: mostly a few, sometimes any."""
    return 1 + (below(rng, 16) if rng.random() < 0.7 else below(rng, size))


class JsonText:
    """A valid JSON text (UTF-8), split once so that its structure can be edited cheaply. It never changes itself.

    tokens: its strings, numbers, words and marks, without white space. values: the [first, last) tokens of every value.
    members: those of every "key": value. keys: where the keys are.
    """

    _TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)

    def __init__(self, text: bytes) -> None:
        self.tokens: list[bytes] = self._TOKEN.findall(text)
        self.values: list[tuple[int, int]] = []
        self.members: list[tuple[int, int]] = []
        self.keys: list[int] = []
        end = self._value(0)
        assert end == len(self.tokens), "one JSON value"

    def mutate(self, rng: Random) -> bytes:
        """Return the text after one to three edits, more often one: of values, members, keys, or single tokens."""
        tokens = self.tokens.copy()
        self._edit(rng, tokens)
        while rng.random() < 0.3:
            self._edit(rng, tokens)
        return b"".join(tokens)

    def with_value(self, place: int, new: bytes) -> bytes:
        """Return the text with the value number `place` of `values` replaced by `new`."""
        first, last = self.values[place]
        return b"".join((*self.tokens[:first], new, *self.tokens[last:]))

    def _edit(self, rng: Random, tokens: list[bytes]) -> None:
        """Edit `tokens`. Tokens that a first edit emptied stay in the list, so places keep their meaning."""
        kind = below(rng, 12)
        first, last = pick(rng, self.values)
        if kind < 3:
            tokens[first:last] = self._fill(pick(rng, HOSTILE_VALUES), last - first)
        elif kind == 3:
            start, end = pick(rng, self.values)
            tokens[first:last] = self._fill(b"".join(self.tokens[start:end]), last - first)
        elif kind == 4:
            depth = 1 << below(rng, 8)
            opened, closed = (b"[", b"]") if rng.random() < 0.5 else (b'{"a":', b"}")
            tokens[first] = opened * depth + tokens[first]
            tokens[last - 1] += closed * depth
        elif kind < 8 and self.members:
            self._edit_member(rng, tokens, kind)
        elif kind == 8:
            at, other = below(rng, len(tokens)), below(rng, len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 9:
            tokens[below(rng, len(tokens))] = b""
        elif kind == 10:
            at = below(rng, len(tokens))
            tokens[at] += pick(rng, tokens) if rng.random() < 0.5 else pick(rng, HOSTILE_VALUES)
        else:
            at = below(rng, len(tokens))
            tokens[at] = mutate(rng, tokens[at]) if rng.random() < 0.5 else b" " + tokens[at] + b"\n"

    def _edit_member(self, rng: Random, tokens: list[bytes], kind: int) -> None:
        first, last = pick(rng, self.members)
        if kind == 5:  # the key twice, with the same value, another one or a hostile one
            value = (b"".join(tokens[first + 2 : last]), pick(rng, self.tokens), pick(rng, HOSTILE_VALUES))
            tokens[last - 1] += b"," + tokens[first] + b":" + value[below(rng, 3)]
        elif kind == 6:  # left out, with the comma that follows or goes before it
            if tokens[last : last + 1] == [b","]:
                last += 1
            elif tokens[first - 1] == b",":
                first -= 1
            tokens[first:last] = self._fill(b"", last - first)
        else:
            tokens[first] = self.tokens[pick(rng, self.keys)] if rng.random() < 0.6 else pick(rng, HOSTILE_STRINGS)

    @staticmethod
    def _fill(new: bytes, count: int) -> list[bytes]:
        """Return `new` as `count` tokens."""
        return [new, *[b""] * (count - 1)]

    def _value(self, at: int) -> int:
        """Record the value that begins at token `at`, with all inside it, and return the token after it."""
        mark, end = self.tokens[at], at + 1
        if mark in (b"{", b"["):
            closing = b"}" if mark == b"{" else b"]"
            while self.tokens[end] != closing:
                end += self.tokens[end] == b","
                start = end
                if mark == b"{":
                    self.keys.append(start)
                    end += 2
                end = self._value(end)
                if mark == b"{":
                    self.members.append((start, end))
            end += 1
        self.values.append((at, end))
        return end
