"""Cutting at quiet places: nothing is lost, no piece is too long, and the cut is where it is quiet."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from omnivoice.audio.windows import quiet_windows


def cut(samples: torch.Tensor) -> list[torch.Tensor]:
    return quiet_windows(samples, 1_000, longest_seconds=3.0, look_back_seconds=1.0)


@settings(max_examples=40, deadline=None)
@given(length=st.integers(0, 20_000), seed=st.integers(0, 99))
def test_the_pieces_are_the_recording(length: int, seed: int) -> None:
    samples = torch.randn(length, generator=torch.Generator().manual_seed(seed))
    pieces = cut(samples)
    assert torch.equal(torch.cat([*pieces, samples[:0]]), samples)
    assert all(0 < piece.shape[0] <= 3_000 for piece in pieces)
    assert all(piece.shape[0] >= 2_000 for piece in pieces[:-1])


@pytest.mark.parametrize("pause", [2_100, 2_500, 2_799])
def test_the_cut_is_in_the_pause(pause: int) -> None:
    samples = torch.ones(5_000)
    samples[pause : pause + 200] = 0
    first, second = cut(samples)
    assert pause <= first.shape[0] <= pause + 200 and first.shape[0] + second.shape[0] == 5_000


def test_windows_shorter_than_the_quiet_span() -> None:
    pieces = quiet_windows(torch.ones(1_000), 1_000, longest_seconds=0.3, look_back_seconds=0.1)
    assert [piece.shape[0] for piece in pieces] == [300, 300, 300, 100]
