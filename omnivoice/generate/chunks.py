"""Which chunks a text is split into, and how many frames each gets.

The estimate of how long a text takes is upstream's (models/omnivoice.py:1160-1250). There are two ways to split long
text: "upstream" gives upstream's chunks and frames. "sentences", the default, splits at sentence ends. If a duration is
given, it divides the frames among the chunks so that the total is right, including gaps and pauses. A pause in the text
always starts a new chunk.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from ..constants import FRAME_RATE, HOP, SAMPLE_RATE
from ..errors import InputError
from ..intake.cancel import hear_cancel
from ..text.characters import is_spoken
from ..text.chunking import chunk_sentences, chunk_upstream
from ..text.clean import join_lines
from ..text.duration import estimate_frames, text_weight
from ..text.pauses import Piece
from ..types import Chunk, GenerationRequest, VoicePrompt

GAP_SAMPLES = 2400  # silence at each join of two chunks (upstream utils/audio.py:305, a third of 0.3 s)
# Shorter estimates are raised (upstream utils/duration.py:228), so they do not show the rate of the following chunks.
RATE_FRAMES = 50


def plan_chunks(request: GenerationRequest, pieces: Sequence[Piece], tail_samples: int) -> tuple[list[Chunk], bool]:
    """Return the chunks of the cleaned pieces, which still contain line breaks, and whether the text was chunked.

    tail_samples: silence after the last piece; a given duration includes it. Raises InputError for a duration that
    leaves no time for speech.
    """
    estimates = [_estimate(join_lines(piece.text), _reference(request.voice), _speed(request)) for piece in pieces]
    frames: list[float] = list(estimates)
    if request.duration:
        wanted = max(1, int(request.duration * FRAME_RATE))
        frames = [wanted * estimate / sum(estimates) for estimate in estimates]
    threshold = int(request.chunk_threshold_seconds * FRAME_RATE)
    cuts = [
        _cut(request, piece.text, n) if n > threshold else [join_lines(piece.text)] for piece, n in zip(pieces, frames)
    ]
    if request.first_seconds and request.chunking == "sentences":
        cuts[0] = _cut(request, pieces[0].text, frames[0], first_seconds=request.first_seconds)
    pauses = [round(piece.pause_seconds * SAMPLE_RATE) for piece in pieces]
    _check_duration(request, cuts, sum(pauses) + tail_samples)
    chunked = len(pieces) > 1 or frames[0] > threshold or len(cuts[0]) > 1
    if chunked and request.chunking == "upstream":
        speed = sum(estimates) / sum(frames) * _speed(request)
        return _estimated(cuts, pauses, request.voice, speed, as_upstream=True), True
    chunks = _estimated(cuts, pauses, request.voice, _speed(request), as_upstream=False)
    total = _total(request, chunks, tail_samples)
    return chunks if total is None else _share(chunks, total), chunked


def _check_duration(request: GenerationRequest, cuts: Sequence[Sequence[str]], silence: int) -> None:
    """Refuse a duration that leaves less than a frame for each chunk after the pauses, which are exact."""
    if request.duration and silence:
        least = math.ceil((silence + HOP * sum(map(len, cuts))) / SAMPLE_RATE * 100) / 100
        if request.duration < least:
            raise InputError(
                f"duration must be at least {least:g} for this text, whose pauses last {silence / SAMPLE_RATE:g} s, "
                f"got {request.duration:g}: give more, or shorten the pauses"
            )


def _speed(request: GenerationRequest) -> float:
    """Return the speed that counts: a duration overrides it."""
    return 1.0 if request.duration else request.speed or 1.0


def _cut(request: GenerationRequest, lines: str, frames: float, *, first_seconds: float = 0.0) -> list[str]:
    """Split a text of estimated `frames` into pieces of about `chunk_seconds`, the first of about `first_seconds`."""
    hear_cancel()
    text, wanted = join_lines(lines), request.chunk_seconds * FRAME_RATE
    if request.chunking == "upstream":
        return chunk_upstream(text, int(wanted / (frames / len(text))))
    weight = text_weight(text) / frames
    return chunk_sentences(lines, max_weight=wanted * weight, first_weight=first_seconds * FRAME_RATE * weight)


def _reference(voice: VoicePrompt | None) -> tuple[str, int] | None:
    """Return the transcript, in NFC, and the frames to estimate from; None without a voice or without words."""
    if voice is None or not any(map(is_spoken, voice.text)):
        return None
    return unicodedata.normalize("NFC", voice.text), voice.frames


def _estimate(text: str, reference: tuple[str, int] | None, speed: float) -> int:
    hear_cancel()
    known, frames = reference or (None, None)
    return estimate_frames(text, reference_text=known, reference_frames=frames, speed=speed)


def _estimated(
    cuts: Sequence[Sequence[str]], pauses: Sequence[int], voice: VoicePrompt | None, speed: float, *, as_upstream: bool
) -> list[Chunk]:
    """Return every chunk with its frames, at the rate of the voice or the default rate.

    Without a voice, the first chunk becomes the voice of the others. as_upstream: it then also sets their rate, and
    because it includes `speed` already, `speed` counts twice for them. A first chunk before a pause may be too short
    to have a rate.
    """
    reference, chunks = _reference(voice), list[Chunk]()
    for texts, pause in zip(cuts, pauses):
        for i, text in enumerate(texts):
            chunk = Chunk(text, _estimate(text, reference, speed), bool(chunks) and voice is None, 0 if i else pause)
            chunks.append(chunk)
            first = as_upstream and voice is None and len(chunks) == 1
            if first and (len(texts) > 1 or chunk.frames >= RATE_FRAMES):
                reference = (chunk.text, chunk.frames)
    return chunks


def _total(request: GenerationRequest, chunks: Sequence[Chunk], tail_samples: int) -> int | None:
    """Return the frames of speech in a given duration, without gaps, pauses and, if exact, pads; None without one."""
    if not request.duration:
        return None
    if len(chunks) == 1 and not request.exact_length and not chunks[0].pause_samples and not tail_samples:
        return max(1, int(request.duration * FRAME_RATE))
    silence = sum(chunk.pause_samples or GAP_SAMPLES for chunk in chunks[1:]) + chunks[0].pause_samples + tail_samples
    if request.exact_length:
        silence += 2 * int(request.pad_seconds * SAMPLE_RATE)
    return max(len(chunks), (round(request.duration * SAMPLE_RATE) - silence) // HOP)


def _share(chunks: Sequence[Chunk], total: int) -> list[Chunk]:
    """Return the chunks with `total` frames: 1 for each, and the others in proportion to the estimates."""
    ends = [0, *accumulate(chunk.frames for chunk in chunks)]
    edges = [round((total - len(chunks)) * end / ends[-1]) for end in ends]
    return [replace(chunk, frames=1 + b - a) for chunk, (a, b) in zip(chunks, pairwise(edges))]
