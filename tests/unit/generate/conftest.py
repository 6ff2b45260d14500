"""Shared by the tests of generation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omnivoice.generate import graphs
from tests.simulated_graphs import STEPS


@pytest.fixture(scope="module")
def graphs_of_few_steps() -> Iterator[None]:
    """Runs of `STEPS` steps get a CUDA graph. Those for which it pays are longer, and simulating them takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "MIN_STEPS", STEPS)
        yield
