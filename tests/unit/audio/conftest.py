"""Upstream's recorded results for sound (tests/parity/record_audio.py made them)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

RECORDED = Path(__file__).parents[2] / "assets" / "audio" / "upstream.safetensors"


@pytest.fixture(scope="session")
def golden() -> dict[str, torch.Tensor]:
    """name -> float32; 16-bit tensors are scaled to -1..1."""
    with safe_open(RECORDED, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    return {k: v.float() / 32768 if v.dtype == torch.int16 else v for k, v in tensors.items()}


@pytest.fixture(scope="session")
def index() -> dict[str, dict]:
    """name -> how it was recorded."""
    with safe_open(RECORDED, "pt") as file:
        return json.loads(file.metadata()["index"])
