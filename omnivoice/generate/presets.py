"""Step counts with a name, and what the model's paper measured for each.

Figures: arXiv 2604.00688, table 9, on LibriSpeech-PC, Seed-TTS English and Seed-TTS Chinese, in this order. They are
the published model's; nothing here was measured by us. A preset is a number of steps and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Preset:
    """steps: decoding steps. Measured on the three test sets: word_errors in %, similarity of the speaker to the
    reference (1 = the same), utmos: a predicted rating of naturalness, 1-5."""

    steps: int
    word_errors: tuple[float, float, float]
    similarity: tuple[float, float, float]
    utmos: tuple[float, float, float]


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "quality": Preset(32, (1.30, 1.53, 0.84), (0.729, 0.741, 0.777), (4.28, 3.91, 3.11)),
        "balanced": Preset(16, (1.50, 1.72, 0.99), (0.728, 0.735, 0.773), (4.23, 3.92, 3.00)),
        "draft": Preset(8, (2.02, 1.94, 1.58), (0.713, 0.716, 0.756), (4.02, 3.59, 2.72)),
    }
)


def compared(name: str) -> str:
    """What the paper measured for a preset, against "quality", in one line."""
    preset, best = PRESETS[name], PRESETS["quality"]
    return (
        f"{preset.steps} steps: word errors {_span(preset.word_errors, best.word_errors, 2)} points, speaker "
        f"similarity {_span(preset.similarity, best.similarity, 3)}, UTMOS {_span(preset.utmos, best.utmos, 2)}"
    )


def _span(values: tuple[float, ...], best: tuple[float, ...], digits: int) -> str:
    """The smallest change and the largest."""
    changes = sorted((round(a - b, digits) for a, b in zip(values, best)), key=abs)
    return f"{changes[0]:+.{digits}f} to {changes[-1]:+.{digits}f}"
