"""Presets: named sets of steps and shortcuts, with published quality figures for each.

`quality`, `balanced` and `draft` differ only in the number of steps. Their figures are those of the model's paper
(arXiv 2604.00688, table 9) on LibriSpeech-PC, Seed-TTS English and Seed-TTS Chinese, in this order.

`fast` also uses two approximations (`approximate.py`). It is the default of the MLX port, Remember2015/omnivoice-mlx
(`SamplerConfig(16, cache_refresh=8, uncond_every=3)`), whose research log (sections 4 and 5) measured it on the
published weights, in 8 bits with float16 activations on an M2 Max. Quality is the mean of 20 Chinese sentences, three
times each, cloned from one 3.7 s recording. Two series of one setting differ by as much as the settings do, so the log
calls the quality unchanged. Other languages and described voices were not measured. All rows are in `docs/speed.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..intake.limits import check_choice
from ..types import Sampling


@dataclass(frozen=True)
class Figures:
    """One or more test sets. source: who measured. errors: word errors, or character errors in Chinese, in %.
    similarity of the speaker to the reference, 1 = identical. utmos: a predicted rating of naturalness, 1-5."""

    source: str
    errors: tuple[float, ...]
    similarity: tuple[float, ...]
    utmos: tuple[float, ...]


@dataclass(frozen=True)
class Preset:
    """Steps and shortcuts (see `Sampling`), the figures measured for them, and those of 32 steps from that source."""

    steps: int
    figures: Figures
    baseline: Figures
    unconditional_every: int = 1
    prefix_every: int = 1

    def apply(self, sampling: Sampling) -> Sampling:
        """Return `sampling` with the steps and shortcuts of this preset."""
        return replace(
            sampling, steps=self.steps, unconditional_every=self.unconditional_every, prefix_every=self.prefix_every
        )


PAPER, MLX = "the model's paper", "the MLX port, where this is within the noise"
PAPER_32 = Figures(PAPER, (1.30, 1.53, 0.84), (0.729, 0.741, 0.777), (4.28, 3.91, 3.11))
PAPER_16 = Figures(PAPER, (1.50, 1.72, 0.99), (0.728, 0.735, 0.773), (4.23, 3.92, 3.00))
PAPER_8 = Figures(PAPER, (2.02, 1.94, 1.58), (0.713, 0.716, 0.756), (4.02, 3.59, 2.72))
MLX_32 = Figures(MLX, (0.73,), (0.746,), (2.83,))
MLX_FAST = Figures(MLX, (0.40,), (0.747,), (2.84,))

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "quality": Preset(32, PAPER_32, PAPER_32),
        "balanced": Preset(16, PAPER_16, PAPER_32),
        "fast": Preset(16, MLX_FAST, MLX_32, unconditional_every=3, prefix_every=8),
        "draft": Preset(8, PAPER_8, PAPER_32),
    }
)


def find_preset(name: object) -> Preset:
    """Return the preset of that name; raises InputError for any other value."""
    return PRESETS[check_choice("preset", name, PRESETS)]


def compared(name: str) -> str:
    """Return one line: what a preset computes, and its published figures as differences from 32 steps."""
    preset = PRESETS[name]
    now, before = preset.figures, preset.baseline
    shortcuts = shortcuts_of(preset)
    return (
        f"{preset.steps} steps{', ' + shortcuts if shortcuts else ''}: "
        f"errors {_span(now.errors, before.errors, 2)} points, speaker similarity "
        f"{_span(now.similarity, before.similarity, 3)}, UTMOS {_span(now.utmos, before.utmos, 2)} "
        f"(measured by {now.source})"
    )


def shortcuts_of(knobs: Preset | Sampling) -> str:
    """Return the approximations in use, in words; empty if every step is computed exactly."""
    used = []
    if knobs.prefix_every != 1:
        used.append(f"prefix recomputed every {knobs.prefix_every} steps")
    if knobs.unconditional_every != 1:
        used.append(f"unconditional half of guidance every {knobs.unconditional_every} steps")
    return ", ".join(used)


def _span(values: tuple[float, ...], before: tuple[float, ...], digits: int) -> str:
    """Return the smallest change and the largest, or the only one."""
    changes = sorted((round(a - b, digits) for a, b in zip(values, before)), key=abs)
    return " to ".join(f"{change:+.{digits}f}" for change in dict.fromkeys((changes[0], changes[-1])))
