"""Safetensors headers: the hostile table, and mutants that must be refused or be good for the library too."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.errors import FileError
from omnivoice.intake.limits import MAX_HEADER_BYTES
from omnivoice.intake.tensor_header import DTYPES, LENGTH_BYTES, Header, TensorInfo, header_length, parse_header

F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def check(blob: bytes) -> Header:
    length = header_length(blob, len(blob), "x.safetensors")
    start = LENGTH_BYTES + length
    return parse_header(blob[LENGTH_BYTES:start], len(blob) - start, "x.safetensors")


def blob(header: object, data: bytes = b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def with_a(**changes: object) -> bytes:
    return blob({"a": {**F32, **changes}})


GOOD = [
    blob({}, b""),
    blob({"__metadata__": {"k": "v"}, "a": F32}),
    blob(json.dumps({"a": F32}).encode() + b"   \n"),
    blob({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, b"\0" * 4),
    blob({"a": {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}}, b""),
    blob({"b": {"dtype": "U8", "shape": [1], "data_offsets": [8, 9]}, "a": F32}, b"\0" * 9),
    blob({"e": {"dtype": "I8", "shape": [0], "data_offsets": [8, 8]}, "a": F32}),
    blob({"\u00e9\u4e2d": F32}),
    blob({"a" * 256: F32}),
]
DEEP = b'{"a":' + b"[" * 50_000
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "is only 0 bytes long: the download stopped early"),
    "seven bytes": (b"\x10" + b"\0" * 6, "is only 7 bytes long"),
    "length alone": (struct.pack("<Q", 2), "is only 8 bytes long"),
    "length 0": (struct.pack("<Q", 0) + b"{}", "a header of 0 bytes"),
    "length 1": (struct.pack("<Q", 1) + b"{}", "a header of 1 bytes"),
    "length 2^63": (struct.pack("<Q", 1 << 63) + b"{}" * 9, "a header of 9223372036854775808 bytes"),
    "length 2^64-1": (struct.pack("<Q", 2**64 - 1) + b"{}" * 9, "a header of 18446744073709551615 bytes"),
    "length over 8 MiB": (struct.pack("<Q", MAX_HEADER_BYTES + 1) + b"{}" * 9, "a header of 8388609 bytes"),
    "length past the end": (struct.pack("<Q", 100) + b"{}" * 9, "ends at byte 26, inside its header of 100 bytes"),
    "an array": (blob([]), "does not begin with {"),
    "leading space": (blob(b' {"a":1}'), "does not begin with {"),
    "a byte order mark": (blob(b"\xef\xbb\xbf{}"), "does not begin with {"),
    "bad UTF-8": (blob(b'{"\xff":1}'), "is not UTF-8"),
    "encoded surrogate": (blob(b'{"\xed\xa0\x80":1}'), "is not UTF-8"),
    "lone surrogate escape": (blob({"\ud800": F32}), "half of a surrogate pair"),
    "surrogate in metadata": (blob({"__metadata__": {"a": "\ud800"}}, b""), "half of a surrogate pair"),
    "cut JSON": (blob(b'{"a":'), "is not valid JSON"),
    "two objects": (blob(b"{}{}"), "is not valid JSON"),
    "NUL padding": (blob(b"{}\0\0"), "is not valid JSON"),
    "deep JSON": (blob(DEEP), "nested too deeply"),
    "NaN": (with_a(shape=[float("nan")]), "NaN is not a JSON number"),
    "huge integer": (blob(b'{"a":{"dtype":"F32","shape":[' + b"9" * 5000 + b"]}}"), "more than 20 digits"),
    "duplicate key": (blob(b'{"a":1,"a":1}'), "a key occurs twice"),
    "duplicate by escape": (blob(b'{"a":1,"\\u0061":1}'), "a key occurs twice"),
    "duplicate metadata": (blob(b'{"__metadata__":{},"__metadata__":{}}', b""), "a key occurs twice"),
    "metadata list": (blob({"__metadata__": []}, b""), "__metadata__ must be an object"),
    "metadata null": (blob({"__metadata__": None}, b""), "__metadata__ must be an object"),
    "metadata number": (blob({"__metadata__": {"a": 1}}, b""), "must be an object of strings, 'a' is not"),
    "entry is a list": (blob({"a": []}), "must have exactly dtype, shape and data_offsets"),
    "entry lacks shape": (blob({"a": {"dtype": "F32", "data_offsets": [0, 8]}}), "must have exactly dtype"),
    "entry has more": (with_a(more=1), "must have exactly dtype"),
    "unknown dtype": (with_a(dtype="F31"), "has dtype 'F31', allowed are BOOL"),
    "dtype number": (with_a(dtype=1), "has dtype 1, allowed"),
    "dtype list": (with_a(dtype=["F32"]), "has dtype list, allowed"),
    "shape string": (with_a(shape="2"), "must be a list of whole numbers, got '2'"),
    "shape bool": (with_a(shape=[True, 2]), "must be whole numbers >= 0, got True"),
    "shape float": (with_a(shape=[2.0]), "must be whole numbers >= 0, got 2.0"),
    "shape negative": (with_a(shape=[-1, -2]), "must be whole numbers >= 0, got -1"),
    "shape minus zero": (blob(b'{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}', b""), "got -0.0"),
    "shape nested": (with_a(shape=[[2]]), "must be whole numbers >= 0, got list"),
    "product wraps to 8": (with_a(shape=[1 << 62, 1 << 2, 2]), "impossible shape"),
    "product hidden by 0": (with_a(shape=[0, 1 << 63, 1 << 63], data_offsets=[0, 0]), "impossible shape"),
    "nine dimensions": (with_a(shape=[1] * 8 + [2]), "at most 8 dimensions, got 9"),
    "100,000 dimensions": (with_a(shape=[1] * 99_999 + [2]), "at most 8 dimensions, got 100000"),
    "offsets missing": (with_a(data_offsets=[]), "takes 8 bytes, its offsets are []"),
    "offsets three": (with_a(data_offsets=[0, 8, 8]), "its offsets are [0, 8, 8]"),
    "offsets reversed": (with_a(data_offsets=[8, 0]), "its offsets are [8, 0]"),
    "offsets float": (with_a(data_offsets=[0, 8.0]), "must be whole numbers >= 0, got 8.0"),
    "offsets too small": (with_a(data_offsets=[0, 4]), "takes 8 bytes, its offsets are [0, 4]"),
    "overlap": (blob({"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, b"\0" * 12), "overlaps the one before it"),
    "same bytes twice": (blob({"a": F32, "b": F32}), "overlaps the one before it"),
    "hole": (blob({"a": F32, "b": {**F32, "data_offsets": [12, 20]}}, b"\0" * 20), "leaves a gap before it"),
    "hole at the start": (with_a(data_offsets=[8, 16]), "leaves a gap before it"),
    "data cut": (blob({"a": F32}, b"\0" * 7), "but its header describes 77 bytes: the download is incomplete"),
    "data after the end": (blob({"a": F32}, b"\0" * 9), "has 1 bytes after its last tensor: it is corrupt"),
    "long name": (blob({"a" * 257: F32}), "at most 256 characters, got 257"),
    "1 MB name": (blob({"a" * 1_000_000: F32}), "at most 256 characters, got 1000000"),
    "4,097 tensors": (
        blob({str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(4_097)}, b""),
        "at most 4096 tensors, got 4097",
    ),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a Git LFS pointer"),
    "web page": (b"\n<!DOCTYPE html><html><title>Sign in</title></html>", "a web page: "),
    "other web page": (b"<HTML><body>404</body></HTML>", "a web page"),
    "PyTorch zip": (b"PK\x03\x04" + b"\0" * 50, "get the .safetensors version of it"),
    "pickle": (b"\x80\x02}q\x00." + b"\0" * 20, "a Python pickle"),
    "GGUF": (b"GGUF\x03\0\0\0" + b"\0" * 20, "a GGUF file"),
}


@pytest.mark.parametrize("data", GOOD, ids=range(len(GOOD)))
def test_good_headers(data: bytes) -> None:
    check(data)
    safetensors.deserialize(data)


def test_the_contents_of_a_header() -> None:
    header = check(GOOD[5])
    assert header.info == {"a": TensorInfo("F32", (2,), 0, 8), "b": TensorInfo("U8", (1,), 8, 9)}
    assert list(header.info) == ["a", "b"]
    assert check(GOOD[1]).metadata == {"k": "v"}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers(case: str) -> None:
    data, message = HOSTILE[case]
    with pytest.raises(FileError) as caught:
        check(data)
    text = str(caught.value)
    assert message in text and "x.safetensors" in text and len(text) < 300 and text.isprintable()


def test_every_dtype_and_no_other() -> None:
    for dtype, size in ((name, dtype.itemsize) for name, dtype in DTYPES.items()):
        data = blob({"a": {"dtype": dtype, "shape": [3], "data_offsets": [0, 3 * size]}}, b"\0" * 3 * size)
        assert check(data).info["a"].dtype == dtype
        safetensors.deserialize(data)


def seeds() -> list[bytes]:
    tensors = {
        f"layer.{i}.weight": {"dtype": kind, "shape": [2, 2], "data_offsets": [4 * size * i, 4 * size * (i + 1)]}
        for kind, size in (("F32", 4),)
        for i in range(3)
    }
    return [*GOOD, blob({"__metadata__": {"format": "pt"}, **tensors}, bytes(48))]


def mutate(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(changed) + 1)
        kind = chance.randrange(6)
        if kind == 0 and changed:
            changed[at % len(changed)] = chance.randrange(256)
        elif kind == 1:
            changed[at:at] = chance.choice(TOKENS)
        elif kind == 2:
            del changed[at : at + chance.randrange(1, 9)]
        elif kind == 3 and changed:
            changed[at % len(changed)] ^= 1 << chance.randrange(8)
        elif kind == 4:
            changed[at:at] = changed[at : at + chance.randrange(40)]
        else:
            changed[at : at + 1] = chance.choice(TOKENS)
    if chance.random() < 0.7 and len(changed) >= 8:  # keep the length true, so that the JSON itself is reached
        header = len(changed) - 8 - (len(data) - 8 - int.from_bytes(data[:8], "little"))
        changed[:8] = max(header, 0).to_bytes(8, "little")
    return bytes(changed)


TOKENS = [
    b"0",
    b"-0",
    b"-1",
    b"1e1",
    b"1.0",
    b"8",
    b"18446744073709551616",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b'"',
    b" ",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b"\xff",
    b"null",
    b"true",
    b"NaN",
    b'"a":',
    b'"__metadata__":',
    b"\n",
    b"\t",
    b"\\",
    b'"shape":[],',
    b'"F16"',
    b'"I64"',
    b"[0,0]",
    b"[0,8]",
]


def fuzz(count: int, seed: int, accept: Callable[[bytes], None]) -> int:
    chance, pool, accepted = random.Random(seed), seeds(), 0
    for _ in range(count):
        data = mutate(chance.choice(pool), chance)
        try:
            check(data)
        except FileError:
            continue
        accepted += 1
        accept(data)
    return accepted


def test_mutants_are_refused_or_good_for_the_library_too() -> None:
    accepted = fuzz(20_000, 7, lambda data: safetensors.deserialize(data) and None)
    assert accepted > 200, "the mutants are too wild to say anything"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for candidate in (data, blob(data), blob(b"{" + data)):
        try:
            check(candidate)
        except FileError:
            continue
        safetensors.deserialize(candidate)


@pytest.mark.parametrize("length", [*range(600, 700, 8), 0x10280, 0x20280, 0x380, 0x480, 0x10580, 0x4B50, 0x2020])
def test_the_length_of_a_header_is_no_magic_number(length: int) -> None:
    """640 is 80 02 00 ..., as old pickles begin."""
    text = b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(length)
    data = length.to_bytes(8, "little") + text + b"\0" * 8
    assert list(check(data).info) == ["a"]
    safetensors.deserialize(data)
