"""Turns the inputs of Redo into takes of a recording, and the takes into a choice and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...omnivoice.errors import InputError
from ...omnivoice.intake.limits import check_integer, check_text_length
from ...omnivoice.productions.edit import Edited, finish_edits, prepare_edit
from ...omnivoice.productions.edit_report import changed_lines
from ...omnivoice.productions.timings import ESTIMATED, RECOGNISED, TimedLine, timings_json
from .. import host
from . import edit as edits

COUNT = 3  # takes
PLACES = ("words", "span")


@dataclass(frozen=True, eq=False)
class Redone:
    """takes: the recording with each take in it. number: of the one to use, from 1. timings: of the recording, as
    JSON."""

    takes: Sequence[Edited]
    number: int
    timings: str
    warnings: tuple[str, ...]

    @property
    def chosen(self) -> Edited:
        """The take to use."""
        return self.takes[self.number - 1]

    @property
    def summary(self) -> str:
        """What the node shows."""
        first = f"take {self.number} of {len(self.takes)}, seed {self.chosen.seed}"
        return "\n".join([first, *changed_lines(self.chosen)])

    @property
    def report(self) -> str:
        """Each take with its seed and joints, and what was done in the one to use."""
        lines = [f"take {self.number} of {len(self.takes)}, seed {self.chosen.seed}"]
        for number, take in enumerate(self.takes, 1):
            joints = ", ".join(f"{joint.roughness:.2f}" for joint in take.joints) or "none"
            lines.append(f"  take {number:>2}  seed {take.seed}  joints {joints}")
        return "\n".join([*lines, edits.report(self.chosen, self.warnings)])


def redone_from(model: object, inputs: Mapping[str, object], node_id: object) -> Redone:
    """Return the takes that the node's inputs describe; raises InputError, TextError or AudioError."""
    loaded = host.models.loaded(model)
    given = {name: value for name, value in inputs.items() if value is not None}
    count = check_integer("takes", given.get("takes", COUNT))
    number = check_integer("take", given.get("take", 0))
    if number > count:
        raise InputError(f"take must be 0 or one of the {count} takes, got {number}: set takes higher, or take lower")
    place = _place(given)
    request, warnings = edits.request_from(given)
    if place == "words":
        request = replace(request, again=given["words"])
    else:
        request = replace(request, spans=edits.spans_from(given["span"]))
    tools = host.edit.edit_tools(loaded, node_id)
    prepared = prepare_edit(loaded.engine, request, tools.encode)
    takes = finish_edits([prepared.with_seed((prepared.seed + take) % 2**64) for take in range(count)], tools)
    return Redone(takes, max(number, 1), _timings(given.get("timings"), takes[0]), (*warnings, *takes[0].warnings))


def _place(given: Mapping[str, object]) -> str:
    """Return which input says what to speak again; raises InputError unless it is exactly one."""
    named = [name for name in PLACES if check_text_length(given.get(name, ""), name=name).strip()]
    if len(named) != 1:
        got = "both" if named else "neither"
        raise InputError(f"say what to speak again, in words or in span, got {got}: fill in one of the two")
    return named[0]


def _timings(timings: object, take: Edited) -> str:
    """Return the times of the lines. Speaking words again takes as long as before, so given ones stay as they are."""
    if timings:
        return str(timings)
    found, seconds = take.prepared.found, take.waveform.seconds
    how = RECOGNISED if take.prepared.request.word_times else ESTIMATED
    return timings_json([TimedLine(take.text, 0.0, seconds, None, found.times, how)], seconds)
