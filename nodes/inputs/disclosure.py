"""Turns the inputs of Spoken AI Notice into a notice, and puts it to every recording of the audio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...omnivoice.productions.disclosure import (
    BEFORE,
    GAP_SECONDS,
    check_placement,
    notice_languages,
    notice_of,
    with_notice,
)
from ...omnivoice.productions.disclosure import PLACES as PLACES
from ...omnivoice.types import Speech, Waveform
from .. import host
from .synthesize import AUTO, request_from

PLACE, GAP = BEFORE, GAP_SECONDS  # the defaults


@dataclass(frozen=True, eq=False)
class Disclosed:
    """recordings: with the notice, all of one length. start: the second at which the given audio starts in them."""

    recordings: Sequence[Waveform]
    start: float
    notice: Speech
    text: str

    @property
    def summary(self) -> str:
        """What the node shows."""
        return f"{self.text} ({self.notice.seconds:.2f} s, seed {self.notice.seed})"


def languages() -> list[str]:
    """Return the names of the languages that have a sentence of their own."""
    return notice_languages()


def disclosed_from(model: object, audio: object, inputs: Mapping[str, object], node_id: object) -> Disclosed:
    """Return the audio with the notice that the inputs describe; raises InputError, TextError or AudioError."""
    loaded = host.models.loaded(model)
    given = {name: value for name, value in inputs.items() if value is not None}
    place, gap = check_placement(given.get("place", PLACE), given.get("gap_seconds", GAP))
    recordings = host.values.recordings_from([audio])
    text, language = notice_of(given.get("text", ""), given.get("language", AUTO))
    wanted = {name: given[name] for name in ("seed", "voice") if name in given}
    request = request_from({**wanted, "text": text, "language": language})
    (notice,) = host.speech.speak(loaded, {"": request}, node_id).values()
    done = [with_notice(recording, notice.waveform, place, gap) for recording in recordings]
    return Disclosed([one for one, _ in done], done[0][1], notice, text)
