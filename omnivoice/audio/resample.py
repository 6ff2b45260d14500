"""Resampling by Hann-windowed sinc, equal to torchaudio's default and bounded in memory for every pair of rates.

The filter is that of torchaudio 2.11 functional/functional.py:1305 (`sinc_interp_hann`, 6 zero crossings, rolloff
0.99), which the checkpoint was trained with. torchaudio keeps a dense kernel row for each output phase, which costs
8.6 GB for 22,051 -> 24,000 Hz, and computes their time axis in float32, which limits such pairs to an accuracy of about
-80 dB. Here there are two ways:

- Few phases, with a dense bank of at most `MAX_BANK_TAPS` (all common pairs): the same bank with the same float32
  arithmetic. It equals torchaudio, on a CPU bit for bit, and is accurate to -93 dB.
- Any other pair: only the taps under the window, with exact integer times, in blocks of bounded size. It is accurate
  to -130 dB, so it differs from torchaudio where torchaudio is inaccurate.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import AudioError
from ..intake.cancel import cancellable
from ..intake.limits import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE

ZERO_CROSSINGS = 6
ROLLOFF = 0.99
MAX_BANK_TAPS = 1 << 20
BLOCK_ELEMENTS = 1 << 18


def resample(samples: Tensor, from_hz: int, to_hz: int) -> Tensor:
    """Resample [C, N] float to [C, M] float32 on the same device, where M = ceil(N * to_hz / from_hz).

    As in torchaudio, the quotient is rounded to float32 first, which makes M one less for some N above about 1 s.
    Equal rates return the input itself. Memory beyond input and output is below 150 MB for all rates.
    Raises AudioError for a rate that is not a whole number within 4,000-384,000 Hz, and for another shape.
    """
    _check(samples, from_hz, to_hz)
    if from_hz == to_hz:
        return samples
    common = math.gcd(from_hz, to_hz)
    old, new = from_hz // common, to_hz // common
    samples = samples.to(torch.float32)
    out_length = _out_length(samples.shape[1], old, new)
    if out_length == 0:
        return samples
    half_width = math.ceil(ZERO_CROSSINGS * old / _cutoff(old, new))
    padded = torch.nn.functional.pad(samples, (half_width, half_width + old))
    if new * (old + 2 * half_width) <= MAX_BANK_TAPS:
        resampled = _by_bank(padded, old, new, half_width)
    else:
        resampled = _by_taps(padded, old, new, half_width, out_length)
    return resampled[:, :out_length].contiguous()


def _check(samples: Tensor, from_hz: int, to_hz: int) -> None:
    if samples.ndim != 2 or not samples.is_floating_point():
        raise AudioError(f"samples must be a float tensor [C, N], got {tuple(samples.shape)} {samples.dtype}")
    for rate in (from_hz, to_hz):
        if isinstance(rate, bool) or not isinstance(rate, int) or not MIN_SAMPLE_RATE <= rate <= MAX_SAMPLE_RATE:
            raise AudioError(
                f"sample rate must be a whole number of Hz within {MIN_SAMPLE_RATE}-{MAX_SAMPLE_RATE}, got {rate!r}: "
                f"convert the recording to {SAMPLE_RATE} Hz"
            )


def _out_length(length: int, old: int, new: int) -> int:
    """Return M: the ceiling of a float32, as in torchaudio functional.py:1427, but at most the exact ceiling."""
    rounded = torch.tensor(new * length / old, dtype=torch.float32)
    return min(int(rounded.ceil()), -(-new * length // old))


def _cutoff(old: int, new: int) -> float:
    """Return how many zero crossings of the sinc there are per `old` input samples."""
    return min(old, new) * ROLLOFF


def _windowed_sinc(crossings: Tensor, scale: float) -> Tensor:
    """Return the filter at times in zero crossings from its centre; it is zero beyond +-ZERO_CROSSINGS."""
    crossings = crossings.clamp(-ZERO_CROSSINGS, ZERO_CROSSINGS)
    window = torch.cos(crossings * math.pi / ZERO_CROSSINGS / 2) ** 2
    angle = crossings * math.pi
    sinc = torch.where(angle == 0, 1.0, angle.sin() / angle)
    return sinc * (window * scale)


def _by_bank(padded: Tensor, old: int, new: int, half_width: int) -> Tensor:
    """Filter [C, half_width + N + half_width + old] to [C, M * new]; window m gives outputs m*new..(m+1)*new-1.

    The order of the float32 operations on the time axis is torchaudio's. Another order changes the taps by 1e-5.
    """
    offsets = torch.arange(-half_width, half_width + old, dtype=torch.float32) / old
    phases = torch.arange(0, -new, -1, dtype=torch.float32) / new
    cutoff = _cutoff(old, new)
    bank = _windowed_sinc((phases[:, None] + offsets[None]) * cutoff, cutoff / old)  # [new, old + 2 * half_width]
    bank = bank.to(padded.device)
    apply = _convolve if padded.device.type == "cpu" else _multiply
    return apply(padded, bank, old)


def _convolve(padded: Tensor, bank: Tensor, old: int) -> Tensor:
    """Sum as torchaudio does, bit for bit, so that the 16-bit samples of a reference equal upstream's."""
    by_phase = torch.nn.functional.conv1d(padded[:, None], bank[:, None], stride=old)  # [C, new, M]
    return by_phase.transpose(1, 2).reshape(padded.shape[0], -1)


def _multiply(padded: Tensor, bank: Tensor, old: int) -> Tensor:
    """Sum by matrix products, for GPUs, where cuDNN computes float32 convolutions in TF32 by default."""
    windows = padded.unfold(1, bank.shape[1], old)  # [C, M, taps], a view
    block = max(1, BLOCK_ELEMENTS // (bank.shape[1] * padded.shape[0]))
    parts = [part @ bank.T for part in cancellable(windows.split(block, dim=1))]  # [C, block, new]
    return torch.cat(parts, dim=1).reshape(padded.shape[0], -1)


def _by_taps(padded: Tensor, old: int, new: int, half_width: int, out_length: int) -> Tensor:
    """As `_by_bank`, with only the taps under the window, which repeat every `new` outputs."""
    C = padded.shape[0]
    taps = 2 * half_width + 2
    cutoff = _cutoff(old, new)
    periods = -(-out_length // new)
    resampled = padded.new_empty(C, periods, min(new, out_length))
    phase_block = max(1, BLOCK_ELEMENTS // taps)
    for first in cancellable(range(0, resampled.shape[2], phase_block)):
        phase = torch.arange(first, min(first + phase_block, resampled.shape[2]))[:, None]  # [P, 1]
        position = phase * old // new - half_width + torch.arange(taps)  # [P, taps], input samples
        distance = (position * new - phase * old).to(torch.float64) / (old * new)
        kernel = _windowed_sinc(distance * cutoff, cutoff / old).to(device=padded.device, dtype=torch.float32)
        index = (position + half_width).to(padded.device)
        period_block = max(1, BLOCK_ELEMENTS // (C * kernel.numel()))
        for period in cancellable(range(0, periods, period_block)):
            shift = torch.arange(period, min(period + period_block, periods), device=padded.device) * old
            values = padded[:, shift[:, None, None] + index]  # [C, periods, P, taps]
            resampled[:, period : period + shift.numel(), first : first + phase.numel()] = (values * kernel).sum(3)
    return resampled.reshape(C, -1)
