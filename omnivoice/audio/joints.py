"""Joints between a recording and re-coded audio: how rough one is, and where it is smoothest.

The measure. Mono at 24 kHz is cut into Hann windows of 1,024 samples every 240 (10 ms); their power is summed in 80 mel
bands (HTK scale, triangles, 0-12 kHz) and given in dB, with a floor 70 dB below the loudest band of the recording. A
step is the mean over the bands of the absolute change from one window to the next. The typical step of a recording is
the 95th percentile of its steps in speech. The roughness of a joint is the largest step from 50 ms before its
cross-fade to 50 ms after it, divided by the typical step: 1 or less is no rougher than the recording itself.

The search does not trust one set of windows: a place is as rough as the worst of `MEASURES` says. It knows nothing of
what else may be heard, such as a change of voice or of room.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE

NEAR = SAMPLE_RATE // 20  # 50 ms on either side of a cross-fade
SPEECH_DB = -40.0  # windows at most that much below the loudest one hold speech
LEAST_FLOOR = 1e-8  # of a band's power, in silent recordings: below the noise of 16 bits
PERCENTILE = 0.95
LEAST_STEP_DB = 1.0  # of a recording that hardly changes, such as a tone
USUAL_STEP_DB = 6.0  # of a recording with too little speech to tell
FEWEST_STEPS = 20
FADES = (120, 240, 480, 960)  # 5 to 40 ms
GRID = 120  # 5 ms
SMOOTH = 0.7  # a margin in which a cross-fade is as smooth as this is wide enough
SEARCHED = SAMPLE_RATE * 6 // 100  # 60 ms: the search looks a little further than the measure
BLOCK = 2048  # windows that are transformed at once: 20 s by the standard measure
MOST_BLOCKS = 15


@dataclass(frozen=True)
class Measure:
    """Windows of `window` samples every `hop` at 24 kHz, in `bands` mel bands; `floor_db` is that of a
    band's power, below the loudest band of the recording."""

    window: int
    hop: int
    bands: int
    floor_db: float = -70.0


STANDARD = Measure(1024, 240, 80)
MEASURES = (STANDARD, Measure(512, 120, 40), Measure(2048, 480, 80), Measure(768, 240, 40, -40.0))


@dataclass(frozen=True, eq=False)
class Scale:
    """What the steps of a recording are compared with: the floor of a band's power, and the typical step in dB.

    filters: the mel triangles [bins, bands] of the measure.
    """

    measure: Measure
    filters: Tensor
    floor: float
    typical: float


def scale_of(mono: Tensor, measure: Measure = STANDARD) -> Scale:
    """Return the scale of a recording, mono [N] float32 at 24 kHz; of a long one, from parts spread over it.

    The typical step is at least `LEAST_STEP_DB`. A recording with fewer than `FEWEST_STEPS` steps between windows that
    hold speech, such as silence or a single frame, has the typical step `USUAL_STEP_DB`.
    """
    filters = _filters(measure)
    loudest_band = max((float(powers.max()) for powers in _blocks(mono, measure, filters)), default=0.0)
    floor = max(loudest_band * 10 ** (measure.floor_db / 10), LEAST_FLOOR)
    blocks = [(powers.sum(1)[1:], _steps(powers, floor)) for powers in _blocks(mono, measure, filters)]
    if not blocks:
        return Scale(measure, filters, floor, USUAL_STEP_DB)
    levels, steps = (torch.cat(parts) for parts in zip(*blocks))
    speech = steps[levels > max(float(levels.max()) * 10 ** (SPEECH_DB / 10), LEAST_FLOOR)].sort().values
    if speech.numel() < FEWEST_STEPS:
        return Scale(measure, filters, floor, USUAL_STEP_DB)
    return Scale(measure, filters, floor, max(LEAST_STEP_DB, float(speech[int(PERCENTILE * (speech.numel() - 1))])))


def scales_of(mono: Tensor) -> tuple[Scale, ...]:
    """Return the scale of a recording by each of `MEASURES`."""
    return tuple(scale_of(mono, measure) for measure in MEASURES)


def roughness(mono: Tensor, start: int, end: int, scale: Scale) -> float:
    """Return the largest step of mono [N] at 24 kHz from 50 ms before sample `start` to 50 ms after sample `end`, as a
    multiple of the typical step. What lies beyond the ends of mono does not count."""
    measure = scale.measure
    first, last = max(0, start - NEAR), min(mono.shape[0], end + NEAR)
    if last - first < measure.hop:
        return 0.0
    around = cut_padded(mono, first - measure.window // 2, last + measure.window // 2)
    return float(_steps(_band_powers(around[None], measure, scale.filters)[0], scale.floor).max()) / scale.typical


@dataclass(frozen=True)
class Fade:
    """A cross-fade from sample `start` to sample `end`, and the correlation of what fades out with what fades in.

    roughness: that of the joint by the worst of the measures.
    """

    start: int
    end: int
    correlation: float
    roughness: float

    def weights(self, count: int) -> tuple[Tensor, Tensor]:
        """Return the gains [count] with which the two sounds fade out and in."""
        falling, rising = _weights(torch.tensor([self.correlation]), count)
        return falling[0], rising[0]


def _weights(correlations: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return gains that fade out and in, [Q, count] each, for sounds of the given correlations [Q].

    They are those of equal gain for equal sounds and of equal power for unrelated ones; others are in between, so that
    the power is steady.
    """
    rising = ((torch.arange(count) + 0.5) / max(count, 1))[None]
    falling = 1 - rising
    scale = (falling.square() + rising.square() + 2 * correlations[:, None] * falling * rising).rsqrt()
    return falling * scale, rising * scale


def find_fade(outgoing: Tensor, incoming: Tensor, low: int, high: int, scales: Sequence[Scale]) -> Fade:
    """Return the smoothest cross-fade from outgoing [N] to incoming [N], mono at 24 kHz on one time line, that lies
    between the samples `low` and `high`.

    Tried are those of `FADES` samples, every `GRID` samples; if all are too long, the one from `low` to `high`.
    """
    found = []
    for length in [length for length in FADES if length <= high - low] or [high - low]:
        found += fades_at(outgoing, incoming, torch.arange(low, high - length + 1, GRID), length, scales)
    return min(found, key=lambda fade: fade.roughness)


def fades_at(outgoing: Tensor, incoming: Tensor, starts: Tensor, length: int, scales: Sequence[Scale]) -> list[Fade]:
    """Return the cross-fades of one length that begin at `starts` [Q]."""
    reach = SEARCHED + max(scale.measure.window for scale in scales) // 2
    first, span = int(starts[0]) - reach, length + 2 * reach
    last = int(starts[-1]) + length + reach
    out, new = (
        cut_padded(signal, first, last).unfold(0, span, 1)[starts - starts[0]] for signal in (outgoing, incoming)
    )
    inner = slice(reach, reach + length)
    products = (out[:, inner] * new[:, inner]).sum(1)
    norms = out[:, inner].norm(dim=1) * new[:, inner].norm(dim=1)
    correlations = (products / norms.clamp(min=1e-12)).clamp(0, 1)
    falling, rising = _weights(correlations, length)
    faded = out[:, inner] * falling + new[:, inner] * rising
    mixed = torch.cat((out[:, :reach], faded, new[:, reach + length :]), dim=1)
    worst = mixed.new_zeros(len(starts))
    for scale in scales:
        spare = reach - SEARCHED - scale.measure.window // 2
        powers = _band_powers(mixed[:, spare : span - spare], scale.measure, scale.filters)
        worst = torch.maximum(worst, _steps(powers, scale.floor).amax(1) / scale.typical)
    return [Fade(s, s + length, c, r) for s, c, r in zip(starts.tolist(), correlations.tolist(), worst.tolist())]


def _blocks(mono: Tensor, measure: Measure, filters: Tensor) -> Iterator[Tensor]:
    """Yield the band powers of mono [N], [F, bands] at a time; each block begins with the last window of the one
    before it. Only windows within the recording count. Of many blocks, `MOST_BLOCKS` at most are used, evenly spread.
    """
    count = (mono.shape[0] - measure.window) // measure.hop + 1
    firsts = range(0, count - 1, BLOCK)
    for first in firsts[:: max(1, -(-len(firsts) // MOST_BLOCKS))]:
        last = min(first + BLOCK, count - 1)
        yield _band_powers(mono[None, first * measure.hop : last * measure.hop + measure.window], measure, filters)[0]


def cut_padded(samples: Tensor, start: int, end: int) -> Tensor:
    """Return samples [..., N] from `start` to `end`, start <= end, with zeros beyond their ends; never change them."""
    N = samples.shape[-1]
    if start >= 0 and end <= N:
        return samples[..., start:end]
    inner = samples[..., min(max(start, 0), N) : max(min(end, N), 0)]
    before = min(max(0, -start), end - start)
    return torch.nn.functional.pad(inner, (before, end - start - before - inner.shape[-1]))


def _band_powers(signals: Tensor, measure: Measure, filters: Tensor) -> Tensor:
    """Return the power in the mel bands: [Q, N] -> [Q, F, bands], N at least one window."""
    frames = signals.unfold(1, measure.window, measure.hop)  # [Q, F, window]
    spectrum = torch.fft.rfft(frames * torch.hann_window(measure.window))  # [Q, F, bins]
    return (spectrum.real.square() + spectrum.imag.square()) @ filters


def _steps(powers: Tensor, floor: float) -> Tensor:
    """Return the mean change of the bands in dB between windows: [..., F, bands] -> [..., F - 1]."""
    levels = 10 * powers.clamp(min=floor).log10()
    return levels.diff(dim=-2).abs().mean(-1)


def _filters(measure: Measure) -> Tensor:
    """Return the mel triangles [bins, bands], each with a peak of 1."""
    top = 2595 * math.log10(1 + SAMPLE_RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, measure.bands + 2, dtype=torch.float64) / 2595) - 1)
    hz = torch.linspace(0, SAMPLE_RATE / 2, measure.window // 2 + 1, dtype=torch.float64)[:, None]
    rising = (hz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hz) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).to(torch.float32)
