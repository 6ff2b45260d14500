"""Packs the language model and the codec into one file in float16, with the list of words that it knows."""

from __future__ import annotations

from pathlib import Path

import torch

from demo_voice.making.grammar import words
from omnivoice.weights import locate_checkpoint
from omnivoice.weights.demo import FILE
from omnivoice.weights.export import export_checkpoint

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 12_000_000


def pack(work: Path) -> Path:
    """Write demo_voice.safetensors from the trained model and return its path."""
    path = export_checkpoint(
        locate_checkpoint(work / "model", work / "fitted"),
        ROOT / FILE,
        dtype=torch.float16,
        codec_dtype=torch.float16,
        words=words(),
        overwrite=True,
    )
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{path.name} has {size} bytes, at most {MOST_BYTES} are allowed")
    print(f"pack: {path.name}, {size} bytes")
    return path
