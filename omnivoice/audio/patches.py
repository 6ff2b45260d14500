"""Patches: decoded frames that replace frames of a recording, and where they lie in it and in the result.

Frame f of a recording begins at its sample round(f * rate / 25). What follows a patch moves by round(d * rate / 25)
samples, where d is the number of frames that it and all patches before it have added or, if negative, taken away. So
lengths are exact at every rate, and several patches do not add up their rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..constants import FRAME_RATE, HOP, SAMPLE_RATE
from ..errors import AudioError

SHORT = SAMPLE_RATE // 200  # 5 ms: a margin where nothing was decoded that overlaps the recording
SPARE = 12  # keeps the margins of two patches apart when they are rounded to samples of any rate


@dataclass(frozen=True, eq=False)
class Patch:
    """Frames `start` to `end` of a recording, which `new` decoded frames replace.

    decoded: [1, n] or [n] float at 24 kHz, n = (before + new + after) * 960: the new frames, with `before` and `after`
    frames of what the recording has around them, as the codec decodes them. start == end inserts, new == 0 deletes.
    """

    start: int
    end: int
    new: int
    decoded: Tensor
    before: int
    after: int

    @property
    def added(self) -> int:
        """How many frames longer the result is; negative if it is shorter."""
        return self.new - (self.end - self.start)


@dataclass(frozen=True, eq=False)
class Place:
    """A patch on the time lines at the recording's rate.

    patch: its decoded audio is [n]. first, last: the numbers of the given patches that it is made of. It replaces
    samples `old_start` to `old_end` of the recording with `start` to `end` of the result; what is before it has moved
    by `shift`, what follows it by `shift_after`. left, right: how many samples at 24 kHz its margins may have at most;
    0 where the recording begins or ends.
    """

    patch: Patch
    first: int
    last: int
    old_start: int
    old_end: int
    start: int
    end: int
    shift: int
    shift_after: int
    left: int
    right: int


def check_patches(patches: Sequence[Patch], frames: int) -> None:
    """Raise AudioError for patches that are not in order within `frames` frames, that overlap, or whose decoded audio
    has another length or is not finite."""
    last = 0
    for number, patch in enumerate(patches):
        if not last <= patch.start <= patch.end <= frames:
            raise AudioError(
                f"patch {number} replaces frames {patch.start} to {patch.end}: patches must be in order, without "
                f"overlap and within the {frames} frames of the recording"
            )
        last = patch.end
        counts, shape = (patch.before, patch.new, patch.after), patch.decoded.shape
        if min(counts) < 0 or list(shape) not in ([sum(counts) * HOP], [1, sum(counts) * HOP]):
            frames_each = " + ".join(str(count) for count in counts)
            raise AudioError(f"patch {number} must hold {frames_each} frames of {HOP} mono samples, got {list(shape)}")
        if not bool(torch.isfinite(patch.decoded).all()):
            raise AudioError(f"the decoded audio of patch {number} must be finite, got NaN or infinite samples")


def at(frames: int, rate: int) -> int:
    """Return how many samples `frames` frames have, rounded; a half does not occur."""
    return (2 * frames * rate + FRAME_RATE) // (2 * FRAME_RATE)


def at_rate(samples: int, rate: int) -> int:
    """Return how many samples at `rate` last as long as `samples` at 24 kHz, halves rounded upwards."""
    return (2 * samples * rate + SAMPLE_RATE) // (2 * SAMPLE_RATE)


def places_of(patches: Sequence[Patch], rate: int, N: int, most_frames: int) -> list[Place]:
    """Return the places of the patches in a recording of N samples, which has all their frames.

    Patches that touch become one. Margins have at most `most_frames` frames, and no more than were decoded; two patches
    have half of what is between them each. Where nothing was decoded they have 5 ms.
    """
    merged = _merged(patches)
    found, added = [], 0
    for index, (first, last, patch) in enumerate(merged):
        old_start, old_end = at(patch.start, rate), at(patch.end, rate)
        left, right = patch.start * HOP, (N - old_end) * SAMPLE_RATE // rate
        if index > 0:
            left = (patch.start - merged[index - 1][2].end) * HOP // 2 - SPARE
        if index < len(merged) - 1:
            right = (merged[index + 1][2].start - patch.end) * HOP // 2 - SPARE
        shift, shift_after = at(added, rate), at(added + patch.added, rate)
        added += patch.added
        found.append(
            Place(
                patch=patch,
                first=first,
                last=last,
                old_start=old_start,
                old_end=old_end,
                start=old_start + shift,
                end=old_end + shift_after,
                shift=shift,
                shift_after=shift_after,
                left=min(left, min(patch.before, most_frames) * HOP or SHORT),
                right=min(right, min(patch.after, most_frames) * HOP or SHORT),
            )
        )
    return found


def _merged(patches: Sequence[Patch]) -> list[tuple[int, int, Patch]]:
    """Return the patches [n], those that touch as one, with the numbers of the first and the last that are in it."""
    merged: list[tuple[int, int, Patch]] = []
    for number, patch in enumerate(patches):
        first, patch = number, replace(patch, decoded=patch.decoded.detach().reshape(-1).float().cpu())
        if merged and merged[-1][2].end == patch.start:
            first, _, earlier = merged.pop()
            patch = _joined(earlier, patch)
        merged.append((first, number, patch))
    return merged


def _joined(earlier: Patch, later: Patch) -> Patch:
    """Return two patches that touch as one: the new frames of both, and what was decoded outside them."""
    kept = (earlier.before + earlier.new) * HOP
    decoded = torch.cat((earlier.decoded[:kept], later.decoded[later.before * HOP :]))
    return Patch(earlier.start, later.end, earlier.new + later.new, decoded, earlier.before, later.after)
