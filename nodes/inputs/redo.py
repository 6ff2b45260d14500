"""Turns the inputs of Redo into takes of a recording, and the takes into a choice and a report.

Words and spans are filled in between what is kept (`productions.edit`); whole lines are spoken in the voice of the
speaker's other lines (`productions.redo_speech`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import check_integer, check_text_length
from ...omnivoice.productions.edit import Edited, finish_edits, prepare_edit
from ...omnivoice.productions.edit_report import changed_lines
from ...omnivoice.productions.redo_places import RedoRequest
from ...omnivoice.productions.redo_speech import RedoneLines, parse_lines, redo_lines, redo_tools
from ...omnivoice.productions.timings import ESTIMATED, RECOGNISED, TimedLine, timings_json
from ...omnivoice.types import VoicePrompt, Waveform
from .. import host
from . import edit as edits
from .synthesize import request_from

COUNT = 3  # takes
PLACES = ("words", "span", "line")
FOR_LINES = ("seed", "language", "settings", "voice", "design")  # what a request for a whole line takes from the node
NOT_FOR_LINES = {"transcript": "", "quality": edits.QUALITY, "order": edits.ORDER}


@dataclass(frozen=True, eq=False)
class Redone:
    """takes: the recording with each take in it. number: of the one to use, from 1. rows: each take in a line or more
    of text. done: what was done in the one to use. timings: of it, as JSON."""

    takes: Sequence[Waveform]
    number: int
    seed: int
    rows: Sequence[str]
    done: Sequence[str]
    details: Sequence[str]
    timings: str
    warnings: tuple[str, ...]

    @property
    def chosen(self) -> Waveform:
        """The recording with the take to use."""
        return self.takes[self.number - 1]

    @property
    def summary(self) -> str:
        """What the node shows."""
        return "\n".join([self._first, *self.done])

    @property
    def report(self) -> str:
        """Each take with its seed and joints, and what was done in the one to use."""
        told = (f"warning: {warning}" for warning in self.warnings)
        return "\n".join([self._first, *self.rows, *self.done, *self.details, *told])

    @property
    def _first(self) -> str:
        return f"take {self.number} of {len(self.takes)}, seed {self.seed}"


def redone_from(model: object, inputs: Mapping[str, object], node_id: object) -> Redone:
    """Return the takes that the node's inputs describe; raises InputError, TextError or AudioError."""
    loaded = host.models.loaded(model)
    given = {name: value for name, value in inputs.items() if value is not None}
    count = check_integer("takes", given.get("takes", COUNT))
    number = check_integer("take", given.get("take", 0))
    if number > count:
        raise InputError(f"take must be 0 or one of the {count} takes, got {number}: set takes higher, or take lower")
    speak_again = _lines_again if _place(given) == "line" else _words_again
    return speak_again(loaded, given, count, max(number, 1), node_id)


def _place(given: Mapping[str, object]) -> str:
    """Return which input says what to speak again; raises InputError unless it is exactly one."""
    named = [name for name in PLACES if check_text_length(given.get(name, ""), name=name).strip()]
    if len(named) != 1:
        got = " and ".join(named) or "none of them"
        raise InputError(f"say what to speak again, in words, span or line, got {got}: fill in one of them")
    return named[0]


def _words_again(
    loaded: host.models.LoadedModel, given: Mapping[str, object], count: int, number: int, node_id: object
) -> Redone:
    for name in ("voice", "design"):
        if name in given:
            raise InputError(f"{name} is for whole lines: words take their voice from the recording, so disconnect it")
    request, warnings = edits.request_from(given)
    request = replace(request, again=given.get("words", ""), spans=edits.spans_from(given.get("span", "")))
    tools = host.edit.edit_tools(loaded, node_id)
    prepared = prepare_edit(loaded.engine, request, tools.encode)
    takes = finish_edits([prepared.with_seed((prepared.seed + take) % 2**64) for take in range(count)], tools)
    chosen = takes[number - 1]
    done, every = [*changed_lines(chosen)], edits.report(chosen, ()).splitlines()
    return Redone(
        takes=[take.waveform for take in takes],
        number=number,
        seed=chosen.seed,
        rows=[_row(n, take.seed, [joint.roughness for joint in take.joints]) for n, take in enumerate(takes, 1)],
        done=done,
        details=every[len(done) :],
        timings=_timings(given.get("timings"), chosen),
        warnings=(*warnings, *chosen.warnings),
    )


def _timings(timings: object, take: Edited) -> str:
    """Return the times of the lines. Speaking words again takes as long as before, so given ones stay as they are."""
    if timings:
        return str(timings)
    found, seconds = take.prepared.found, take.waveform.seconds
    how = RECOGNISED if take.prepared.request.word_times else ESTIMATED
    return timings_json([TimedLine(take.text, 0.0, seconds, None, found.times, how)], seconds)


def _lines_again(
    loaded: host.models.LoadedModel, given: Mapping[str, object], count: int, number: int, node_id: object
) -> Redone:
    for name, default in NOT_FOR_LINES.items():
        if given.get(name, default) != default:
            raise InputError(f"{name} is for words and spans: leave it at its default to speak a line again")
    lines = edits.lines_from(given.get("timings"))
    if not lines:
        raise InputError("line needs timings: connect those of the recording, such as Dialogue makes")
    recording, numbers = edits.recording_from(given.get("audio")), parse_lines(given["line"])
    base = request_from({"text": "", **{name: given[name] for name in FOR_LINES if name in given}})
    request = RedoRequest(recording, lines, numbers, base)
    tools = replace(
        redo_tools(loaded.engine), encode=partial(_voice, loaded), speak=host.speech.runner(loaded, node_id)
    )
    takes = redo_lines(tools, request, count)
    chosen = takes[number - 1]
    return Redone(
        takes=[take.waveform for take in takes],
        number=number,
        seed=chosen.seed,
        rows=[_row(n, take.seed, [j for one in take.replaced for j in one.joints]) for n, take in enumerate(takes, 1)],
        done=_done(chosen),
        details=[],
        timings=timings_json(chosen.lines, chosen.waveform.seconds),
        warnings=chosen.warnings,
    )


def _voice(loaded: host.models.LoadedModel, recording: Waveform, transcript: str) -> VoicePrompt:
    (voice,) = host.speech.encode_voices(loaded, [recording], [transcript])
    return voice


def _row(number: int, seed: int, joints: Sequence[float]) -> str:
    return f"  take {number:>2}  seed {seed}  joints {', '.join(f'{one:.2f}' for one in joints) or 'none'}"


def _done(take: RedoneLines) -> list[str]:
    """Return what was done to each line, and what is wrong with it."""
    rate, rows = take.waveform.sample_rate, []
    for piece, source, findings in zip(take.replaced, take.prepared.voices, take.findings):
        place, faults = piece.place, "; ".join(one.text for one in findings)
        was, now = (
            f"{place.start / rate:.2f}-{place.end / rate:.2f}",
            f"{piece.start / rate:.2f}-{piece.end / rate:.2f}",
        )
        rows.append(
            f"line {place.number} spoken again at {was} s, now {now} s, in {source}" + f"; {faults}" * bool(faults)
        )
    return rows
