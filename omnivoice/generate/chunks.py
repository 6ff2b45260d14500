"""Which chunks a text is generated in, and how many frames each gets.

How long a text takes is upstream's estimate (models/omnivoice.py:1160-1250). Two ways to cut long text:
"upstream" reproduces upstream's chunks and frames; "sentences" (default) cuts at sentence ends and, when a
duration is given, shares its frames among the chunks so that the total holds, gaps and pauses included. A pause
in the text always begins a new chunk. No tensors here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from ..constants import FRAME_RATE, HOP, SAMPLE_RATE
from ..errors import InputError, TextError
from ..intake.limits import MAX_AUDIO_SECONDS
from ..text.characters import is_spoken
from ..text.chunking import chunk_sentences, chunk_upstream
from ..text.clean import join_lines
from ..text.duration import estimate_frames, text_weight
from ..text.pauses import Piece
from ..types import Chunk, GenerationRequest, VoicePrompt

GAP_SAMPLES = 2400  # silence at each join of two chunks (upstream utils/audio.py:305, a third of 0.3 s)
# Below this the estimate is lifted (upstream utils/duration.py:228): too short to tell the rate of what follows.
RATE_FRAMES = 50


def plan_chunks(request: GenerationRequest, pieces: Sequence[Piece], tail_samples: int) -> tuple[list[Chunk], bool]:
    """The chunks of the cleaned pieces (line breaks still in them), and whether they are generated in turn.

    tail_samples: silence after the last piece, which counts in a given duration. Raises InputError for a duration
    that the text's pauses fill, and TextError for a chunk that is too long to be generated in one go.
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
    pauses = [round(piece.pause_seconds * SAMPLE_RATE) for piece in pieces]
    _refuse_full(request, cuts, sum(pauses) + tail_samples)
    chunked = len(pieces) > 1 or frames[0] > threshold
    if chunked and request.chunking == "upstream":
        speed = sum(estimates) / sum(frames) * _speed(request)
        chunks = _estimated(cuts, pauses, request.voice, speed, as_upstream=True)
        return _bounded(chunks), True
    chunks = _estimated(cuts, pauses, request.voice, _speed(request), as_upstream=False)
    total = _total(request, chunks, tail_samples)
    return _bounded(chunks if total is None else _share(chunks, total)), chunked


def _refuse_full(request: GenerationRequest, cuts: Sequence[Sequence[str]], silence: int) -> None:
    """Pauses are exact, so a duration must leave at least a frame for each chunk beside them."""
    if request.duration and silence:
        least = math.ceil((silence + HOP * sum(map(len, cuts))) / SAMPLE_RATE * 100) / 100
        if request.duration < least:
            raise InputError(
                f"duration must be at least {least:g} for this text, whose pauses last {silence / SAMPLE_RATE:g} s, "
                f"got {request.duration:g}: give more, or shorten the pauses"
            )


def _bounded(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks; one beyond what a duration may ask for would need memory without bounds."""
    seconds = max(chunk.frames for chunk in chunks) / FRAME_RATE
    if seconds > MAX_AUDIO_SECONDS:
        raise TextError(
            f"a part of the text would take {seconds:.0f} s in one go, allowed are {MAX_AUDIO_SECONDS}: use "
            'chunking="sentences", and check speed and the transcript of the voice'
        )
    return chunks


def _speed(request: GenerationRequest) -> float:
    """A duration overrides the speed."""
    return 1.0 if request.duration else request.speed or 1.0


def _cut(request: GenerationRequest, lines: str, frames: float) -> list[str]:
    """A text of estimated `frames` in pieces of about `chunk_seconds`."""
    text, wanted = join_lines(lines), request.chunk_seconds * FRAME_RATE
    if request.chunking == "upstream":
        return chunk_upstream(text, int(wanted / (frames / len(text))))
    return chunk_sentences(lines, max_weight=wanted * text_weight(text) / frames)


def _reference(voice: VoicePrompt | None) -> tuple[str, int] | None:
    """Transcript and frames to estimate by; a voice whose transcript has no word in it has no known rate."""
    return (voice.text, voice.frames) if voice is not None and any(map(is_spoken, voice.text)) else None


def _estimate(text: str, reference: tuple[str, int] | None, speed: float) -> int:
    reference_text, reference_frames = reference or (None, None)
    return estimate_frames(text, reference_text=reference_text, reference_frames=reference_frames, speed=speed)


def _estimated(
    cuts: Sequence[Sequence[str]], pauses: Sequence[int], voice: VoicePrompt | None, speed: float, *, as_upstream: bool
) -> list[Chunk]:
    """Every chunk at the rate of the voice, or at the default one; without a voice the first chunk is the others'.

    as_upstream: that first chunk also gives the others their rate; it is sped up already, so `speed` counts twice for
    them. Only after a pause may it be too short to have a rate.
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
    """Frames of speech that fill a given duration beside gaps, pauses and, in exact mode, pads; None without one."""
    if not request.duration:
        return None
    if len(chunks) == 1 and not request.exact_length and not chunks[0].pause_samples and not tail_samples:
        return max(1, int(request.duration * FRAME_RATE))
    silence = sum(chunk.pause_samples or GAP_SAMPLES for chunk in chunks[1:]) + chunks[0].pause_samples + tail_samples
    if request.exact_length:
        silence += 2 * int(request.pad_seconds * SAMPLE_RATE)
    return max(len(chunks), (round(request.duration * SAMPLE_RATE) - silence) // HOP)


def _share(chunks: Sequence[Chunk], total: int) -> list[Chunk]:
    """The chunks with `total` frames in all: 1 each, and the rest in proportion to their estimates."""
    ends = [0, *accumulate(chunk.frames for chunk in chunks)]
    edges = [round((total - len(chunks)) * end / ends[-1]) for end in ends]
    return [replace(chunk, frames=1 + b - a) for chunk, (a, b) in zip(chunks, pairwise(edges))]
