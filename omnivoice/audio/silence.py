"""Finding and removing silence as upstream does (utils/audio.py:150-214, on pydub 0.25.1).

Upstream uses pydub, which measures and cuts 16-bit samples at whole milliseconds. Both are kept, with pydub's rounding:
the codes of a reference equal upstream's only if every cut falls on the same sample and the samples are on the same
16-bit grid. The loudness of a window comes from one running sum of squares in integers, which needs no slicing and no
rounding: pydub's floor(sqrt(mean)) <= limit is the same as sum < ceil(limit)^2 * count.

If upstream would leave nothing, because no window reaches the threshold, the threshold becomes relative to the level
of the recording, and the samples keep their float values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from .loudness import SPEECH_RMS

FULL_SCALE = 32768
THRESHOLD_DB = -50.0
SEEK_MS = 10
TINY = 1e-12
EDGE_SECONDS = 10
BLOCK = 1 << 18  # samples whose squares are in memory at once


@dataclass(frozen=True, eq=False)
class Clip:
    """Mono audio with a 16-bit copy, addressed in milliseconds (pydub/audio_segment.py:251,262).

    samples: [N] float32, which are cut. grid: [N] int16, which are measured.
    """

    samples: Tensor
    grid: Tensor
    sample_rate: int

    @cached_property
    def length_ms(self) -> int:
        """The length, rounded half to even: up to half a millisecond more or less than the samples last."""
        return round(1000 * (self.grid.numel() / self.sample_rate))

    @cached_property
    def energy(self) -> Tensor:
        """The sum of squares before each sample, [N + 1] int64; made block by block, since nothing else is as large."""
        sums = torch.zeros(self.grid.numel() + 1, dtype=torch.int64)
        for start, block in zip(range(0, self.grid.numel(), BLOCK), self.grid.split(BLOCK)):
            own = sums[start + 1 : start + 1 + block.numel()]
            torch.cumsum(block.to(torch.int64).square(), 0, out=own)
            own += sums[start]
        return sums

    def cut(self, start_ms: int, end_ms: int) -> Clip:
        """Return [start, end) within 0..length_ms, with zeros where the rounded length exceeds the samples."""
        start, end = (int(min(ms, self.length_ms) * (self.sample_rate / 1000.0)) for ms in (start_ms, end_ms))
        missing = max(0, end - self.grid.numel()) if start < self.grid.numel() else 0
        samples, grid = (torch.nn.functional.pad(x[start:end], (0, missing)) for x in (self.samples, self.grid))
        return Clip(samples, grid, self.sample_rate)

    def joined(self, others: list[Clip]) -> Clip:
        """Return this clip followed by the others."""
        clips = [self, *others]
        return Clip(torch.cat([c.samples for c in clips]), torch.cat([c.grid for c in clips]), self.sample_rate)

    def silent_at(self, starts_ms: Tensor, window_ms: int, threshold_db: float) -> Tensor:
        """Return for each start whether the window's RMS, in 16-bit steps and rounded down, is within the threshold."""
        edges = torch.stack([starts_ms, starts_ms + window_ms]).clamp(max=self.length_ms)
        edges = (edges.to(torch.float64) * (self.sample_rate / 1000.0)).to(torch.int64)
        return self.silent_between(edges[0], edges[1], threshold_db)

    def silent_between(self, starts: Tensor, ends: Tensor, threshold_db: float) -> Tensor:
        """As `silent_at`, in samples. Beyond the end there are zeros, and an empty window is silent."""
        N = self.grid.numel()
        sums = self.energy[ends.clamp(max=N)] - self.energy[starts.clamp(max=N)]
        limit = math.ceil(FULL_SCALE * 10 ** (threshold_db / 20))
        return sums < limit**2 * (ends - starts).clamp(min=1)


def to_grid(samples: Tensor) -> Tensor:
    """Return samples [N] float32 as int16 in 16-bit steps, truncated and clipped (upstream utils/audio.py:134)."""
    return (samples * float(FULL_SCALE)).clamp_(-FULL_SCALE, FULL_SCALE - 1).to(torch.int16)


def grid_clip(samples: Tensor, sample_rate: int) -> Clip:
    """Return [1, N] as a clip whose samples are rounded to the 16-bit grid, as upstream's are from here on."""
    grid = to_grid(samples[0])
    return Clip(grid.to(torch.float32).div_(FULL_SCALE), grid, sample_rate)


def halfway_clip(samples: Tensor, sample_rate: int) -> Clip:
    """Return [1, N] as a clip whose samples are at most half a 16-bit step from upstream's, whatever the rounding.

    Upstream truncates, so a tiny difference in the model's output, such as another number of threads makes, can move
    its sample by one step. These samples lie between the two possible results. That matters if a gain above 1 follows,
    which would enlarge a full step, while half a step stays within one up to a gain of 2.
    """
    half = 0.5 / FULL_SCALE
    steps = to_grid(samples[0] - half).to(torch.int32) + to_grid(samples[0] + half)
    return Clip(steps.to(torch.float32).div_(2 * FULL_SCALE), to_grid(samples[0]), sample_rate)


def silent_ranges(clip: Clip, min_ms: int, threshold_db: float) -> list[tuple[int, int]]:
    """Return the silences of at least min_ms as (start, end) in ms, in order (pydub/silence.py:9, steps of 10 ms)."""
    last = clip.length_ms - min_ms
    if last < 0:
        return []
    starts = torch.arange(0, last + 1, SEEK_MS)
    if last % SEEK_MS:
        starts = torch.cat([starts, starts.new_tensor([last])])
    quiet = starts[clip.silent_at(starts, min_ms, threshold_db)]
    if quiet.numel() == 0:
        return []
    steps = quiet.diff()
    breaks = torch.nonzero((steps != SEEK_MS) & (steps > min_ms))[:, 0]
    begins = torch.cat([quiet[:1], quiet[breaks + 1]])
    ends = torch.cat([quiet[breaks], quiet[-1:]]) + min_ms
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def silent_runs(clip: Clip, threshold_db: float = THRESHOLD_DB) -> list[tuple[int, int]]:
    """Return the runs of silent 10 ms steps as [first, last) in samples, in order; the last step may be shorter."""
    N, step = clip.grid.numel(), clip.sample_rate * SEEK_MS // 1000
    edges = torch.arange(0, N + step, step).clamp(max=N)
    silent = clip.silent_between(edges[:-1], edges[1:], threshold_db).to(torch.int64)
    turns = torch.nonzero(torch.nn.functional.pad(silent, (1, 1)).diff())[:, 0]
    samples = edges[turns].tolist()
    return list(zip(samples[::2], samples[1::2], strict=True))


def _audible_ranges(clip: Clip, min_ms: int, threshold_db: float) -> list[tuple[int, int]]:
    """Return the ranges between the silences, in ms (pydub/silence.py:81)."""
    silences = silent_ranges(clip, min_ms, threshold_db)
    edges = [0, *(edge for silence in silences for edge in silence), clip.length_ms]
    ranges = list(zip(edges[::2], edges[1::2], strict=True))
    if silences:
        ranges = ranges[1:] if ranges[0] == (0, 0) else ranges
        ranges = ranges[:-1] if silences[-1][1] == clip.length_ms else ranges
    return ranges


def _shorten_pauses(clip: Clip, mid_ms: int, threshold_db: float) -> Clip:
    """Keep up to mid_ms of silence on both sides of each audible range (pydub/silence.py:115)."""
    ranges = [[start - mid_ms, end + mid_ms] for start, end in _audible_ranges(clip, mid_ms, threshold_db)]
    for before, after in pairwise(ranges):
        if after[0] < before[1]:
            before[1] = after[0] = (before[1] + after[0]) // 2
    return clip.cut(0, 0).joined([clip.cut(max(start, 0), min(end, clip.length_ms)) for start, end in ranges])


def _silence_before(clip: Clip, threshold_db: float, *, backwards: bool = False) -> int | None:
    """Return the ms before the first step of 10 ms that is not silent (pydub/silence.py:163); None if all are silent.

    backwards: in the reversed clip. The first or last 10 s are looked at first, because that is where sound begins.
    """
    N = clip.grid.numel()
    for count in (min(N, EDGE_SECONDS * clip.sample_rate), N):
        part = slice(N - count, N) if backwards else slice(0, count)
        samples, grid = clip.samples[part], clip.grid[part]
        edge = Clip(samples, grid.flip(0) if backwards else grid, clip.sample_rate)
        last = edge.length_ms if count == N else edge.length_ms - SEEK_MS  # what the edge cuts off is not looked at
        starts = torch.arange(0, max(0, last), SEEK_MS)
        loud = torch.nonzero(~edge.silent_at(starts, SEEK_MS, threshold_db))[:, 0]
        if loud.numel():
            return int(starts[loud[0]])
    return None


def _trim_end(clip: Clip, keep_ms: int, threshold_db: float) -> Clip:
    """Drop the silence at the end except keep_ms. As upstream does, the reversed clip is cut, so the steps fall from
    the end, and where the rounded length exceeds the samples, the zeros come at the start."""
    N, rate = clip.grid.numel(), clip.sample_rate / 1000.0
    silence_ms = _silence_before(clip, threshold_db, backwards=True)
    start_ms = max(0, (clip.length_ms if silence_ms is None else silence_ms) - keep_ms)
    start, end = int(start_ms * rate), int(clip.length_ms * rate)
    missing = max(0, end - N) if start < N else 0
    kept = slice(max(0, N - end), max(0, N - start))
    samples, grid = (torch.nn.functional.pad(x[kept], (missing, 0)) for x in (clip.samples, clip.grid))
    return Clip(samples, grid, clip.sample_rate)


def _trimmed(clip: Clip, mid_ms: int, lead_ms: int, trail_ms: int, threshold_db: float) -> Clip | None:
    """Shorten pauses, then trim the start and the end; return None if nothing audible would be left."""
    if mid_ms > 0:
        clip = _shorten_pauses(clip, mid_ms, threshold_db)
    silence_ms = _silence_before(clip, threshold_db)
    if silence_ms is None:  # of a short clip, upstream would keep the last lead_ms, which is as good as nothing
        return None
    clip = clip.cut(max(0, silence_ms - lead_ms), clip.length_ms)
    clip = _trim_end(clip, trail_ms, threshold_db)
    return clip if clip.grid.numel() else None  # it can be empty, since backwards the 10 ms steps fall elsewhere


def remove_silence(
    samples: Tensor,
    sample_rate: int,
    *,
    mid_ms: int,
    lead_ms: int,
    trail_ms: int,
    threshold_db: float = THRESHOLD_DB,
    on_grid: bool = True,
) -> Tensor:
    """Shorten the silences of samples [1, N] float32: inner ones to mid_ms, at the start to lead_ms, at the end to
    trail_ms (upstream utils/audio.py:150).

    The result is on the 16-bit grid (value / 32768, clipped), as upstream's is; with on_grid=False it comes from
    `halfway_clip`. mid_ms 0 leaves inner silences as they are. The samples must be finite.
    If nothing audible would be left (upstream's result is empty), the clip is measured as if amplified to RMS 0.1,
    which puts the default threshold 30 dB below its level, and its float samples are cut. If that leaves nothing
    either, nothing is trimmed: the result is empty only if N is 0.
    """
    make = grid_clip if on_grid else halfway_clip
    result = _trimmed(make(samples, sample_rate), mid_ms, lead_ms, trail_ms, threshold_db)  # nothing else holds it
    if result is None:
        rms = float(samples.to(torch.float64).square().mean().sqrt()) if samples.numel() else 0.0
        raised = to_grid(samples[0] * (SPEECH_RMS / max(rms, TINY)))
        result = _trimmed(Clip(samples[0], raised, sample_rate), mid_ms, lead_ms, trail_ms, threshold_db)
    return samples if result is None else result.samples[None]
