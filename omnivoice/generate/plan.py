"""From a request to a plan: checked values, clean text, language and design strings, chunks and frames.

Every request is checked here, so callers need no checks of their own. A plan needs no tensors and no weights: it can
be made, shown or refused before a model runs. `chunks.py` splits the text and decides lengths.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from ..constants import FRAME_RATE, SAMPLE_RATE
from ..errors import InputError, TextError
from ..intake.cancel import cancellable, hear_cancel
from ..intake.limits import (
    MAX_AUDIO_SECONDS,
    MAX_RUN_WORK,
    MAX_TOTAL_SECONDS,
    check_choice,
    check_integer,
    check_number,
    check_text_length,
    shown,
)
from ..text.characters import is_spoken
from ..text.clean import join_lines, speakable_lines
from ..text.design import parse_design, render_design
from ..text.duration import estimate_frames
from ..text.languages import language_id, own_languages
from ..text.pauses import Piece, split_pauses
from ..text.removed import Removed
from ..text.rules import PUBLISHED, TextRules
from ..text.tags import tag_warnings
from ..text.vocabulary import is_one_word
from ..types import Chunk, GenerationPlan, GenerationRequest, Sampling, VoiceDesign, VoicePrompt
from .chunks import plan_chunks
from .presets import shortcuts_of
from .written import check_dictionary, written_text

CHUNKING = ("sentences", "upstream")
OPTIONAL_NUMBERS = ("seed", "speed", "duration")
NUMBERS = ("pad_seconds", "fade_seconds", "chunk_seconds", "chunk_threshold_seconds", "first_seconds")
LONG_CHARS = 50_000  # of a text whose letters and digits are looked at before anything else is done
SAMPLING_NUMBERS = tuple(field.name for field in fields(Sampling) if field.name != "codebook_steps")
SWITCHES = ("exact_length", "denoise", "post_process", "normalise")


def make_plan(request: GenerationRequest, rules: TextRules = PUBLISHED) -> GenerationPlan:
    """Check `request` and return everything that can be decided without the model.

    rules: what the model says about text. Raises InputError or TextError, which name the field, what was given and what
    is allowed.
    """
    return plan_checked(checked_request(request), rules)


def plan_checked(request: GenerationRequest, rules: TextRules) -> GenerationPlan:
    """Return the plan of a request that `checked_request` returned; otherwise as `make_plan`."""
    hear_cancel()
    removed = Removed()
    if request.text_as_written is not None:
        rules = replace(rules, as_written=request.text_as_written)
    language = language_id(request.language, rules.languages)
    _check_letters(request)
    written = written_text(request, rules, language)
    spoken, tail_seconds = _spoken(written.text, request, removed, rules)
    text = " ".join(join_lines(piece.text) for piece in spoken)
    hear_cancel()
    instruct = _instruct(request.design, text)
    tail_samples = round(tail_seconds * SAMPLE_RATE)
    chunks, chunked = plan_chunks(_shielded_voice(request, rules), spoken, tail_samples)
    _check_length(chunks)
    exact = round(request.duration * SAMPLE_RATE) if request.exact_length and request.duration else None
    warnings = (*removed.warnings(), *tag_warnings(text, rules.tags), *own_languages([language], rules.languages))
    return GenerationPlan(
        request=request,
        chunks=tuple(replace(chunk, text=rules.restored(chunk.text)) for chunk in chunks),
        language=language,
        instruct=instruct,
        seed=secrets.randbelow(2**32) if request.seed is None else request.seed,
        chunked=chunked,
        tail_samples=tail_samples,
        target_samples=exact,
        warnings=tuple(
            map(rules.restored, (*written.warnings, *warnings, *_warnings(request, language, instruct, chunks[0].text)))
        ),
        notes=written.notes,
        respelled=written.respelled,
        normalised=written.normalised,
        used_entries=written.used,
    )


def _check_letters(request: GenerationRequest) -> None:
    """Raise TextError for a text whose letters and digits alone take twice as long as is allowed, at the usual rate.

    That is known at once, while a text in Chinese, say, takes seconds to normalise and to cut. Latin letters of a text
    of any length are below that, as are those of markup, which are not spoken; most digits take longer in words.
    """
    if isinstance(request.text, str) and len(request.text) > LONG_CHARS and request.dictionary is None:
        check_text_length(request.text)
        letters = "".join(char for char in request.text if char.isalnum())
        seconds = estimate_frames(letters, speed=max(1.0, request.speed or 1.0)) / FRAME_RATE
        if seconds > 2 * MAX_TOTAL_SECONDS:
            raise _too_long(seconds)


def _check_length(chunks: Sequence[Chunk]) -> None:
    """Raise TextError for a chunk, or a text, that is too long."""
    seconds = max(chunk.frames for chunk in chunks) / FRAME_RATE
    if seconds > MAX_AUDIO_SECONDS:
        raise TextError(
            f"a chunk of the text would be {seconds:.0f} s long, at most {MAX_AUDIO_SECONDS} s are allowed: use "
            'chunking="sentences", and check the speed and the transcript of the voice'
        )
    seconds = sum(chunk.frames for chunk in chunks) / FRAME_RATE
    if seconds > MAX_TOTAL_SECONDS:
        raise _too_long(seconds)


def _too_long(seconds: float) -> TextError:
    return TextError(
        f"the text would take {seconds / 3600:.1f} hours to speak, at most {MAX_TOTAL_SECONDS / 3600:g} are allowed: "
        "split it"
    )


def limited(plans: Iterable[GenerationPlan], *, retries: int = 0) -> Iterator[GenerationPlan]:
    """Yield the plans of one run as they come; raises TextError as soon as they take more than four hours together, or
    more work than `MAX_RUN_WORK`. retries: how often each may be spoken again."""
    return _within_work(_within_hours(plans), retries)


def check_work(plans: Iterable[GenerationPlan], *, retries: int = 0) -> None:
    """Raise TextError for plans that together are more work than `MAX_RUN_WORK`, before anything runs.

    The work is counted in frames x steps x attempts. retries: how often each plan may be spoken again.
    """
    for _ in _within_work(plans, retries):
        pass


def _within_hours(plans: Iterable[GenerationPlan]) -> Iterator[GenerationPlan]:
    seconds = 0.0
    for count, plan in enumerate(plans, 1):
        seconds += _frames(plan) / FRAME_RATE
        if seconds > MAX_TOTAL_SECONDS:
            raise TextError(
                f"one run can make at most {MAX_TOTAL_SECONDS / 3600:g} hours of speech, and the first {count} "
                f"texts or takes already last {seconds / 3600:.2f} hours: make several runs"
            )
        yield plan


def _within_work(plans: Iterable[GenerationPlan], retries: int) -> Iterator[GenerationPlan]:
    work, taken = 0, list[GenerationPlan]()
    check_integer("retries", retries)
    for plan in plans:
        taken.append(plan)
        work += _work(plan, retries)
        if work > MAX_RUN_WORK:
            raise _too_much_work(taken, retries)
        yield plan


def _frames(plan: GenerationPlan) -> int:
    return sum(chunk.frames for chunk in plan.chunks)


def _work(plan: GenerationPlan, retries: int) -> int:
    return _frames(plan) * plan.request.sampling.passes * (1 + retries)


def _too_much_work(plans: Sequence[GenerationPlan], retries: int) -> TextError:
    """Return the error for plans of which the last one exceeds the limit."""
    frames, steps = sum(map(_frames, plans)), max(plan.request.sampling.passes for plan in plans)
    work = sum(_work(plan, retries) for plan in plans)
    which = "it has" if len(plans) == 1 else f"the first {len(plans)} texts or takes have"
    return TextError(
        f"one run can take at most {MAX_RUN_WORK:,} frames x steps, and {which} {work:,}: {frames:,} frames of speech, "
        f"up to {steps} steps, up to {1 + retries} attempts each. Use fewer steps, retries or takes, or make several "
        "runs"
    )


def _spoken(text: str, request: GenerationRequest, removed: Removed, rules: TextRules) -> tuple[list[Piece], float]:
    """Return the cleaned and shielded pieces of the text, and the seconds of silence at its end if the last piece has
    no words."""
    pieces = split_pauses(rules.shielded(text, removed), removed, rules)
    last = pieces[-1]
    tail = last.pause_seconds if len(pieces) > 1 and not last.text.strip() else 0.0
    texts = [piece.text.strip() for piece in (pieces[:-1] if tail else pieces)]
    if len(pieces) == 1:  # upstream's estimate counts its outer spaces
        texts = [last.text]
    spoken = [
        Piece(piece.pause_seconds, speakable_lines(text, removed, rules))
        for piece, text in cancellable(zip(pieces, texts))
    ]
    for piece in spoken:
        if not any(map(is_spoken, piece.text)) and (len(spoken) > 1 or not request.duration):
            raise TextError(
                f"{shown(rules.restored(piece.text))} has only tokens of the model, and no length of its own: write it "
                "next to words, or give the text a duration"
            )
    return spoken, tail if len(pieces) > 1 else 0.0


def _shielded_voice(request: GenerationRequest, rules: TextRules) -> GenerationRequest:
    """Return `request` with a shielded transcript, in which the model's tokens take no time."""
    voice = request.voice
    return request if voice is None else replace(request, voice=replace(voice, text=rules.shielded(voice.text)))


def checked_request(request: GenerationRequest) -> GenerationRequest:
    """Return `request` with every number in range and of Python's own type; others, such as numpy's, round differently.

    Raises InputError for a field of a wrong type or out of range. `make_plan` checks text, language and design.
    """
    if not isinstance(request, GenerationRequest):
        raise InputError(f"generate takes GenerationRequest objects, got {type(request).__name__}")
    if request.voice is not None and not isinstance(request.voice, VoicePrompt):
        raise InputError(f"voice must be a VoicePrompt, got {shown(request.voice)}; make one with encode_voice")
    if not isinstance(request.sampling, Sampling):
        raise InputError(f"sampling must be a Sampling, got {shown(request.sampling)}")
    check_dictionary(request.dictionary)
    check_choice("chunking", request.chunking, CHUNKING)
    for name in SWITCHES:
        if not isinstance(getattr(request, name), bool):
            raise InputError(f"{name} must be True or False, got {shown(getattr(request, name))}")
    if not isinstance(request.given, (frozenset, set, tuple, list)):
        raise InputError(f"given must be a set of names of settings, got {shown(request.given)}")
    if request.text_as_written is not None and not isinstance(request.text_as_written, bool):
        raise InputError(f"text_as_written must be True, False or None, got {shown(request.text_as_written)}")
    if request.text_as_written and request.normalise:
        raise InputError("text_as_written and normalise contradict each other: leave out one")
    given = [*NUMBERS, *(name for name in OPTIONAL_NUMBERS if getattr(request, name) is not None)]
    sampling = _numbers(request.sampling, SAMPLING_NUMBERS)
    sampling["codebook_steps"] = _codebook_steps(request.sampling.codebook_steps)
    request = replace(request, sampling=Sampling(**sampling), **_numbers(request, given))
    if request.exact_length and request.duration is None:
        raise InputError("exact_length needs a duration: give the seconds the speech must last")
    if request.exact_length and request.duration and round(request.duration * SAMPLE_RATE) < 1:
        raise InputError(f"duration must be at least one sample, 1/{SAMPLE_RATE} s, got {request.duration:g}")
    return request


def _numbers(source: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: check_number(name, getattr(source, name)) for name in names}


def _codebook_steps(steps: object) -> tuple[int, ...]:
    if not isinstance(steps, (tuple, list)):
        raise InputError(f"codebook_steps must be a number of steps for each codebook, got {shown(steps)}")
    return tuple(check_integer("steps", one, shown_as="each of codebook_steps") for one in steps)


def _instruct(design: VoiceDesign | str | None, text: str) -> str | None:
    if isinstance(design, str):
        design = parse_design(design)
    if design is None:
        return None
    if not isinstance(design, VoiceDesign):
        raise InputError(f"design must be a VoiceDesign or a string of attributes, got {type(design).__name__}")
    return render_design(design, text)


ONE_WORD = "one word without a voice is often spoken badly: write a longer text, or use a voice"


def _warnings(request: GenerationRequest, language: str | None, instruct: str | None, start: str) -> list[str]:
    """Return what the user should know about settings that are allowed but work against each other or the model.

    start: the first chunk; without a voice it sets the voice of the others.
    """
    warnings = []
    if request.voice is None and is_one_word(start):
        warnings.append(ONE_WORD)
    if instruct is not None and request.voice is None and language not in (None, "zh", "en"):
        warnings.append(
            f"the model knows described voices in zh and en only; in {language} expect noise: clone a voice instead"
        )
    if request.duration is not None and request.speed not in (None, 1):
        warnings.append(f"speed {request.speed:g} has no effect because a duration is given: leave out one of the two")
    if used := shortcuts_of(request.sampling):
        warnings.append(f"approximate: {used}; this is faster, but not exactly what the model would say")
    return warnings
