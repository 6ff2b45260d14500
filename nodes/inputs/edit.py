"""Turns the inputs of Edit Speech into a request of the engine, and the edited recording into a report.

None means "not connected". Texts, spans and numbers are checked by the engine; this module checks what only nodes have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ...omnivoice.errors import AudioError, InputError
from ...omnivoice.generate.filling import CODEBOOKS, TOGETHER
from ...omnivoice.intake.limits import check_choice, check_text_length
from ...omnivoice.productions.edit import Edited, EditRequest, finish_edits, prepare_edit
from ...omnivoice.productions.edit_places import parse_spans
from ...omnivoice.productions.edit_report import edit_report
from ...omnivoice.productions.timings import RECOGNISED, TimedLine, parse_timings
from ...omnivoice.types import GenerationRequest, Waveform
from .. import host
from .synthesize import AUTO, DEFAULTS, SpeechSettings

QUALITIES = {"normal": False, "quick": True}
ORDERS = {"codebook by codebook": CODEBOOKS, "together": TOGETHER}
QUALITY, ORDER = next(iter(QUALITIES)), next(iter(ORDERS))
# what Settings has for whole speech only: an edit takes its voice, its pauses and its edges from the recording
NOT_FOR_EDITS = (
    "denoise",
    "post_process",
    "pad_seconds",
    "fade_seconds",
    "chunking",
    "chunk_seconds",
    "chunk_threshold_seconds",
    "normalise",
)
NOT_BY_CODEBOOK = ("steps", "layer_penalty", "unconditional_every", "prefix_every")
NOT_USED = "the times of the words in timings are estimates, so the words were looked for in the recording instead"


def edited_from(model: object, inputs: Mapping[str, object], node_id: object) -> tuple[Edited, tuple[str, ...]]:
    """Return the edited recording that the node's inputs describe, and warnings; raises InputError, TextError or
    AudioError."""
    loaded = host.models.loaded(model)
    given = {name: value for name, value in inputs.items() if value is not None}
    request, warnings = request_from(given)
    new_text = check_text_length(given.get("new_transcript", ""), name="new_transcript")
    if not new_text.strip():
        raise InputError("new_transcript is empty: write what the recording is to say")
    request = replace(request, new_text=new_text, spans=spans_from(given.get("span", "")), seconds=_seconds(given))
    tools = host.edit.edit_tools(loaded, node_id)
    (edited,) = finish_edits([prepare_edit(loaded.engine, request, tools.encode)], tools)
    return edited, (*warnings, *edited.warnings)


def request_from(given: Mapping[str, Any]) -> tuple[EditRequest, tuple[str, ...]]:
    """Return what Edit Speech and Redo have in common, with the transcript as both texts, and warnings."""
    recording = recording_from(given.get("audio"))
    lines = lines_from(given.get("timings"))
    text = transcript_from(given.get("transcript", ""), lines)
    order = ORDERS[check_choice("order", given.get("order", ORDER), ORDERS)]
    settings = _settings(given.get("settings", SpeechSettings({})), order)
    language = given.get("language", AUTO)
    recognised = bool(lines) and all(line.words_are == RECOGNISED for line in lines)
    request = EditRequest(
        recording=recording,
        old_text=text,
        new_text=text,
        word_times=tuple(word for line in lines for word in line.words) if recognised else (),
        language=None if language == AUTO else language,
        seed=given.get("seed", 0),
        order=order,
        quick=QUALITIES[check_choice("quality", given.get("quality", QUALITY), QUALITIES)],
        sampling=settings.sampling,
        text_as_written=settings.text_as_written,
        given=settings.given,
    )
    return request, () if recognised or not lines else (NOT_USED,)


def recording_from(audio: object) -> Waveform:
    """Return the one recording of an AUDIO, of any length, on the CPU; raises AudioError."""
    recordings = host.values.waveforms_from(audio, any_length=True)
    if len(recordings) > 1:
        raise AudioError(
            f"audio must be one recording, got a batch of {len(recordings)}: a transcript belongs to one recording, so "
            "give them one after another"
        )
    return Waveform(recordings[0].samples.to("cpu", torch.float32), recordings[0].sample_rate)


def lines_from(timings: object) -> list[TimedLine]:
    """Return the lines of a `timings` input; [] if it is not connected."""
    return [] if timings is None or timings == "" else parse_timings(timings)


def transcript_from(transcript: object, lines: list[TimedLine]) -> str:
    """Return the transcript, or that of the timings if it is blank."""
    text = check_text_length(transcript, name="transcript")
    if text.strip():
        return text
    if not lines:
        raise InputError("transcript is empty: write word for word what the recording says, or connect timings")
    return " ".join(line.text for line in lines)


def spans_from(text: object) -> tuple[tuple[float, float], ...]:
    """Return the (start, end) in seconds of "1.2-1.85, 3-4"; raises InputError."""
    return parse_spans(check_text_length(text, name="span"))


def validate_span(text: object) -> bool | str:
    """Return True, or why the span cannot be read. None is a linked value, which ComfyUI does not know yet."""
    return host.values.validate(spans_from, text)


def report(edited: Edited, warnings: tuple[str, ...]) -> str:
    """Return what was changed and kept, and what the user should know."""
    return "\n".join([edit_report(edited), *(f"warning: {warning}" for warning in warnings)])


def _seconds(given: Mapping[str, object]) -> Any:
    seconds = given.get("seconds", 0)
    return None if type(seconds) in (int, float) and seconds == 0 else seconds


def _settings(settings: object, order: str) -> GenerationRequest:
    """Return a request with the values of Settings; raises InputError for one that an edit could not use."""
    given = host.values.checked(SpeechSettings, settings, "settings", "OmniVoice Settings")
    request = given.apply(DEFAULTS)
    unused = [name for name in NOT_FOR_EDITS if getattr(request, name) != getattr(DEFAULTS, name)]
    why = "an edit takes it from the recording"
    if order == CODEBOOKS and not unused:
        own, default = request.sampling, DEFAULTS.sampling
        unused = [name for name in NOT_BY_CODEBOOK if getattr(own, name) != getattr(default, name)]
        why = f"it has no effect in the order {ORDER}"
    if unused:
        before = DEFAULTS if unused[0] in NOT_FOR_EDITS else DEFAULTS.sampling
        raise InputError(f"{unused[0]} in Settings is not for edits: {why}; leave it at {getattr(before, unused[0])}")
    return request
