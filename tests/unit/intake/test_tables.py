"""The loader of the engine's own tables."""

from __future__ import annotations

import pytest

from omnivoice.errors import FileError
from omnivoice.intake.tables import load_table


def test_a_table_of_the_package_is_read_once() -> None:
    table = load_table("config_keys.json")
    assert isinstance(table, dict) and table
    assert load_table("config_keys.json") is table


def test_a_missing_table_is_named() -> None:
    with pytest.raises(FileError, match=r"^nothing\.json does not exist$"):
        load_table("text/nothing.json")


def test_no_way_out_of_the_package() -> None:
    with pytest.raises(AssertionError):
        load_table("../pyproject.toml")
