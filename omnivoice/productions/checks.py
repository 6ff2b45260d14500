"""Faults that can be found in speech without a second model: by its level, its edges and its length.

Each fault is one plain sentence with a time. Nothing here knows which words were said; that takes a recogniser
(`coverage`). The thresholds are compared with planted faults by `python -m benchmarks.checks`; docs/productions.md has
the figures.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from ..constants import FRAME_RATE, SAMPLE_RATE
from ..intake.cancel import cancellable
from ..types import GenerationPlan, Speech
from .lines import speech_level

CUT, CLICK, SILENT, CLIPPED, RATE = "cut ending", "click", "silence", "clipping", "rate"
WINDOW = SAMPLE_RATE // 100  # 10 ms
AUDIBLE = 1e-3  # a peak below it is silence
SOUND = 0.05  # of the speech level; a window whose RMS is below it is silent
CUT_LEVEL = 0.15  # of the speech level, in the last 10 ms, for a sound with a pitch
CUT_NOISE_LEVEL, NOISY = 0.55, 0.4  # for a sound like s or t, whose sign changes between that share of its samples
CLICK_WINDOWS, CLICK_PAUSE_WINDOWS = 5, 5  # a click lasts at most 50 ms, and at least 50 ms of silence follow
PAUSE_SECONDS, PAUSE_SHARE, SHORT_PAUSE_SECONDS = 0.8, 0.3, 0.4  # longer silence, or one of that share, is a fault
FULL_SCALE, CLIPPED_SAMPLES = 0.999, 5
SLOWEST, FASTEST = 1.6, 0.55  # of the length that was planned for the text
LEAST_RAMP = 0.02  # of a fade; what lies below it is not looked at


@dataclass(frozen=True)
class Finding:
    """One fault. kind: one of the names above. text: a sentence. seconds: where, from the start."""

    kind: str
    text: str
    seconds: float


@dataclass(frozen=True)
class Expected:
    """What is known about sound before it is made. seconds: how long the text should take, without pauses that it asks
    for; None: any. pause_seconds: the longest of those. lead, tail: samples of silence that were added at the ends, at
    most. fades: samples of the fade at each end."""

    seconds: float | None = None
    pause_seconds: float = 0.0
    lead: int = 0
    tail: int = 0
    fades: int = 0


def check_speech(plan: GenerationPlan, speech: Speech) -> tuple[Finding, ...]:
    """Return the faults of what was spoken by a plan, in order of time; nothing if none was found."""
    request, samples = plan.request, speech.waveform.samples
    pauses = [*(chunk.pause_samples for chunk in plan.chunks), plan.tail_samples]
    pad, filled = int(request.pad_seconds * SAMPLE_RATE), samples.shape[1] * (plan.target_samples is not None)
    expected = Expected(
        seconds=sum(chunk.frames for chunk in plan.chunks) / FRAME_RATE,
        pause_seconds=max(pauses) / SAMPLE_RATE,
        lead=filled or pad + pauses[0],
        tail=filled or pad + pauses[-1],
        fades=int(request.fade_seconds * SAMPLE_RATE),
    )
    return findings(samples, expected)


def findings(samples: Tensor, expected: Expected) -> tuple[Finding, ...]:
    """Return the faults of samples [1, N] at 24,000 Hz, in order of time."""
    if samples.shape[1] == 0 or float(samples.abs().max()) < AUDIBLE:
        return (Finding(SILENT, "it is silent from start to end", 0.0),)
    bare, first = without_edges(samples, expected)
    level = speech_level([bare])
    loud = [index for index, value in enumerate(_levels(bare)) if value > SOUND * level]
    found = [*_clipped(samples), *_silent(loud, bare, first, expected)]
    found += [*_click(loud, first), *_cut(bare, first, level), *_rate(loud, first, expected)]
    return tuple(sorted(found, key=lambda one: one.seconds))


def without_edges(samples: Tensor, expected: Expected) -> tuple[Tensor, int]:
    """Return the sound [1, n] without the silence added at its ends and with its fades undone, and its first sample."""
    sound, zero = samples[0].nonzero()[:, 0], int(expected.fades > 0)  # a fade begins and ends with a zero
    lead = min(int(sound[0]) - zero, expected.lead)
    tail = min(samples.shape[1] - 1 - int(sound[-1]) - zero, expected.tail)
    first, end = max(lead, 0), samples.shape[1] - max(tail, 0)
    bare = samples[:, first:end].clone()
    count = min(expected.fades, bare.shape[1] // 2)
    if count > 1:
        ramp = bare.new_tensor(range(count)) / (count - 1)
        shown = ramp >= LEAST_RAMP
        bare[:, :count] = bare[:, :count] / ramp.clamp(min=LEAST_RAMP) * shown
        bare[:, -count:] = bare[:, -count:] / ramp.flip(0).clamp(min=LEAST_RAMP) * shown.flip(0)
        unseen = int((~shown).sum())
        return bare[:, unseen : bare.shape[1] - unseen], first + unseen
    return bare, first


def _levels(samples: Tensor) -> list[float]:
    """Return the RMS of each window of 10 ms; the last one may be shorter."""
    return [float(window.square().mean().sqrt()) for window in cancellable(samples[0].split(WINDOW), 1_024)]


def _clipped(samples: Tensor) -> Iterator[Finding]:
    flat = (samples[0].abs() >= FULL_SCALE).nonzero()[:, 0]
    if len(flat) >= CLIPPED_SAMPLES:
        at = int(flat[0]) / SAMPLE_RATE
        yield Finding(CLIPPED, f"it is too loud: {len(flat)} samples are clipped, the first at {at:.2f} s", at)


def _silent(loud: list[int], bare: Tensor, first: int, expected: Expected) -> Iterator[Finding]:
    """Yield the silences that are longer than a pause, at the ends too."""
    windows = -(-bare.shape[1] // WINDOW)
    short = max(SHORT_PAUSE_SECONDS, PAUSE_SHARE * bare.shape[1] / SAMPLE_RATE)
    allowed = expected.pause_seconds + min(PAUSE_SECONDS, short)
    for before, after in itertools.pairwise([-1, *loud, windows]):
        seconds = (after - before - 1) * WINDOW / SAMPLE_RATE
        if seconds > allowed:
            at = (first + (before + 1) * WINDOW) / SAMPLE_RATE
            yield Finding(SILENT, f"it is silent for {seconds:.2f} s from {at:.2f} s on", at)


def _click(loud: list[int], first: int) -> Iterator[Finding]:
    """Yield a short sound at the start that silence follows."""
    gap = next(((a, b) for a, b in itertools.pairwise(loud) if b - a > CLICK_PAUSE_WINDOWS), None)
    if gap is not None and loud[0] <= 1 and gap[0] - loud[0] < CLICK_WINDOWS:
        at = (first + loud[0] * WINDOW) / SAMPLE_RATE
        milliseconds = (gap[0] - loud[0] + 1) * 1000 * WINDOW // SAMPLE_RATE
        yield Finding(CLICK, f"it starts with a click of {milliseconds} ms at {at:.2f} s", at)


def _cut(bare: Tensor, first: int, level: float) -> Iterator[Finding]:
    """Yield an ending that is still loud."""
    last, end = float(bare[:, -WINDOW:].square().mean().sqrt()), bare[0, -3 * WINDOW :]
    is_noise = float((end[1:] * end[:-1] < 0).float().mean()) >= NOISY
    if last > (CUT_NOISE_LEVEL if is_noise else CUT_LEVEL) * level:
        at = (first + bare.shape[1]) / SAMPLE_RATE
        yield Finding(CUT, f"it ends in the middle of a sound at {at:.2f} s, so its last word may be cut", at)


def _rate(loud: list[int], first: int, expected: Expected) -> Iterator[Finding]:
    """Yield a length of sound that is far from the planned one."""
    if expected.seconds is None or not loud:
        return
    gaps = [(b - a - 1) * WINDOW / SAMPLE_RATE for a, b in itertools.pairwise(loud)]
    asked = sum(gap for gap in gaps if expected.pause_seconds and gap > SHORT_PAUSE_SECONDS)
    seconds = (loud[-1] - loud[0] + 1) * WINDOW / SAMPLE_RATE - asked
    if not FASTEST * expected.seconds <= seconds <= SLOWEST * expected.seconds:
        how = "fast, or words are missing" if seconds < expected.seconds else "slow, or words are added"
        sentence = f"its words take {seconds:.2f} s, where this voice needs about {expected.seconds:.2f} s: too {how}"
        yield Finding(RATE, sentence, first / SAMPLE_RATE)
