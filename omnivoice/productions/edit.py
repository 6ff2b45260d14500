"""Edits speech: words of a recording are changed, inserted, deleted or spoken again, and the rest keeps its samples.

The words to change are those in which the two transcripts differ (`text.differences`). They are looked for in the
recording (`edit_places`), opened in its codes, and filled by the model, which sees the sentence around them and the new
text of that sentence (`edit_windows`, `generate.filling`). A deletion cuts the codes and fills nothing. The new sound
is decoded with some of what is around it and spliced into the recording (`audio.splice`). All windows of all requests
are filled in one run.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..audio.patches import Patch
from ..audio.splice import Joint, Kept, splice
from ..config import CodecConfig
from ..constants import HOP
from ..engine import Engine
from ..errors import InputError
from ..generate.filling import CODEBOOKS, filling_plan, in_order
from ..intake.limits import check_integer, check_number, check_switch, check_text_length, shown
from ..types import GenerationPlan, GenerationRequest, Sampling, Waveform
from .edit_places import FoundWords, Span, found_words
from .edit_sound import Encode, Sound, sound_of
from .edit_windows import Range, Window, new_range, window_frames, windows
from .takes import with_seed
from .timings import TimedWord

CONTEXT_SECONDS = 3.0
AROUND = 12  # frames of the recording that are decoded on either side of the new ones
LONGEST_THRESHOLD = 120.0  # seconds; the text of a window is never cut into chunks
Fill = Callable[[Sequence[GenerationPlan], Sequence[Tensor]], list[Tensor]]
Decode = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class EditRequest:
    """A recording, what it says, and what it is to say.

    recording: [C, N] of any rate. old_text: its transcript. new_text: the same with some words changed. spans:
    (start, end) in seconds of the words to open, one for each change, in order; () = they are looked for. With
    equal texts, the spans are spoken again, or else the words `again`, as they stand in the transcript. word_times:
    of the words of the transcript, from a recogniser; () = they are estimated. seconds: the length of the new
    words, if there is one change; None = at the pace of the recording. codes: of the recording, [K, T] int64, if
    they are known, such as those of speech that the model itself made; None = encoded. order: of the codebooks, see
    `generate.filling`. quick: half as many steps. context_seconds: the least sound that the model is shown, as far
    as the recording has it. The others are as in `GenerationRequest`.
    """

    recording: Waveform
    old_text: str
    new_text: str
    spans: tuple[tuple[float, float], ...] = ()
    again: str = ""
    word_times: tuple[TimedWord, ...] = ()
    seconds: float | None = None
    codes: Tensor | None = None
    language: str | None = None
    seed: int | None = None
    order: str = CODEBOOKS
    quick: bool = False
    context_seconds: float | None = None
    sampling: Sampling = field(default_factory=Sampling)
    text_as_written: bool | None = None
    given: frozenset[str] = frozenset()


@dataclass(frozen=True)
class EditTools:
    """What runs the models. encode: samples [1, N] at 24 kHz -> codes [K, T]. fill: as `Engine.fill`. decode: codes ->
    samples [1, N] at 24 kHz."""

    encode: Encode
    fill: Fill
    decode: Decode


def edit_tools(engine: Engine) -> EditTools:
    """Return the tools of an engine."""
    return EditTools(engine.codec.encode, engine.fill, engine.codec.decode)


@dataclass(frozen=True, eq=False)
class Part:
    """A window of a recording. first: its first frame. spans: numbers of the changes in it. codes: [K, T] of its
    frames with the mask in those to fill. before, after: codes [K, n] of what is around it. plan: None if nothing is
    filled."""

    first: int
    spans: tuple[int, ...]
    codes: Tensor
    before: Tensor
    after: Tensor
    plan: GenerationPlan | None


@dataclass(frozen=True, eq=False)
class PreparedEdit:
    """A request whose words have been found, ready for the model."""

    request: EditRequest
    sound: Sound
    found: FoundWords
    parts: tuple[Part, ...]
    seed: int
    warnings: tuple[str, ...]

    def with_seed(self, seed: int) -> PreparedEdit:
        """Return the same edit for another take."""
        parts = [
            part if part.plan is None else replace(part, plan=with_seed(part.plan, (seed + number) % 2**64))
            for number, part in enumerate(self.parts)
        ]
        return replace(self, parts=tuple(parts), seed=seed)


@dataclass(frozen=True, eq=False)
class Edited:
    """An edited recording, at the rate and with the channels of the original.

    joints: how rough each place is at which old and new sound meet. kept: which samples are those of the recording.
    spans: what was changed. prepared: the edit that this is a take of, with the times of the words.
    """

    waveform: Waveform
    text: str
    seed: int
    spans: tuple[Span, ...]
    joints: tuple[Joint, ...]
    kept: tuple[Kept, ...]
    prepared: PreparedEdit
    warnings: tuple[str, ...]


def edit_speech(engine: Engine, requests: Sequence[EditRequest], tools: EditTools | None = None) -> list[Edited]:
    """Return each edited recording, in order. All opened frames are filled in one run.

    tools: what runs the models, if a host moves their weights. Raises InputError, TextError or AudioError for a request
    that cannot be carried out, before any model runs the language model.
    """
    tools = tools or edit_tools(engine)
    return finish_edits([prepare_edit(engine, request, tools.encode) for request in requests], tools)


def finish_edits(prepared: Sequence[PreparedEdit], tools: EditTools) -> list[Edited]:
    """Fill the opened frames of all prepared edits in one run, and splice them."""
    jobs = [(part.plan, part.codes) for edit in prepared for part in edit.parts if part.plan is not None]
    filled = iter(tools.fill([plan for plan, _ in jobs], [codes for _, codes in jobs]) if jobs else ())
    return [
        _finished(edit, [part.codes if part.plan is None else next(filled) for part in edit.parts], tools.decode)
        for edit in prepared
    ]


def _finished(edit: PreparedEdit, filled: Sequence[Tensor], decode: Decode) -> Edited:
    patches = [patch for part, codes in zip(edit.parts, filled) for patch in _patches(edit, part, codes, decode)]
    spliced = splice(edit.request.recording, patches, gain=edit.sound.gain, mix=edit.sound.mix)
    return Edited(
        waveform=spliced.waveform,
        text=edit.request.new_text,
        seed=edit.seed,
        spans=edit.found.spans,
        joints=spliced.joints,
        kept=spliced.kept,
        prepared=edit,
        warnings=edit.warnings,
    )


def _patches(edit: PreparedEdit, part: Part, codes: Tensor, decode: Decode) -> list[Patch]:
    """Decode a window with what is around it, and return its new frames with up to `AROUND` kept ones on each side."""
    samples = decode(torch.cat((part.before, codes, part.after), dim=1))
    left, total = part.before.shape[1], part.before.shape[1] + codes.shape[1] + part.after.shape[1]
    spans = [edit.found.spans[number] for number in part.spans]
    found, added = [], 0
    for number, span in enumerate(spans):
        start = left + span.start - part.first + added
        end = start + span.frames
        added += span.frames - (span.end - span.start)
        first = (
            max(0, start - AROUND) if number == 0 else max(start - AROUND, start - (span.start - spans[number - 1].end))
        )
        last = min(total, end + AROUND)
        if number + 1 < len(spans):
            last = min(last, end + spans[number + 1].start - span.end)
        decoded = samples[:, first * HOP : last * HOP]
        found.append(Patch(span.start, span.end, span.frames, decoded, before=start - first, after=last - end))
    return found


def prepare_edit(engine: Engine, request: EditRequest, encode: Encode) -> PreparedEdit:
    """Check a request, find its words, encode what is around them, and plan the run.

    Raises InputError, TextError or AudioError, which say what to do.
    """
    sound = sound_of(request.recording)
    _check(request, sound, engine)
    found = found_words(
        sound,
        request.old_text,
        request.new_text,
        engine.rules,
        spans=request.spans,
        again=request.again,
        word_times=request.word_times,
        seconds=request.seconds,
    )
    context = request.context_seconds
    if context is None:  # a model with a small vocabulary speaks single sentences
        context = 0.0 if engine.words else CONTEXT_SECONDS
    seed = secrets.randbelow(2**32) if request.seed is None else check_integer("seed", request.seed)
    parts, warnings = [], list[str]()
    shown_parts = windows(found.old, found.times, [span.old for span in found.spans], context_seconds=context)
    ranges = window_frames(shown_parts, found.times, [(span.start, span.end) for span in found.spans], sound)
    for number, (window, frames) in enumerate(zip(shown_parts, ranges)):
        part, told = _part(engine, replace(request, seed=(seed + number) % 2**64), sound, found, window, frames, encode)
        parts.append(part)
        warnings += told
    told = tuple(dict.fromkeys((*sound.warnings, *found.warnings, *warnings)))
    return PreparedEdit(request, sound, found, tuple(parts), seed, told)


def _check(request: EditRequest, sound: Sound, engine: Engine) -> None:
    """Raise InputError or TextError for a value of the wrong type or out of range, apart from the words."""
    for name, text in (("the transcript", request.old_text), ("the new text", request.new_text)):
        check_text_length(text, name=name)
    check_switch("quick", request.quick)
    in_order(request.sampling, request.order, engine.lm.config.codebooks)
    if request.context_seconds is not None:
        check_number("context_seconds", request.context_seconds)
    if request.codes is not None:
        check_codes(request.codes, sound.frames, engine.codec.config)


def check_codes(codes: object, frames: int, config: CodecConfig) -> None:
    """Raise InputError for anything but the codes [K, T] of a recording of `frames` frames."""
    K = config.codebooks
    shape = (K, frames)
    if not isinstance(codes, Tensor) or tuple(codes.shape) != shape or codes.dtype not in (torch.int32, torch.int64):
        raise InputError(f"codes must be [{K}, {frames}] integers for this recording, got {_shape(codes)}")
    if not 0 <= int(codes.min()) <= int(codes.max()) < config.codebook_size:
        raise InputError(f"codes must be 0-{config.codebook_size - 1}, got up to {int(codes.max())}")


def _shape(codes: object) -> str:
    return f"{list(codes.shape)} {codes.dtype}" if isinstance(codes, Tensor) else shown(codes)


def _part(
    engine: Engine, request: EditRequest, sound: Sound, found: FoundWords, window: Window, frames: Range, encode: Encode
) -> tuple[Part, tuple[str, ...]]:
    """Encode a window of these frames and plan what is filled in it; return it with warnings about its text."""
    spans = [found.spans[number] for number in window.changes]
    first, end = frames
    start, stop = max(0, first - AROUND), min(sound.frames, end + AROUND)
    codes = sound.codes(start, stop, encode) if request.codes is None else request.codes[:, start:stop]
    mask, pieces, at = engine.lm.config.audio_mask_id, list[Tensor](), first
    for span in spans:
        pieces += [codes[:, at - start : span.start - start], codes.new_full((len(codes), span.frames), mask)]
        at = span.end
    shown = torch.cat((*pieces, codes[:, at - start : end - start]), dim=1)
    plan, warnings = None, tuple[str, ...]()
    if any(span.frames for span in spans):
        text = found.new.part(new_range(window.words, [(span.old, span.new) for span in found.spans]))
        sampling = in_order(request.sampling, request.order, len(codes), quick=request.quick)
        (whole,) = engine.plan(
            [
                GenerationRequest(
                    text=text,
                    language=request.language,
                    seed=request.seed,
                    sampling=sampling,
                    chunk_threshold_seconds=LONGEST_THRESHOLD,
                    text_as_written=request.text_as_written,
                    given=request.given,
                )
            ]
        )
        plan, warnings = filling_plan(whole, shown.shape[1]), whole.warnings
    return Part(first, window.changes, shown, codes[:, : first - start], codes[:, end - start :], plan), warnings
