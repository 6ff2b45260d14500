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
AT_ONCE = 4  # cross-fades of a search that are measured in full at once
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
        falling, rising = _weights(torch.tensor([self.correlation]), torch.tensor([count]))
        return falling[0], rising[0]


def _weights(correlations: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return gains that fade out and in within `lengths` [Q] samples, and stay at 0 and 1 from there on to the greatest
    length: [Q, greatest] each, for sounds of the given correlations [Q].

    They are those of equal gain for equal sounds and of equal power for unrelated ones; others are in between, so that
    the power is steady.
    """
    rising = ((torch.arange(int(lengths.max())) + 0.5) / lengths[:, None]).clamp(max=1)
    falling = 1 - rising
    scale = (falling.square() + rising.square() + 2 * correlations[:, None] * falling * rising).rsqrt()
    return falling * scale, rising * scale


def find_fade(outgoing: Tensor, incoming: Tensor, low: int, high: int, scales: Sequence[Scale]) -> Fade:
    """Return the smoothest cross-fade from outgoing [N] to incoming [N], mono at 24 kHz on one time line, that lies
    between the samples `low` and `high`.

    Tried are those of `FADES` samples, every `GRID` samples; if all are too long, the one from `low` to `high`. Each is
    at least as rough as the two sounds alone are near it: the most promising ones are measured first, and then only
    those that may be smoother than the smoothest of these.
    """
    lengths = [length for length in FADES if length <= high - low] or [high - low]
    tried = torch.tensor([(k, each) for each in lengths for k in range((high - low - each) // GRID + 1)])
    sides = [_Sides(outgoing, incoming, low, tried, scale) for scale in scales]
    worst = torch.stack([side.alone() for side in sides]).amax(0)

    def measured(rows: Tensor, sides: Sequence[_Sides], least: float) -> list[tuple[float, int, float]]:
        """Return roughness, row and correlation of some rows [R] by some scales, without those rougher than `least`."""
        reach = max(side.scale.measure.window for side in sides)
        if len(rows):
            mixed, correlations = _mixed(outgoing, incoming, low + tried[rows, 0] * GRID, tried[rows, 1], reach)
        for side in sides:
            if not len(rows):
                return []
            worst[rows] = torch.maximum(worst[rows], side.across(mixed, reach, rows))
            kept = worst[rows] <= least
            if not kept.all():
                mixed, correlations, rows = (each[kept] for each in (mixed, correlations, rows))
        return list(zip(worst[rows].tolist(), rows.tolist(), correlations.tolist()))

    order = worst.argsort(stable=True)
    found = measured(order[:AT_ONCE], sides, math.inf)
    rest = order[AT_ONCE:][worst[order[AT_ONCE:]] <= min(found)[0]]
    likely = torch.tensor([row for _, row, _ in sorted(measured(rest, sides[-1:], min(found)[0]))], dtype=torch.int64)
    for rows in likely.split(AT_ONCE):
        found += measured(rows[worst[rows] <= min(found)[0]], sides[:-1] or sides, min(found)[0])
    roughness, row, correlation = min(found)
    start, length = low + int(tried[row, 0]) * GRID, int(tried[row, 1])
    return Fade(start, start + length, correlation, roughness)


def _mixed(outgoing: Tensor, incoming: Tensor, starts: Tensor, lengths: Tensor, reach: int) -> tuple[Tensor, Tensor]:
    """Return outgoing, cross-faded to incoming within `lengths` from `starts` [Q] on, from `reach` samples before them
    to as many after the longest one [Q, n], and the correlations [Q] of the two within each."""
    first, longest = int(starts.min()) - reach, int(lengths.max())
    last, inner = int(starts.max()) + longest + reach, slice(reach, reach + longest)
    out, new = (
        cut_padded(signal, first, last).unfold(0, longest + 2 * reach, 1)[starts - first - reach]
        for signal in (outgoing, incoming)
    )
    within = torch.arange(longest) < lengths[:, None]
    fading_out, fading_in = out[:, inner] * within, new[:, inner] * within
    norms = fading_out.norm(dim=1) * fading_in.norm(dim=1)
    correlations = ((fading_out * fading_in).sum(1) / norms.clamp(min=1e-12)).clamp(0, 1)
    falling, rising = _weights(correlations, lengths)
    faded = out[:, inner] * falling + new[:, inner] * rising
    return torch.cat((out[:, : inner.start], faded, new[:, inner.stop :]), dim=1), correlations


class _Sides:
    """The windows of one scale that lie wholly in one of the two sounds, which many cross-fades have in common.

    Each row of tried [Q, 2] is a cross-fade: it begins at sample `low` + row [0] * GRID and lasts row [1] samples. Its
    windows are counted from the first one that is measured; window i of it is number row [0] + i * `spread` of those
    every `GRID` samples.
    """

    def __init__(self, outgoing: Tensor, incoming: Tensor, low: int, tried: Tensor, scale: Scale):
        (places, lengths), window, hop = tried.unbind(1), scale.measure.window, scale.measure.hop
        self.scale, self.taper, self.spread = scale, torch.hann_window(window), hop // GRID
        self.before = (SEARCHED - window // 2) // hop + 1  # windows that end before a cross-fade begins
        self.after = -(-(lengths + SEARCHED + window // 2) // hop)  # the first window that begins after its end
        self.steps_after = (lengths + 2 * SEARCHED) // hop - self.after
        self.last_before, self.first_after = (places + n * self.spread for n in (self.before - 1, self.after))
        first, counts = int(self.first_after.min()), (int(self.last_before.max()) + 1, 0)
        counts = counts[0], int((self.first_after + self.steps_after * self.spread).max()) - first + 1
        start = low - SEARCHED - window // 2
        signals = (outgoing, start, counts[0]), (incoming, start + first * GRID, counts[1])
        cuts = [cut_padded(signal, at, at + (n - 1) * GRID + window) for signal, at, n in signals]
        self.levels = self._levels(torch.cat([cut.unfold(0, window, GRID) for cut in cuts]))  # outgoing, then incoming
        self.first_after = self.first_after + counts[0] - first

    def _levels(self, frames: Tensor) -> Tensor:
        return _levels(_powers(frames, self.taper, self.scale.filters), self.scale.floor)

    def alone(self) -> Tensor:
        """Return the roughness [Q] of the sounds before and after each cross-fade."""
        before, after = torch.arange(1 - self.before, 0), torch.arange(int(self.steps_after.max()))
        first = torch.cat(
            [at[:, None] + n * self.spread for at, n in ((self.last_before, before), (self.first_after, after))], dim=1
        )
        counts = torch.cat(
            (torch.ones(len(first), len(before), dtype=torch.bool), after < self.steps_after[:, None]), 1
        )
        last = len(self.levels) - 1
        steps = (self.levels[(first + self.spread).clamp(max=last)] - self.levels[first.clamp(max=last)]).abs().mean(2)
        return torch.nn.functional.pad(steps * counts, (1, 0)).amax(1) / self.scale.typical

    def across(self, mixed: Tensor, middle: int, rows: Tensor) -> Tensor:
        """Return the roughness of the cross-fades in some rows [R], from the last window before to the first one after
        them; they begin at sample `middle` of mixed [R, n]."""
        window, hop = self.scale.measure.window, self.scale.measure.hop
        touching = torch.arange(self.before, int(self.after[rows].max())) < self.after[rows, None]  # [R, windows]
        frames = mixed[:, middle - SEARCHED - window // 2 + self.before * hop :].unfold(1, window, hop)
        levels = torch.cat((self.levels, self._levels(frames[touching.nonzero(as_tuple=True)])))
        own = touching.flatten().cumsum(0).view_as(touching) + len(self.levels) - 1
        first, last = self.last_before[rows, None], self.first_after[rows, None]
        in_order = levels[torch.cat((first, torch.where(touching, own, last), last), dim=1)]
        return in_order.diff(dim=1).abs().mean(2).amax(1) / self.scale.typical


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
    return _powers(frames, torch.hann_window(measure.window), filters)


def _powers(frames: Tensor, taper: Tensor, filters: Tensor) -> Tensor:
    """Return the power of windows in the mel bands: [..., window] -> [..., bands]."""
    spectrum = torch.fft.rfft(frames * taper)  # [..., bins]
    return (spectrum.real.square() + spectrum.imag.square()) @ filters


def _steps(powers: Tensor, floor: float) -> Tensor:
    """Return the mean change of the bands in dB between windows: [..., F, bands] -> [..., F - 1]."""
    return _levels(powers, floor).diff(dim=-2).abs().mean(-1)


def _levels(powers: Tensor, floor: float) -> Tensor:
    """Return powers in dB, at least the floor."""
    return 10 * powers.clamp(min=floor).log10()


def _filters(measure: Measure) -> Tensor:
    """Return the mel triangles [bins, bands], each with a peak of 1."""
    top = 2595 * math.log10(1 + SAMPLE_RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, measure.bands + 2, dtype=torch.float64) / 2595) - 1)
    hz = torch.linspace(0, SAMPLE_RATE / 2, measure.window // 2 + 1, dtype=torch.float64)[:, None]
    rising = (hz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hz) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0).to(torch.float32)
