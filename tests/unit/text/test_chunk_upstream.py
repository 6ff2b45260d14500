"""Upstream's own splits, exactly: recorded cases, and the quirks that make them."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.text.chunking import chunk_upstream


def test_recorded_rows(rows: list[dict]) -> None:
    cut = [row for row in rows if "chunks" in row]
    assert len(cut) >= 8
    for row in cut:
        assert chunk_upstream(row["text"], row["chunk_len"]) == row["chunks"]


def test_recorded_random_texts(asset: Callable) -> None:
    cases = asset("chunks.json")
    assert len(cases) == 100
    for text, chunk_chars, min_chars, chunks in cases:
        assert chunk_upstream(text, chunk_chars, min_chars) == chunks


def test_quirks() -> None:
    assert chunk_upstream("Dr. Smith went home. He slept.", 12) == ["Dr. Smith went home.", "He slept."]
    assert chunk_upstream("Pi is 3.14159 and so on.", 6) == ["Pi is 3.", "14159 and so on."]  # their defect, kept
    assert chunk_upstream("a" * 999, 100) == ["a" * 999]
    assert chunk_upstream("", 10) == chunk_upstream("   ", 10) == []


@given(st.text(alphabet="ab .,!?\"')Mr。，", max_size=80), st.integers(0, 40), st.integers(0, 5))
@settings(max_examples=300, deadline=None)
def test_nothing_is_lost(text: str, chunk_chars: int, min_chars: int) -> None:
    chunks = chunk_upstream(text, chunk_chars, min_chars)
    assert "".join("".join(chunks).split()) == "".join(text.split())
