"""The demo voice: a model of a small vocabulary that lies beside this package, so that a first try needs no download.

It is in `demo_voice/`, with the card that says what it is. Never chosen where another
model is named or found.
"""

from __future__ import annotations

from os.path import isfile
from pathlib import Path

NAME = "demo voice (speaks a small vocabulary)"
FILE = Path("demo_voice") / "demo_voice.safetensors"


def demo_model() -> Path | None:
    """Its file, or None where the package came without it."""
    path = Path(__file__).resolve().parents[2] / FILE
    return path if isfile(path) else None
