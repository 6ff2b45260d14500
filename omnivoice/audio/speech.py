"""Where speech begins and ends in a long recording, judged by its level alone.

Speech is what stands out from the rest of the recording, for long enough: a click, a cough or one stray word does not.
The level is that between 300 and 3400 Hz, which hum and rumble hardly reach. This is no recogniser: music and steady
noise as loud as a voice are not told from speech. It is meant for recordings of at least some ten seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

FRAME_SECONDS = 0.02
BAND_HZ = (300, 3400)
SILENCE_DB = -90.0
STEADY_DB = 10.0  # less between the loudest second and the quietest moments is no speech with pauses
QUIET_STEADY_DB = -36.0  # steady sound below this level is the noise of a room or of a device
RANGE_DB = 20.0  # sounds of speech are at most that much below its loudest second
NEAR_SECONDS, NEAR_SPEECH_SECONDS = 5.0, 2.0  # speech has that much sound within that time from its first word on
LEAST_SPEECH_SECONDS = 1.0


class Speech(NamedTuple):
    """Speech from sample `start` to sample `end`, with `seconds` of sound in it. is_clear: it stands out from the rest.
    If it does not, the values are those of the whole recording."""

    start: int
    end: int
    seconds: float
    is_clear: bool


def find_speech(samples: Tensor, sample_rate: int) -> Speech | None:
    """Return where speech is in samples [1, N], or None if there is none.

    start is where the first word begins that is followed by more, so one that long silence follows does not count. In
    less than `NEAR_SECONDS`, a voice without pauses is not told from steady noise: it counts as speech.
    """
    hop, N = round(FRAME_SECONDS * sample_rate), samples.shape[1]
    second, near = (round(seconds / FRAME_SECONDS) for seconds in (LEAST_SPEECH_SECONDS, NEAR_SECONDS))
    whole = Speech(0, N, N / sample_rate, is_clear=near * hop > N)
    if second * hop > N:
        return whole
    levels = _levels(samples[0], sample_rate, hop)
    ranked = levels.sort().values
    top, floor = float(ranked[-second]), float(ranked[levels.numel() // 20])
    if top - floor < STEADY_DB:
        return whole if whole.is_clear or top > QUIET_STEADY_DB else None
    active = levels > max(top - RANGE_DB, (top + floor) / 2)
    counts = torch.nn.functional.pad(active.to(torch.int64).cumsum(0), (1, near))
    counts[levels.numel() + 1 :] = counts[levels.numel()]
    ahead = counts[near:][:-1] - counts[: levels.numel()]  # active frames from each one on
    most = int(ahead.max())
    if most < second:
        return None
    wanted = min(round(NEAR_SPEECH_SECONDS / FRAME_SECONDS), most // 2)
    first = int(torch.nonzero(active & (ahead >= wanted))[0, 0])
    last = int(torch.nonzero(active)[-1, 0])
    seconds = float(active[first:].sum()) * FRAME_SECONDS
    return Speech(first * hop, min(N, (last + 1) * hop), seconds, is_clear=True)


def _levels(samples: Tensor, sample_rate: int, hop: int) -> Tensor:
    """Return the level of each frame of `hop` samples in dB of full scale, [N / hop], at least `SILENCE_DB`."""
    frames = samples[: samples.numel() // hop * hop].to(torch.float64).reshape(-1, hop)
    window = torch.hann_window(hop, dtype=torch.float64)
    power = torch.fft.rfft(frames * window).abs().square() * (2 / (hop * float(window.square().sum())))
    low, high = (round(hz * hop / sample_rate) for hz in BAND_HZ)
    return 10 * power[:, low : high + 1].sum(1).clamp(min=10 ** (SILENCE_DB / 10)).log10()
