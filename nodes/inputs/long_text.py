"""Turns the inputs of Long Text into a request, and the result into its report."""

from __future__ import annotations

from collections.abc import Mapping

from ...omnivoice.constants import SAMPLE_RATE
from ...omnivoice.intake.limits import check_integer, shown_size
from ...omnivoice.productions.long_times import chapter_marks
from ...omnivoice.train.trainer import clock
from ...omnivoice.types import GenerationRequest
from .. import host
from .synthesize import request_from

NAME = "long_text"


def request_from_inputs(inputs: Mapping[str, object]) -> tuple[GenerationRequest, str, int]:
    """Return what to speak, the name of its folder, and how often a faulty part is retried; raises InputError."""
    given = {name: value for name, value in inputs.items() if value is not None}
    name = host.long_text.check_name(given.pop("name", NAME))
    retries = check_integer("retries", given.pop("retries", 0))
    return request_from(given), name, retries


def summary(spoken: host.long_text.SpokenText) -> str:
    """Return one line for the node."""
    seconds, old = spoken.waveform.seconds, sum(not part.is_new for part in spoken.made)
    return f"{clock(round(seconds))} of speech, {len(spoken.made)} parts, {old} of them from an earlier run"


def report(spoken: host.long_text.SpokenText) -> str:
    """Return the length, what came from an earlier run, where the parts are, chapters and warnings, as plain text."""
    lines = [f"{summary(spoken)}, seed {spoken.long.seed}", f"the parts are kept in {spoken.place}"]
    count, size = spoken.others
    if count:
        lines.append(
            f"{count} parts of another text, voice or setting are kept there too ({shown_size(size)}): to remove them, "
            "delete the folder; what is still needed is then made again"
        )
    chapters = [f"chapter {clock(at // SAMPLE_RATE)}  {title}" for at, title in chapter_marks(spoken.long, spoken.made)]
    warnings = [f"warning: {warning}" for warning in spoken.warnings]
    return "\n".join([*lines, *chapters, *spoken.long.notes, *warnings])
