"""Putting decoded speech into a recording, which keeps its own samples everywhere else.

A recording was mixed to mono at 24 kHz and encoded; some frames of its codes were replaced, and the codec decoded them
again with some frames of what is around them (`Patch`). `splice` returns the recording with the decoded audio in the
place of these frames. Outside them and their margins, the result has the recording's own samples, bit for bit, at its
own rate and in its own channels. A margin is a place just outside the frames where a cross-fade joins the two; `joints`
finds where it is smoothest. A deletion may do without decoded audio: the recording is then joined with itself.

Decoded audio is mono, with a bandwidth of 12 kHz. It gets the level of the recording around it in each channel and its
noise above 12 kHz, but neither the width of a stereo recording nor the sound of a voice above 12 kHz, and a codec of
speech keeps little of the noise and the tone of a room. Nothing here hides that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..constants import FRAME_RATE, HOP, SAMPLE_RATE
from ..errors import AudioError
from ..types import Waveform
from .air import air
from .joins import fade
from .joints import FADES, SMOOTH, Fade, Scale, cut_padded, find_fade, roughness, scales_of
from .loudness import to_mono
from .mix import Mix, is_finite, mix_of
from .patch_levels import in_channels, levelled
from .patches import SHORT, Patch, Place, at, at_rate, check_patches, places_of
from .resample import resample

CUT_REACH = HOP // 2  # a deletion without decoded audio is joined at most 20 ms from its place
AROUND_SECONDS = 0.2  # what is around a joint when it is measured
PAD = 3 * HOP  # more than the search looks beyond a cross-fade


@dataclass(frozen=True)
class Joint:
    """Where a recording and a patch meet.

    patch: the number of the patch, from 0. side: "left" or "right" of the patch, or "cut" for a deletion that joins the
    recording with itself. start, end: the samples of the result between which the two are cross-faded. roughness: the
    largest step near the joint as a multiple of the recording's typical one (see `joints`).
    """

    patch: int
    side: str
    start: int
    end: int
    roughness: float


@dataclass(frozen=True)
class Kept:
    """Samples `start` to `end` of the recording: the result has them from `result_start` on, bit for bit."""

    start: int
    end: int
    result_start: int


@dataclass(frozen=True, eq=False)
class Spliced:
    """The result, its joints in order, and what it has kept of the recording, in order and without empty pieces."""

    waveform: Waveform
    joints: tuple[Joint, ...]
    kept: tuple[Kept, ...]


@dataclass(frozen=True, eq=False)
class _Overlay:
    """Samples [C, m] that lie over the result from sample `start` on with the gains `add` [m].

    The recording is below them up to sample `until` and from sample `resume` on, with the gains `keep` [m]. joints:
    (number of the patch, side, start, end) of each.
    """

    start: int
    samples: Tensor
    add: Tensor
    keep: Tensor
    until: int
    resume: int
    joints: tuple[tuple[int, str, int, int], ...]


@dataclass(frozen=True, eq=False)
class _Source:
    """The recording [C, N], mixed to [1, N] without its offsets [C, 1], and mono [M] at 24 kHz, with its scales."""

    samples: Tensor
    rate: int
    mixed: Tensor
    offsets: Tensor
    mono: Tensor
    scales: tuple[Scale, ...]


def splice(
    recording: Waveform,
    patches: Sequence[Patch],
    *,
    gain: float = 1.0,
    mix: Mix | None = None,
    margin_frames: int = 2,
    most_margin_frames: int = 8,
) -> Spliced:
    """Return the recording [C, N] with patches in the place of their frames; patches are in order and do not overlap.

    gain: the factor by which the recording was amplified before it was encoded. mix: that of the recording, if it is
    known. margin_frames: how far from a patch its cross-fades may be. Where they are rough, margins grow up to
    `most_margin_frames`, but never into another patch: two patches share what is between them. Patches that touch are
    joined as they are. A last frame of which the recording has only a part is filled up with silence if a patch
    replaces it or follows it.
    Raises AudioError for an empty recording, for samples that are NaN or infinite, for a rate outside 4,000-384,000 Hz,
    for patches that overlap or are not within the recording, and for decoded audio of another length.
    """
    _check(recording, patches, gain, margin_frames, most_margin_frames)
    rate, N = recording.sample_rate, recording.samples.shape[1]
    missing = max(0, at(patches[-1].end, rate) - N) if patches else 0
    mix = mix_of(recording) if mix is None else mix
    samples, mixed = (cut_padded(each, 0, N + missing) for each in (recording.samples, mix.mixed))
    source = _Source(samples, rate, mixed, mix.offsets, mix.mono[0], scales_of(mix.mono[0]))
    places = places_of(patches, rate, N + missing, most_margin_frames)
    margins = range(margin_frames * HOP, most_margin_frames * HOP + 1, HOP)
    overlays = [_overlay(source, place, gain, margins) for place in places]
    result, kept = _assembled(samples, places, overlays)
    waveform = Waveform(result, rate)
    kept = [replace(piece, end=min(piece.end, N)) for piece in kept if piece.start < N]
    return Spliced(waveform, _measured(waveform, overlays, source.scales[0]), tuple(kept))


def _check(recording: Waveform, patches: Sequence[Patch], gain: float, margin: int, most: int) -> None:
    N = recording.samples.shape[1]
    if N == 0:
        raise AudioError("the recording is empty, got 0 samples: give one that holds speech")
    if not is_finite(recording.samples):
        raise AudioError("the recording must be finite, got NaN or infinite samples: export it again")
    if not 0 < gain < math.inf:
        raise AudioError(f"gain must be a finite factor above 0, got {gain}")
    if not 1 <= margin <= most:
        raise AudioError(f"margin_frames must be 1 to most_margin_frames, got {margin} and {most}")
    check_patches(patches, -(-N * FRAME_RATE // recording.sample_rate))


def _overlay(source: _Source, place: Place, gain: float, margins: Sequence[int]) -> _Overlay:
    """Return what lies over the recording at one place: decoded audio, or a cut that is no rougher."""
    patch = place.patch
    if patch.new == 0 and not (place.left and place.right):
        return _end_cut(source, place)
    level = levelled(patch, source.mono, gain)
    decoded = torch.nn.functional.pad(level, (PAD, PAD))
    edge = PAD + patch.before * HOP
    end = edge + patch.new * HOP
    left = right = None
    if place.left:
        recorded = _aligned(source.mono, patch.start * HOP - edge, decoded)
        ranges = [(edge - far, edge - near) for near, far in _rings(margins, place.left)]
        left = _smooth_enough(recorded, decoded, ranges, source.scales)
    if place.right:
        recorded = _aligned(source.mono, patch.end * HOP - end, decoded)
        ranges = [(end + near, end + far) for near, far in _rings(margins, place.right)]
        right = _smooth_enough(decoded, recorded, ranges, source.scales)
    if patch.new == 0 and left and right:
        cut = _best_cut(source, place)
        if cut.roughness <= max(left.roughness, right.roughness, SMOOTH):
            return _cut_overlay(source, place, cut)
    return _decoded_overlay(source, place, level, left, right)


def _aligned(mono: Tensor, start: int, like: Tensor) -> Tensor:
    """Return mono from sample `start` on, as long as `like`, with zeros beyond the ends of the recording."""
    return cut_padded(mono, start, start + like.shape[0])


def _rings(margins: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Yield what each margin adds to the one before it, as (nearest, farthest) distances from a patch of at most
    `room` samples. They overlap by the longest cross-fade."""
    last = 0
    for margin in margins:
        farthest = min(margin, room)
        if farthest > last:
            yield max(0, last - max(FADES)), farthest
        last = farthest


def _smooth_enough(
    outgoing: Tensor, incoming: Tensor, ranges: Sequence[tuple[int, int]], scales: Sequence[Scale]
) -> Fade:
    """Return the smoothest cross-fade within the first ranges, up to the first one that has one of at most `SMOOTH`."""
    found: list[Fade] = []
    for low, high in ranges:
        found.append(find_fade(outgoing, incoming, low, high, scales))
        if found[-1].roughness <= SMOOTH:
            break
    return min(found, key=lambda fade: fade.roughness)


def _best_cut(source: _Source, place: Place) -> Fade:
    """Return the smoothest cross-fade of the recording with itself around sample 0, the place of a deletion."""
    patch, reach = place.patch, CUT_REACH + PAD
    before, after = (
        cut_padded(source.mono, frame * HOP - reach, frame * HOP + reach) for frame in (patch.start, patch.end)
    )
    low, high = (min(CUT_REACH, room) for room in (place.left, place.right))
    best = find_fade(before, after, reach - low, reach + high, source.scales)
    return replace(best, start=best.start - reach, end=best.end - reach)


def _cut_overlay(source: _Source, place: Place, cut: Fade) -> _Overlay:
    """Return the recording after a deletion, faded in over the recording before it."""
    start, end = (place.start + at_rate(sample, source.rate) for sample in (cut.start, cut.end))
    falling, rising = cut.weights(end - start)
    after = cut_padded(source.samples, start - place.shift_after, end - place.shift_after)
    return _Overlay(start, after, rising, falling, end, end, ((place.first, "cut", start, end),))


def _end_cut(source: _Source, place: Place) -> _Overlay:
    """Return a short fade of the recording where its beginning or its end was deleted."""
    count = at_rate(min(SHORT, place.left or place.right), source.rate)
    falling, rising = Fade(0, count, 1.0, 0.0).weights(count)
    nothing = source.samples.new_zeros(source.samples.shape[0], count)
    if place.left:
        end = min(place.start, place.end)  # each is rounded: at 7,919 Hz they may be a sample apart
        return _Overlay(end - count, nothing, rising, falling, end, place.end, ())
    return _Overlay(place.end, nothing, falling, rising, place.end, place.end, ())


def _decoded_overlay(source: _Source, place: Place, decoded: Tensor, left: Fade | None, right: Fade | None) -> _Overlay:
    """Return decoded [n], at the right level, in the recording's channels with its cross-fades."""
    rate, patch = source.rate, place.patch
    edge = PAD + patch.before * HOP
    end = edge + patch.new * HOP
    first, until = (place.start + at_rate(s - edge, rate) for s in ((left.start, left.end) if left else (edge, edge)))
    resume, last = (place.end + at_rate(s - end, rate) for s in ((right.start, right.end) if right else (end, end)))
    voice = resample(_softened(decoded, patch, place)[None], SAMPLE_RATE, rate)
    origin = at_rate(patch.before * HOP, rate) - place.start  # where sample 0 of the result is in `voice`
    voice = cut_padded(voice, first + origin, last + origin)
    near = max(0, place.old_start - rate), place.old_end + rate
    keep, add = torch.zeros(last - first), torch.ones(last - first)
    joints = []
    if left:
        keep[: until - first], add[: until - first] = left.weights(until - first)
        joints.append((place.first, "left", first, until))
    if right:
        add[resume - first :], keep[resume - first :] = right.weights(last - resume)
        joints.append((place.last, "right", resume, last))
    samples = in_channels(voice, source.samples, source.mixed, source.offsets, *near)
    samples += air(source.samples, rate, place.old_start, place.old_end, last - first)
    return _Overlay(first, samples, add, keep, until, resume, tuple(joints))


def _softened(decoded: Tensor, patch: Patch, place: Place) -> Tensor:
    """Return decoded [n], faded at an end where the recording goes on but nothing was decoded that overlaps it."""
    short = min(SHORT, decoded.shape[0] // 2)
    return fade(
        decoded[None],
        fade_in=short if place.left and patch.before == 0 else 0,
        fade_out=short if place.right and patch.after == 0 else 0,
    )[0]


def _assembled(samples: Tensor, places: Sequence[Place], overlays: Sequence[_Overlay]) -> tuple[Tensor, list[Kept]]:
    """Return the result [C, M] of a recording [C, N], and what it has kept."""
    C, N = samples.shape
    shift = places[-1].shift_after if places else 0
    result = samples.new_zeros(C, N + shift)
    starts = [0, *(overlay.resume for overlay in overlays)]
    ends = [*(overlay.until for overlay in overlays), N + shift]
    shifts = [0, *(place.shift_after for place in places)]
    for start, end, moved in zip(starts, ends, shifts):
        if start < end:
            result[:, start:end] = samples[:, start - moved : end - moved]
    for overlay in overlays:
        span = slice(overlay.start, overlay.start + overlay.samples.shape[1])
        result[:, span] = result[:, span] * overlay.keep + overlay.samples * overlay.add
    firsts = [0, *(overlay.start + overlay.samples.shape[1] for overlay in overlays)]
    lasts = [*(overlay.start for overlay in overlays), N + shift]
    pieces = zip(firsts, lasts, shifts)
    return result, [Kept(first - moved, last - moved, first) for first, last, moved in pieces if first < last]


def _measured(waveform: Waveform, overlays: Sequence[_Overlay], scale: Scale) -> tuple[Joint, ...]:
    """Return the joints with their roughness in the result."""
    rate, found = waveform.sample_rate, []
    around = round(AROUND_SECONDS * rate)
    for number, side, start, end in (joint for overlay in overlays for joint in overlay.joints):
        first = max(0, start - around)
        near = resample(to_mono(waveform.samples[:, first : end + around])[0], rate, SAMPLE_RATE)[0]
        at_start, at_end = ((sample - first) * SAMPLE_RATE // rate for sample in (start, end))
        found.append(Joint(number, side, start, end, roughness(near, at_start, at_end, scale)))
    return tuple(found)
