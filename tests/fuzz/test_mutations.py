"""The mutations: the same seed gives the same inputs, every edit takes every data, and JSON is edited as JSON."""

from __future__ import annotations

import json
from random import Random

import pytest

from tests.fuzz.mutations import EDITS, JsonText, mutate

TEXTS = (b"{}", b"[]", b"1", b'"a"', b'{"a": [1, {"b": "x\\"},{"}], "c": -2.5e3, "d": {}}', b" [ [ ], null , true ]\n")


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
@pytest.mark.parametrize("data", [b"", b"x", b"four", bytes(range(256)) * 20])
def test_every_edit_takes_any_data_and_stays_within_64_kib_of_it(edit, data: bytes) -> None:
    rng = Random(1)
    found = {edit(rng, data, b"other input") for _ in range(200)}
    assert all(len(one) <= len(data) + (1 << 16) for one in found)
    assert found != {data} or not data


def test_a_seed_gives_the_same_inputs_again() -> None:
    text = JsonText(TEXTS[4])
    runs = [
        [(mutate(rng, b"some data", (b"other",)), text.mutate(rng)) for _ in range(500)]
        for rng in (Random(3), Random(3))
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 450


@pytest.mark.parametrize("data", TEXTS)
def test_a_text_is_split_into_all_its_values(data: bytes) -> None:
    text = JsonText(data)
    assert json.loads(b"".join(text.tokens)) == json.loads(data)
    pieces = [b"".join(text.tokens[first:last]) for first, last in text.values]
    assert json.loads(pieces[-1]) == json.loads(data)
    assert all(json.loads(piece) is not ... for piece in pieces)


def test_one_value_is_replaced() -> None:
    text = JsonText(b'{"a": [1, 2], "b": {"c": 3}}')
    found = [text.with_value(place, b"7") for place in range(len(text.values))]
    assert found == [
        b'{"a":[7,2],"b":{"c":3}}',
        b'{"a":[1,7],"b":{"c":3}}',
        b'{"a":7,"b":{"c":3}}',
        b'{"a":[1,2],"b":{"c":7}}',
        b'{"a":[1,2],"b":7}',
        b"7",
    ]


@pytest.mark.parametrize("data", TEXTS)
def test_many_mutants_are_still_json_and_many_are_not(data: bytes) -> None:
    rng, text = Random(5), JsonText(data)
    valid = 0
    for _ in range(2000):
        try:
            json.loads(text.mutate(rng))
            valid += 1
        except (ValueError, RecursionError):
            pass
    assert 200 < valid < 1900
