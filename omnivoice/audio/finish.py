"""From decoded chunks to the finished output: join, trim, level, fade, pad, and fit to an exact length.

Without an exact length the result equals upstream's _decode_and_post_process (models/omnivoice.py:834) on an ordinary
output. Unlike upstream, nothing is ever trimmed to nothing, NaN and digital silence are errors, and an exact length is
reached by adding or dropping silence only, as long as there is enough of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import NumericError
from ..intake.cancel import cancellable, hear_cancel
from .joins import fade, join_chunks
from .loudness import SILENT_PEAK, UNVOICED_PEAK, match_level, raise_to_speech, rms
from .silence import Clip, remove_silence, silent_runs, to_grid

MAX_HALFWAY_GAIN = 2  # up to this gain, half a 16-bit step stays below one step (`silence.halfway_clip`)
KEPT_SAMPLES = SAMPLE_RATE // 20  # 50 ms of each pause are kept as long as there are others to shorten


def finish_speech(
    chunks: Sequence[Tensor],
    *,
    reference_rms: float | None,
    post_process: bool,
    pad_seconds: float,
    fade_seconds: float,
    pauses: Sequence[int] = (),
    target_samples: int | None = None,
) -> Tensor:
    """Return decoded chunks [1, N_i] float32 at 24 kHz, on the CPU, as speech [1, N] of at least one sample.

    reference_rms: level of the reference (`loudness.match_level`), None without one. post_process: trim silences.
    pad_seconds, fade_seconds: silence added at, and fade applied to, each end.
    pauses: numbers of zeros before each chunk and after the last one, len(chunks) + 1 of them, or an empty sequence.
    A pause that is not 0 separates the chunks around it: they are finished apart with exactly that many zeros between
    them. Other chunks are joined.
    target_samples: exactly N, pads and pauses included. Speech that is too short gets silence at its end. Speech that
    is too long loses its pads and then silence (`drop_silence`); only if that is not enough, its end is cut and faded.
    Raises NumericError if a chunk holds NaN or Inf, or if nothing is audible (no peak above 1e-6).
    """
    silences = list(pauses) or [0] * (len(chunks) + 1)
    hear_cancel()
    parts = _joined(chunks, silences)
    hear_cancel()
    if post_process:
        parts, peak = _trimmed(parts, raised=reference_rms is None)
    else:
        peak = _peak(parts)
    hear_cancel()
    before = after = int(pad_seconds * SAMPLE_RATE)
    if target_samples is not None:
        parts = _shortened(parts, target_samples - sum(silences))
        spare = max(0, target_samples - sum(silences) - sum(part.shape[1] for part in parts))
        before = min(before, spare // 2)
        after = spare - before
    lengths = [part.shape[1] for part in parts]
    levelled = match_level(torch.cat(parts, dim=1), reference_rms, peak=peak).split(lengths, dim=1)
    count = int(fade_seconds * SAMPLE_RATE)
    faded = [fade(part, fade_in=count, fade_out=count) for part in cancellable(levelled)]
    starts = [before + silences[0], *(silence for silence in silences[1:-1] if silence)]
    spaced = [torch.nn.functional.pad(part, (start, 0)) for start, part in zip(starts, faded)]
    return torch.nn.functional.pad(torch.cat(spaced, dim=1), (0, silences[-1] + after))[:, :target_samples]


def _joined(chunks: Sequence[Tensor], silences: Sequence[int]) -> list[Tensor]:
    """Join the chunks between pauses; raises NumericError for NaN, Inf and digital silence."""
    if not all(bool(torch.isfinite(chunk).all()) for chunk in cancellable(chunks)):
        raise NumericError("the speech holds NaN or Inf: check the model's files, and try fp32")
    parts = [join_chunks(part, SAMPLE_RATE) for part in _between_pauses(chunks, silences)]
    if all(part.shape[1] == 0 or float(part.abs().max()) <= SILENT_PEAK for part in parts):
        raise NumericError("the model produced digital silence: try another seed, and fp32")
    return parts


def _peak(parts: Sequence[Tensor]) -> float:
    return float(torch.cat(list(parts), dim=1).abs().max())


def _trimmed(parts: Sequence[Tensor], *, raised: bool) -> tuple[list[Tensor], float]:
    """Shorten silences as upstream does (models/omnivoice.py:890); return the parts and their peak on the 16-bit grid.

    raised: the peak will be brought to 0.5. If that takes a gain of 1 to 2, samples come from `halfway_clip`.
    """
    shorten = partial(remove_silence, sample_rate=SAMPLE_RATE, mid_ms=500, lead_ms=100, trail_ms=100)
    trimmed = [shorten(part) for part in parts]
    peak = _peak(trimmed)
    if raised and UNVOICED_PEAK / MAX_HALFWAY_GAIN <= peak < UNVOICED_PEAK:
        trimmed = [shorten(part, on_grid=False) for part in parts]
    return trimmed, peak


def _between_pauses(chunks: Sequence[Tensor], silences: Sequence[int]) -> list[list[Tensor]]:
    """Group the chunks; each pause starts a new group."""
    groups: list[list[Tensor]] = [[]]
    for chunk, silence in zip(chunks, silences):
        if silence and groups[-1]:
            groups.append([])
        groups[-1].append(chunk)
    return groups


def _shortened(parts: Sequence[Tensor], wanted: int) -> list[Tensor]:
    """Shorten the parts to `wanted` samples in all: drop silence from each in proportion, then cut the end."""
    lengths = [part.shape[1] for part in parts]
    excess = sum(lengths) - wanted
    if excess <= 0:
        return list(parts)
    kept = [drop_silence(part, -(-excess * length // sum(lengths))) for part, length in zip(parts, lengths)]
    surplus = sum(part.shape[1] for part in kept) - max(wanted, 1)
    for i in reversed(range(len(kept))):
        cut = min(max(surplus, 0), kept[i].shape[1] - 1)
        kept[i], surplus = kept[i][:, : kept[i].shape[1] - cut], surplus - cut
    return kept


def drop_silence(samples: Tensor, excess: int) -> Tensor:
    """Drop up to `excess` samples of silence from samples [1, N].

    Silence means 10 ms steps below -50 dBFS, or 30 dB below the RMS of a quieter recording. It is dropped at the end
    first, then at the start, then from the inner pauses, longest first, and 50 ms of each stay. If that is not enough,
    the last 50 ms at the end and at the start are dropped too.
    """
    if excess <= 0:
        return samples
    clip = Clip(samples[0], to_grid(raise_to_speech(samples[0], rms(samples))), SAMPLE_RATE)
    N = samples.shape[1]
    runs = silent_runs(clip)
    start = next((last for first, last in runs if first == 0), 0)
    end = next((first for first, last in runs if last == N), N)
    inner = sorted((run for run in runs if run[0] > 0 and run[1] < N), key=lambda run: run[0] - run[1])
    kept, left = KEPT_SAMPLES, KEPT_SAMPLES // 2
    order = [
        torch.arange(min(end + kept, N), N).flip(0),
        torch.arange(max(start - kept, 0)),
        *(torch.arange(first + left, max(first + left, last - kept + left)) for first, last in inner),
        torch.arange(end, min(end + kept, N)).flip(0),
        torch.arange(max(start - kept, 0), start),
    ]
    keep = torch.ones(N, dtype=torch.bool)
    keep[torch.cat(order)[:excess]] = False
    return samples[:, keep]
