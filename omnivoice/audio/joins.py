"""Joining audio: linear fades, and silence between chunks and recordings.

Ramps are numpy's float64 `linspace` rounded to float32, as in upstream; torch's differ in the last bit. Chunks do not
overlap: what upstream calls a cross-fade is a fade out, zeros and a fade in. Inputs are never changed in place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import AudioError
from ..intake.limits import MAX_TOTAL_SECONDS
from ..types import Waveform
from .resample import resample

GAP_SECONDS = 0.3  # fade out, zeros and fade in


def _ramp(first: float, last: float, count: int) -> Tensor:
    return torch.from_numpy(np.linspace(first, last, count, dtype=np.float32))


def fade(samples: Tensor, *, fade_in: int, fade_out: int) -> Tensor:
    """Return a copy of samples [C, N], faded in and out over the given numbers of samples, each at most N / 2."""
    faded = samples.clone()
    half = samples.shape[1] // 2
    fade_in, fade_out = min(fade_in, half), min(fade_out, half)
    if fade_in > 0:
        faded[:, :fade_in] *= _ramp(0, 1, fade_in)
    if fade_out > 0:
        faded[:, -fade_out:] *= _ramp(1, 0, fade_out)
    return faded


def gap_samples(sample_rate: int) -> int:
    """Return the number of zeros between two chunks, as many as each fade has samples (utils/audio.py:329)."""
    return int(GAP_SECONDS * sample_rate) // 3


def join_chunks(chunks: Sequence[Tensor], sample_rate: int) -> Tensor:
    """Join chunks [1, N_i] float32 to [1, sum(N_i) + zeros]: fade out, zeros and fade in, of 0.1 s each.

    This is upstream's utils/audio.py:307, except that a chunk shorter than two fades fades over half its length at
    each end, where upstream fades it over its full length. A single chunk is returned unchanged.
    """
    if len(chunks) == 1:
        return chunks[0]
    count = gap_samples(sample_rate)
    parts: list[Tensor] = []
    for i, chunk in enumerate(chunks):
        if i > 0:
            parts.append(chunk.new_zeros(chunk.shape[0], count))
        parts.append(fade(chunk, fade_in=count if i > 0 else 0, fade_out=count if i < len(chunks) - 1 else 0))
    return torch.cat(parts, dim=1)


def join_recordings(recordings: Sequence[Waveform], gap_seconds: float) -> tuple[Waveform, list[float]]:
    """Join recordings with `gap_seconds` of zeros between them: (one Waveform, the start of each one in seconds).

    All are resampled to the highest sample rate among them. Mono is repeated in every channel where others have more;
    other mixtures of channel counts raise AudioError, as does a result of more than `MAX_TOTAL_SECONDS`. A single
    recording comes back as it is. Needs at least one.
    """
    rate = max(recording.sample_rate for recording in recordings)
    channels = max(recording.samples.shape[0] for recording in recordings)
    for number, recording in enumerate(recordings, start=1):
        if recording.samples.shape[0] not in (1, channels):
            raise AudioError(
                f"recording {number} of {len(recordings)} has {recording.samples.shape[0]} channels and another one "
                f"has {channels}: convert them to the same number of channels, or to mono"
            )
    gap = round(gap_seconds * rate)
    seconds = sum(recording.samples.shape[1] / recording.sample_rate for recording in recordings)
    seconds += gap / rate * (len(recordings) - 1)
    if seconds > MAX_TOTAL_SECONDS:
        raise AudioError(
            f"the joined audio would last {seconds / 3600:.1f} hours, at most {MAX_TOTAL_SECONDS // 3600} are "
            "allowed: join fewer recordings, or shorten the gap"
        )
    if len(recordings) == 1:
        return recordings[0], [0.0]
    parts = [resample(recording.samples, recording.sample_rate, rate) for recording in recordings]
    starts = [0, *itertools.accumulate(part.shape[1] + gap for part in parts[:-1])]
    joined = torch.zeros(channels, starts[-1] + parts[-1].shape[1])
    for start, part in zip(starts, parts):
        joined[:, start : start + part.shape[1]] = part  # [1, N] is repeated in every channel
    return Waveform(joined, rate), [start / rate for start in starts]
