"""Cutting a long recording where it is quiet: for a recogniser that hears so many seconds at a time.

It cuts nothing out: the pieces joined are the recording. Not for references, which `reference.py` trims.
"""

from __future__ import annotations

import torch
from torch import Tensor

HOP_SECONDS = 0.02


def quiet_windows(
    samples: Tensor, sample_rate: int, *, longest_seconds: float, look_back_seconds: float
) -> list[Tensor]:
    """samples [N] -> pieces [n] of at most `longest_seconds`, in order, none of them empty.

    Each but the last ends in the quietest fifth of a second of its last `look_back_seconds`.
    """
    longest, look_back = int(longest_seconds * sample_rate), int(look_back_seconds * sample_rate)
    pieces = []
    while samples.shape[0] > longest:
        end = longest - look_back + _quietest(samples[longest - look_back : longest], sample_rate)
        pieces.append(samples[:end])
        samples = samples[end:]
    return [*pieces, samples] if samples.shape[0] else pieces


def _quietest(samples: Tensor, sample_rate: int) -> int:
    """Where the middle of the quietest fifth of a second is; the end where there is no such length."""
    hop, span = max(1, int(HOP_SECONDS * sample_rate)), max(1, sample_rate // 5)
    if samples.shape[0] <= span:
        return int(samples.shape[0])
    power = torch.nn.functional.avg_pool1d(samples.double().square()[None, None], span, hop)[0, 0]
    return int(power.argmin()) * hop + span // 2
