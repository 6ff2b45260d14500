"""JSON, read more strictly than the standard library reads it, so that other parsers cannot read it differently."""

from __future__ import annotations

import json
import math
import re
from os import PathLike
from typing import NoReturn

from ..errors import FileError
from .files import read_bytes
from .limits import MAX_JSON_CONTAINERS, MAX_JSON_VALUES
from .paths import shown_name

Json = object  # None, bool, int, float, str, list or dict: narrow it with isinstance

_MAX_INT_DIGITS = 20
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(path: str | PathLike[str], *, limit: int) -> Json:
    """Return the content of a JSON file of at most `limit` bytes, parsed by `parse_json`."""
    return parse_json(read_bytes(path, limit=limit), shown_name(path))


def parse_json(data: bytes | str, name: str) -> Json:
    """Return the parsed JSON; raises FileError, which calls the text `name`.

    It must be UTF-8, or text already. More than `MAX_JSON_VALUES` values or `MAX_JSON_CONTAINERS` lists and objects are
    refused before anything is parsed; commas and brackets in texts count too. Duplicate keys, NaN, Infinity and 1e999,
    integers of more than 20 digits, halves of surrogate pairs, and nesting deeper than the interpreter allows are
    refused.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        _check_count(text, name)
        parsed: Json = _DECODER.decode(text)
        if _SURROGATE.search(text):
            _refuse_halves(parsed)
    except RecursionError:
        raise FileError(f"{name} is not usable JSON: it is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError among them
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:100]
        raise FileError(f"{name} is not valid JSON: {reason}") from None
    return parsed


def _check_count(text: str, name: str) -> None:
    containers = text.count("{") + text.count("[")
    if containers > MAX_JSON_CONTAINERS or text.count(",") > MAX_JSON_VALUES:
        raise FileError(
            f"{name} has too many values to be held together: at most {MAX_JSON_VALUES:,} commas and "
            f"{MAX_JSON_CONTAINERS:,} lists and objects are allowed; split it, or write a long list as JSON lines"
        )


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse_halves(parsed: Json) -> None:
    """Raise ValueError if a string has half of a surrogate pair, which an escape can write and UTF-8 cannot."""
    try:
        json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a string has half of a surrogate pair, which is not a character") from None


def _short_int(text: str) -> int | float:
    if text == "-0":
        return -0.0  # as the Rust parser that reads the same files has it
    if len(text) > _MAX_INT_DIGITS:
        raise ValueError(f"an integer has more than {_MAX_INT_DIGITS} digits")
    return int(text)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite_float, parse_int=_short_int
)
