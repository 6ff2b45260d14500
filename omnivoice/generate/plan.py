"""From a request to a plan: checked numbers, clean text, language and design strings, chunks and frames.

Pure Python: no tensors, no weights, so a plan can be made, shown or refused before anything is loaded.
How long a text takes is upstream's estimate (models/omnivoice.py:1160-1250). Two ways to cut long text:
"upstream" reproduces upstream's chunks and frames; "sentences" (default) cuts at sentence ends and, when a
duration is given, shares its frames among the chunks so that the total holds, gaps included.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise

from ..errors import InputError, TextError
from ..intake.limits import MAX_TOTAL_SECONDS, check_number
from ..intake.text_in import clean_text
from ..text.chunking import chunk_sentences, chunk_upstream
from ..text.clean import join_lines, speakable_lines
from ..text.design import parse_design, render_design
from ..text.duration import estimate_frames, text_weight
from ..text.languages import resolve_language
from ..text.tags import tag_warnings
from ..types import Chunk, GenerationPlan, GenerationRequest, Sampling, VoiceDesign, VoicePrompt

SAMPLE_RATE = 24000
HOP = 960
FRAME_RATE = 25
GAP_SAMPLES = 2400  # silence at each join of two chunks (upstream utils/audio.py:305, a third of 0.3 s)
CHUNKING = ("sentences", "upstream")
OPTIONAL_NUMBERS = ("seed", "speed", "duration")
NUMBERS = ("pad_seconds", "fade_seconds", "chunk_seconds", "chunk_threshold_seconds")


def make_plan(request: GenerationRequest) -> GenerationPlan:
    """Check `request` and decide everything that can be decided without the model.

    Raises InputError (also TextError) that names the field, what was given and what is allowed.
    """
    check_request(request)
    lines = speakable_lines(clean_text(request.text))
    text = join_lines(lines)
    language, language_warnings = resolve_language(request.language)
    instruct = _instruct(request.design, text)
    chunks, chunked = _chunks(request, lines)
    seconds = sum(chunk.frames for chunk in chunks) / FRAME_RATE
    if seconds > MAX_TOTAL_SECONDS:
        raise TextError(
            f"the text would take {seconds / 3600:.1f} hours to speak, "
            f"allowed are {MAX_TOTAL_SECONDS / 3600:g}: split it"
        )
    exact = round(request.duration * SAMPLE_RATE) if request.exact_length and request.duration else None
    return GenerationPlan(
        request=request, chunks=tuple(chunks), language=language, instruct=instruct,
        seed=secrets.randbelow(2**32) if request.seed is None else int(request.seed),
        chunked=chunked, target_samples=exact,
        warnings=(*language_warnings, *tag_warnings(text), *_design_warnings(instruct, language, request.voice)),
    )  # fmt: skip


def check_request(request: GenerationRequest) -> None:
    """Types and ranges of every field; raises InputError."""
    if not isinstance(request, GenerationRequest):
        raise InputError(f"generate takes GenerationRequest objects, got {type(request).__name__}")
    if request.voice is not None and not isinstance(request.voice, VoicePrompt):
        raise InputError(f"voice must be a VoicePrompt, got {type(request.voice).__name__}; make one with encode_voice")
    if not isinstance(request.sampling, Sampling):
        raise InputError(f"sampling must be a Sampling, got {type(request.sampling).__name__}")
    if request.chunking not in CHUNKING:
        raise InputError(f"chunking must be one of {', '.join(CHUNKING)}, got {request.chunking!r}")
    for name in OPTIONAL_NUMBERS:
        if getattr(request, name) is not None:
            check_number(name, getattr(request, name))
    for name in NUMBERS:
        check_number(name, getattr(request, name))
    for field in fields(Sampling):
        check_number(field.name, getattr(request.sampling, field.name))
    if request.exact_length and request.duration is None:
        raise InputError("exact_length needs a duration: give the seconds the speech must last")


def _instruct(design: VoiceDesign | str | None, text: str) -> str | None:
    if isinstance(design, str):
        design = parse_design(design)
    if design is None:
        return None
    if not isinstance(design, VoiceDesign):
        raise InputError(f"design must be a VoiceDesign or a string of attributes, got {type(design).__name__}")
    return render_design(design, text)


def _design_warnings(instruct: str | None, language: str | None, voice: VoicePrompt | None) -> tuple[str, ...]:
    """Upstream was trained on described voices in Chinese and English alone (upstream.md 50)."""
    if instruct is None or voice is not None or language in (None, "zh", "en"):
        return ()
    return (f"described voices were trained for zh and en only; with language {language} expect noise: clone a voice",)


def _chunks(request: GenerationRequest, lines: str) -> tuple[list[Chunk], bool]:
    """The chunks of a text (line breaks still in it), and whether it counts as long."""
    text, reference = join_lines(lines), _reference(request.voice)
    speed = request.speed or 1.0
    frames = _estimate(text, reference, 1.0 if request.duration else speed)
    if request.duration:
        wanted = max(1, int(request.duration * FRAME_RATE))
        speed, frames = frames / wanted, wanted
    if frames <= int(request.chunk_threshold_seconds * FRAME_RATE):
        return [Chunk(text, _fit(request, 1) or frames)], False
    seconds = request.chunk_seconds * FRAME_RATE
    if request.chunking == "upstream":
        pieces = chunk_upstream(text, int(seconds / (frames / len(text))))
        return _estimated(pieces, request.voice, speed), True
    pieces = chunk_sentences(lines, max_weight=seconds * text_weight(text) / frames)
    chunks = _estimated(pieces, request.voice, speed)
    total = _fit(request, len(chunks))
    return (chunks if total is None else _share(chunks, total)), True


def _reference(voice: VoicePrompt | None) -> tuple[str, int] | None:
    """Transcript and frames to estimate by; a voice without a transcript has no known rate."""
    return (voice.text, voice.frames) if voice is not None and voice.text else None


def _estimate(text: str, reference: tuple[str, int] | None, speed: float) -> int:
    reference_text, reference_frames = reference or (None, None)
    return estimate_frames(text, reference_text=reference_text, reference_frames=reference_frames, speed=speed)


def _estimated(pieces: Sequence[str], voice: VoicePrompt | None, speed: float) -> list[Chunk]:
    """Without a voice, the first chunk is the voice of the rest, and its rate theirs."""
    reference = _reference(voice)
    first = Chunk(pieces[0], _estimate(pieces[0], reference, speed))
    if voice is None:
        reference = (first.text, first.frames)
    rest = (Chunk(piece, _estimate(piece, reference, speed), voice is None) for piece in pieces[1:])
    return [first, *rest]


def _fit(request: GenerationRequest, pieces: int) -> int | None:
    """Frames of speech that fit a given duration beside gaps and, in exact mode, pads; None = as estimated."""
    if not request.duration or (pieces == 1 and not request.exact_length):
        return None
    silence = (pieces - 1) * GAP_SAMPLES
    if request.exact_length:
        silence += 2 * int(request.pad_seconds * SAMPLE_RATE)
    return max(pieces, (round(request.duration * SAMPLE_RATE) - silence) // HOP)


def _share(chunks: Sequence[Chunk], total: int) -> list[Chunk]:
    """The chunks with `total` frames in all, in proportion to their estimates, at least 1 each."""
    estimates = [chunk.frames for chunk in chunks]
    edges = [round(total * sum(estimates[:i]) / sum(estimates)) for i in range(len(chunks) + 1)]
    shares = [max(1, b - a) for a, b in pairwise(edges)]
    shares[shares.index(max(shares))] += total - sum(shares)
    return [Chunk(chunk.text, share, chunk.follows_first) for chunk, share in zip(chunks, shares)]
