"""Change of sample rate by Hann-windowed sinc, equal to torchaudio's default, bounded at every pair of rates.

The filter is that of torchaudio 2.11 functional/functional.py:1305 (`sinc_interp_hann`, 6 zero crossings, rolloff
0.99), which the checkpoint's training used. What is unusual: torchaudio keeps one dense kernel row per output
phase, which costs 8.6 GB for 22,051 -> 24,000 Hz, and computes their time axis in float32, which for such pairs is
only right to about -80 dB. So there are two evaluations here:

- few phases (a dense bank of at most `MAX_BANK_TAPS`: all common pairs): the same bank by the same float32
  arithmetic; equal to torchaudio, on a CPU bit for bit, which is itself right to -93 dB there;
- any other pair: only the taps under the window, their times exact in integers, in blocks of bounded size; right to
  -130 dB, and so not equal to torchaudio where that is wrong.

No resampler object, no kernel cache, no other filters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import AudioError
from ..intake.limits import MAX_SAMPLE_RATE, MIN_SAMPLE_RATE

ZERO_CROSSINGS = 6
ROLLOFF = 0.99
MAX_BANK_TAPS = 1 << 20
BLOCK_ELEMENTS = 1 << 18


def resample(samples: Tensor, from_hz: int, to_hz: int) -> Tensor:
    """samples [C, N] float at from_hz -> [C, M] float32 at to_hz, on the same device; M = ceil(N * to_hz / from_hz).

    As in torchaudio the quotient is rounded to float32 first, so that M is one less for some N above about 1 s.
    Equal rates give the input itself. Memory beyond input and output is below 150 MB, whatever the rates.
    Raises AudioError for a rate that is not a whole number within 4,000-384,000 Hz, or another shape.
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
    """torchaudio functional.py:1427 takes the ceiling of a float32; never more than what there is."""
    rounded = torch.tensor(new * length / old, dtype=torch.float32)
    return min(int(rounded.ceil()), -(-new * length // old))


def _cutoff(old: int, new: int) -> float:
    """Zero crossings of the sinc per `old` input samples."""
    return min(old, new) * ROLLOFF


def _windowed_sinc(crossings: Tensor, scale: float) -> Tensor:
    """Filter values at times counted in zero crossings from the centre; zero from +-ZERO_CROSSINGS on."""
    crossings = crossings.clamp(-ZERO_CROSSINGS, ZERO_CROSSINGS)
    window = torch.cos(crossings * math.pi / ZERO_CROSSINGS / 2) ** 2
    angle = crossings * math.pi
    sinc = torch.where(angle == 0, 1.0, angle.sin() / angle)
    return sinc * (window * scale)


def _by_bank(padded: Tensor, old: int, new: int, half_width: int) -> Tensor:
    """padded [C, half_width + N + half_width + old] -> [C, M * new]: window m makes outputs m*new..(m+1)*new-1.

    The order of the float32 operations on the time axis is torchaudio's; another order moves the taps by 1e-5.
    """
    offsets = torch.arange(-half_width, half_width + old, dtype=torch.float32) / old
    phases = torch.arange(0, -new, -1, dtype=torch.float32) / new
    cutoff = _cutoff(old, new)
    bank = _windowed_sinc((phases[:, None] + offsets[None]) * cutoff, cutoff / old)  # [new, old + 2 * half_width]
    bank = bank.to(padded.device)
    apply = _convolve if padded.device.type == "cpu" else _multiply
    return apply(padded, bank, old)


def _convolve(padded: Tensor, bank: Tensor, old: int) -> Tensor:
    """The very sum torchaudio makes: bit for bit, so that the reference's 16-bit samples are upstream's."""
    by_phase = torch.nn.functional.conv1d(padded[:, None], bank[:, None], stride=old)  # [C, new, M]
    return by_phase.transpose(1, 2).reshape(padded.shape[0], -1)


def _multiply(padded: Tensor, bank: Tensor, old: int) -> Tensor:
    """The same as matrix products, for GPUs: cuDNN makes float32 convolutions in TF32 unless told otherwise."""
    windows = padded.unfold(1, bank.shape[1], old)  # [C, M, taps], a view
    block = max(1, BLOCK_ELEMENTS // (bank.shape[1] * padded.shape[0]))
    parts = [part @ bank.T for part in windows.split(block, dim=1)]  # [C, block, new]
    return torch.cat(parts, dim=1).reshape(padded.shape[0], -1)


def _by_taps(padded: Tensor, old: int, new: int, half_width: int, out_length: int) -> Tensor:
    """As `_by_bank`, with the taps under the window only; every `new` outputs the same taps serve again."""
    C = padded.shape[0]
    taps = 2 * half_width + 2
    cutoff = _cutoff(old, new)
    periods = -(-out_length // new)
    resampled = padded.new_empty(C, periods, min(new, out_length))
    phase_block = max(1, BLOCK_ELEMENTS // taps)
    for first in range(0, resampled.shape[2], phase_block):
        phase = torch.arange(first, min(first + phase_block, resampled.shape[2]))[:, None]  # [P, 1]
        position = phase * old // new - half_width + torch.arange(taps)  # [P, taps], input samples
        distance = (position * new - phase * old).to(torch.float64) / (old * new)
        kernel = _windowed_sinc(distance * cutoff, cutoff / old).to(device=padded.device, dtype=torch.float32)
        index = (position + half_width).to(padded.device)
        period_block = max(1, BLOCK_ELEMENTS // (C * kernel.numel()))
        for period in range(0, periods, period_block):
            shift = torch.arange(period, min(period + period_block, periods), device=padded.device) * old
            values = padded[:, shift[:, None, None] + index]  # [C, periods, P, taps]
            resampled[:, period : period + shift.numel(), first : first + phase.numel()] = (values * kernel).sum(3)
    return resampled.reshape(C, -1)
