"""Turns the inputs of Dialogue into a script and a cast, and the result into its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...omnivoice.constants import SAMPLE_RATE
from ...omnivoice.errors import TextError
from ...omnivoice.intake.limits import check_integer
from ...omnivoice.productions.cast import Cast
from ...omnivoice.productions.dialogue import Dialogue, DialogueOptions, speak_dialogue
from ...omnivoice.productions.lines import SpokenLine
from ...omnivoice.productions.redo import parse_redo
from ...omnivoice.productions.takes import SpeakWithRetries
from ...omnivoice.text.script import parse_script
from ...omnivoice.types import GenerationRequest, Speech
from .. import host
from .cast import cast_from
from .synthesize import request_from

DEFAULTS = DialogueOptions()
REQUEST = ("seed", "preset", "language", "settings", "dictionary")  # what a request takes from the node
OPTIONS = ("gap_seconds", "change_seconds", "equal_loudness")


def dialogue_from(model: object, inputs: Mapping[str, object], node_id: object) -> Dialogue:
    """Return the dialogue that the node's inputs describe, spoken; raises InputError or TextError."""
    loaded = host.models.loaded(model)
    given = {name: value for name, value in inputs.items() if value is not None}
    cast = Cast(cast_from(given.get("names"), given.get("voices")))
    if not cast.speakers:
        raise TextError("the cast is empty: write the names of the speakers into names, one on each line")
    script = parse_script(given.get("script"), cast.names, loaded.engine.rules)
    base = request_from({name: given[name] for name in REQUEST if name in given})
    options = DialogueOptions(**{name: given[name] for name in OPTIONS if name in given})
    redo = parse_redo(given.get("redo", ""))
    retries = check_integer("retries", given.get("retries", 0))
    retrying = SpeakWithRetries(host.speech.runner(loaded, node_id), retries)

    def speak(requests: Sequence[GenerationRequest], /) -> list[Speech]:
        return retrying(loaded.engine.plan(requests))

    return speak_dialogue(script, cast, base, loaded.engine.plan, speak, options, redo=redo, retries=retries)


def report(dialogue: Dialogue) -> str:
    """Return who said what and when, with seeds and warnings, as several lines of plain text."""
    speakers = dict.fromkeys(line.speaker for line in dialogue.lines)
    rows = [_row(line) for line in dialogue.lines]
    warnings = [f"warning: {warning}" for warning in dialogue.warnings]
    return "\n".join([f"{summary(dialogue)}, {len(speakers)} speakers", *rows, *dialogue.notes, *warnings])


def summary(dialogue: Dialogue) -> str:
    """Return one line for the node."""
    return f"{dialogue.waveform.seconds:.2f} s, {len(dialogue.lines)} lines"


def _row(line: SpokenLine) -> str:
    start, end = line.start / SAMPLE_RATE, line.end / SAMPLE_RATE
    return f"  line {line.number:>3}  {start:8.2f}-{end:.2f} s  seed {line.speech.seed}  {line.speaker}: {line.text}"


def audio_of(lines: Sequence[SpokenLine]) -> list[dict[str, object]]:
    """Return each line as AUDIO."""
    return [host.values.audio_from(line.speech.waveform) for line in lines]
