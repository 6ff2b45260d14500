"""The demo voice: a model with a small vocabulary that comes with the pack, so that a first try needs no download.

It is in `demo_voice/`, with a card that describes it. It is used only if no other model is named or found.
"""

from __future__ import annotations

from os.path import isfile
from pathlib import Path

NAME = "demo voice (speaks a small vocabulary)"
FILE = Path("demo_voice") / "demo_voice.safetensors"


def demo_model() -> Path | None:
    """Return its file, or None if the pack was installed without it."""
    path = Path(__file__).resolve().parents[2] / FILE
    return path if isfile(path) else None
