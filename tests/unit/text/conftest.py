"""What the text tests share: recorded upstream results and hand-written samples from tests/assets/text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from omnivoice.text.tokenizer import TextTokenizer

ASSETS = Path(__file__).resolve().parents[2] / "assets" / "text"


def load_asset(name: str) -> object:
    return json.loads((ASSETS / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def asset() -> Callable[[str], object]:
    return load_asset


@pytest.fixture(scope="session")
def samples() -> dict:
    return load_asset("samples.json")


@pytest.fixture(scope="session")
def rows() -> list[dict]:
    """Texts and what upstream made of them; see tests/parity/record_text_tables.py."""
    return load_asset("rows.json")


@pytest.fixture(scope="session")
def tokenizer() -> TextTokenizer:
    """The published tokenizer, reduced to what the recorded texts need."""
    return TextTokenizer.from_json((ASSETS / "tokenizer.json").read_bytes())


@pytest.fixture(scope="session")
def small_tokenizer() -> TextTokenizer:
    """The tiny checkpoint's."""
    return TextTokenizer.from_json((ASSETS / "small_tokenizer.json").read_bytes())
