"""Where a line sounds in a recording, and new sound in its place.

A line sounds from its first to its last sound; what is before and after that within its times is silence and stays. The
new sound is joined to this silence by cross-fades of at most 10 ms, which lie in the silence and never in another line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..audio.joints import cut_padded, roughness, scale_of
from ..audio.loudness import to_mono, without_offset
from ..audio.patch_levels import in_channels
from ..audio.patches import at_rate
from ..audio.resample import resample
from ..constants import SAMPLE_RATE
from ..errors import AudioError, InputError
from ..types import GenerationRequest, Waveform
from .lines import MAX_PEAK, speech_level
from .timings import TimedLine, sounding

FADE_SECONDS = 0.01
NEAR_SECONDS = 30.0  # on each side of a joint: what its roughness is compared with
OVERLAP_SECONDS = 0.001  # by which lines may overlap: times are rounded
QUIET = 0.01  # of the peak: words begin and end softly
SILENT = 2 / 32768


@dataclass(frozen=True, eq=False)
class RedoRequest:
    """recording: [C, N] of any rate. timings: its lines, from `parse_timings`. numbers: of the lines to speak again,
    from 1. base: how they are spoken; its voice or design is used if there is one, its text is not. keep_length: speak
    each line in exactly the time it had, so that nothing after it moves."""

    recording: Waveform
    timings: Sequence[TimedLine]
    numbers: Sequence[int]
    base: GenerationRequest
    keep_length: bool = False


@dataclass(frozen=True)
class LinePlace:
    """Where a line sounds in a recording: samples `start` to `end`. number: of the line, from 1. left, right: the
    samples of its cross-fades, before `start` and after `end`. level: of its speech. seconds: how long it sounds."""

    number: int
    start: int
    end: int
    left: int
    right: int
    level: float
    seconds: float

    def before(self, line: TimedLine, rate: int) -> bool:
        """Whether a line that does not overlap this one begins after it."""
        return round(line.start * rate) >= (self.start + self.end) // 2


@dataclass(frozen=True)
class Replaced:
    """A line that was replaced: samples `start` to `end` of the result. added: how many samples longer it is; negative
    if it is shorter. joints: the roughness on the left and on the right, see `audio.joints`."""

    place: LinePlace
    start: int
    end: int
    joints: tuple[float, float]

    @property
    def added(self) -> int:
        """How many samples longer the line is."""
        return (self.end - self.start) - (self.place.end - self.place.start)


def place_of(recording: Waveform, timings: Sequence[TimedLine], number: int) -> LinePlace:
    """Return where a line sounds; raises InputError if it overlaps another line or is silent."""
    line, rate, N = timings[number - 1], recording.sample_rate, recording.samples.shape[1]
    others = [(index, other) for index, other in enumerate(timings, 1) if index != number]
    for index, other in others:
        if min(line.end, other.end) - max(line.start, other.start) > OVERLAP_SECONDS:
            raise InputError(
                f"lines {number} and {index} sound at the same time, so that one cannot be spoken again without the "
                "other: choose another line"
            )
    low, high = _room(line, [other for _, other in others], rate, N)
    start, end = max(low, round(line.start * rate)), min(high, round(line.end * rate))
    mono = to_mono(recording.samples[:, start:end])[0] if start < end else recording.samples[:1, :0]
    if not mono.numel() or float(mono.abs().max()) < SILENT:
        raise InputError(f"line {number} is silent in the recording: give the timings of this recording")
    first, last = sounding(mono, rate, QUIET)
    most = round(FADE_SECONDS * rate)
    left, right = min(most, start + first - low), min(most, high - (start + last))
    level = speech_level([mono[:, first:last]])
    return LinePlace(number, start + first, start + last, left, right, level, (last - first) / rate)


def _room(line: TimedLine, others: Sequence[TimedLine], rate: int, N: int) -> tuple[int, int]:
    """Return between which samples nothing but a line sounds: it shares the silence to its neighbours with them."""
    ends = [one.end for one in others if one.end <= line.start + OVERLAP_SECONDS]
    starts = [one.start for one in others if one.start >= line.end - OVERLAP_SECONDS]
    low = round((max(ends) + line.start) / 2 * rate) if ends else 0
    high = round((line.end + min(starts)) / 2 * rate) if starts else N
    return min(low, N), min(high, N)


def new_sound(recording: Waveform, place: LinePlace, speech: Tensor, *, exact: bool) -> Tensor:
    """Return what replaces a line, [C, left + M + right], at the rate, in the channels and at the level of the
    recording, with the cross-fades of `place` around its M samples.

    speech: [1, N] at 24 kHz. exact: all of it, in exactly the samples of the old line; otherwise from its first to its
    last sound. Raises AudioError for silence.
    """
    if not speech.numel() or float(speech.abs().max()) < SILENT:
        raise AudioError("the new speech is silent: use another seed")
    rate = recording.sample_rate
    first, last = (0, speech.shape[1]) if exact else sounding(speech, quiet=QUIET)
    level = speech_level([speech[:, first:last]])
    mono = resample(speech * (place.level / level), SAMPLE_RATE, rate)
    start = at_rate(first, rate)
    count = place.end - place.start if exact else at_rate(last, rate) - start
    mono = cut_padded(mono, start - place.left, start + count + place.right)
    near = recording.samples[:, place.start : place.end]
    offsets = near[:, :1] - without_offset(near)[:, :1]
    sound = in_channels(mono, near, to_mono(near)[0], offsets, 0, near.shape[1])
    most, peak = max(MAX_PEAK, float(near.abs().max())), float(sound.abs().max())
    return (sound - offsets) * min(1.0, most / peak) + offsets


def replaced(
    recording: Waveform, places: Sequence[LinePlace], sounds: Sequence[Tensor]
) -> tuple[Waveform, tuple[Replaced, ...]]:
    """Return the recording with new sounds, from `new_sound`, in the place of lines, and where they are.

    places: in order of time. Outside them and their cross-fades every sample is that of the recording.
    """
    samples, rate = recording.samples, recording.sample_rate
    pieces, at, length, spans = list[Tensor](), 0, 0, list[tuple[int, int]]()
    for place, sound in zip(places, sounds):
        kept = samples[:, at : place.start - place.left]
        sound = _faded(samples, place, sound)
        length += kept.shape[1]
        spans.append((length + place.left, length + sound.shape[1] - place.right))
        pieces += [kept, sound]
        length += sound.shape[1]
        at = place.end + place.right
    waveform = Waveform(torch.cat([*pieces, samples[:, at:]], dim=1), rate)
    found = [
        Replaced(place, *span, joints=(_joint(waveform, span[0], place.left), _joint(waveform, span[1], place.right)))
        for place, span in zip(places, spans)
    ]
    return waveform, tuple(found)


def _faded(samples: Tensor, place: LinePlace, sound: Tensor) -> Tensor:
    """Return the sound [C, M], cross-faded with the recording [C, N] in the silence at its ends."""
    left, right = place.left, place.right
    rising = (torch.arange(left) + 0.5) / max(1, left)
    falling = (torch.arange(right).flip(0) + 0.5) / max(1, right)
    inner = sound[:, left : sound.shape[1] - right]
    before = samples[:, place.start - left : place.start] * (1 - rising) + sound[:, :left] * rising
    after = samples[:, place.end : place.end + right] * (1 - falling) + sound[:, left + inner.shape[1] :] * falling
    return torch.cat((before, inner, after), dim=1)


def _joint(waveform: Waveform, at: int, width: int) -> float:
    """Return how rough the joint at a sample is, compared with the recording around it."""
    rate = waveform.sample_rate
    first = max(0, at - round(NEAR_SECONDS * rate))
    near = resample(to_mono(waveform.samples[:, first : at + round(NEAR_SECONDS * rate)])[0], rate, SAMPLE_RATE)[0]
    start, end = ((sample - first) * SAMPLE_RATE // rate for sample in (max(first, at - width), at + width))
    return roughness(near, start, end, scale_of(near))
