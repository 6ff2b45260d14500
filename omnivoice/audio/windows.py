"""Cutting a long recording into pieces where it is quiet, for a speech recogniser with a limited window.

Nothing is removed: the pieces joined are the recording. References are trimmed in `reference` instead.
"""

from __future__ import annotations

import torch
from torch import Tensor

HOP_SECONDS = 0.02


def quiet_windows(
    samples: Tensor, sample_rate: int, *, longest_seconds: float, look_back_seconds: float
) -> list[Tensor]:
    """Cut samples [N] into pieces [n] of at most `longest_seconds`, in order and without empty ones.

    Each piece but the last ends in the quietest fifth of a second within its last `look_back_seconds`.
    """
    longest, look_back = int(longest_seconds * sample_rate), int(look_back_seconds * sample_rate)
    pieces = []
    while samples.shape[0] > longest:
        end = longest - look_back + _quietest(samples[longest - look_back : longest], sample_rate)
        pieces.append(samples[:end])
        samples = samples[end:]
    return [*pieces, samples] if samples.shape[0] else pieces


def _quietest(samples: Tensor, sample_rate: int) -> int:
    """Return the middle of the quietest fifth of a second, or the end of samples that are shorter than that."""
    hop, span = max(1, int(HOP_SECONDS * sample_rate)), max(1, sample_rate // 5)
    if samples.shape[0] <= span:
        return int(samples.shape[0])
    power = torch.nn.functional.avg_pool1d(samples.double().square()[None, None], span, hop)[0, 0]
    return int(power.argmin()) * hop + span // 2
