"""Turns the inputs of Takes into plans, and the takes into a choice and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...omnivoice.errors import InputError
from ...omnivoice.generate.plan import limited
from ...omnivoice.intake.limits import check_integer
from ...omnivoice.productions.coverage import checks_with
from ...omnivoice.productions.takes import CheckAll, Take, attempts, best, check_each, consecutive
from ...omnivoice.types import Waveform
from .. import host
from .synthesize import request_from

OFF = "off"
COUNT = 4  # takes
# what a request takes from the node
REQUEST = ("text", "seed", "preset", "language", "voice", "design", "settings", "dictionary")


@dataclass(frozen=True, eq=False)
class Takes:
    """takes: the attempts at each take. number: of the one to use, from 1. by_hand: the user chose it."""

    takes: Sequence[Sequence[Take]]
    number: int
    by_hand: bool

    @property
    def shown(self) -> list[Take]:
        """The best attempt at each take."""
        return [own[best(own)] for own in self.takes]

    @property
    def chosen(self) -> Take:
        """The take to use."""
        return self.shown[self.number - 1]

    @property
    def summary(self) -> str:
        """One line for the node."""
        speech = self.chosen.speech
        return f"take {self.number} of {len(self.takes)}, seed {speech.seed}, {speech.seconds:.2f} s"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of the take to use, and what is wrong with it."""
        if not self.chosen.findings:
            return self.chosen.speech.warnings
        why = "" if self.by_hand else "no take is without a fault; "
        return (*self.chosen.speech.warnings, f"{why}take {self.number} is used although {self.chosen.faults}")

    @property
    def report(self) -> str:
        """Each take with its seed, length and faults, and the attempts that were rejected."""
        lines = [self.summary]
        for number, (own, take) in enumerate(zip(self.takes, self.shown), 1):
            lines.append(f"  take {number:>2}  seed {take.speech.seed}  {take.speech.seconds:.2f} s  {take.faults}")
            lines += [f"           seed {one.seed} was rejected: {one.faults}" for one in own if one is not take]
        return "\n".join([*lines, *self.chosen.speech.notes, *(f"warning: {warning}" for warning in self.warnings)])


def whisper_names() -> list[str]:
    """Return the menu: off, and the Whisper models found."""
    return [OFF, *host.transcribe.model_folders()]


def check_whisper(name: object) -> None:
    """Raise InputError for a Whisper model that is not there."""
    if name != OFF:
        host.transcribe.model_folder(name)


def takes_from(model: object, inputs: Mapping[str, object], node_id: object) -> Takes:
    """Return the takes that the node's inputs describe, spoken and checked; raises InputError or TextError."""
    loaded = host.models.loaded(model)
    given = {name: value for name, value in inputs.items() if value is not None}
    count = check_integer("takes", given.get("takes", COUNT))
    number = check_integer("take", given.get("take", 0))
    if number > count:
        raise InputError(f"take must be 0 or one of the {count} takes, got {number}: set takes higher, or take lower")
    (plan,) = loaded.engine.plan([request_from({name: given[name] for name in REQUEST if name in given})])
    check = _checks(given.get("whisper", OFF), given.get("language"))
    retries = check_integer("retries", given.get("retries", 0))
    speak = host.speech.runner(loaded, node_id)
    takes = attempts([*limited(consecutive(plan, count), retries=retries)], speak, retries, step=count, check=check)
    shown = [own[best(own)] for own in takes]
    return Takes(takes, number or best(shown) + 1, by_hand=number > 0)


def _checks(whisper: object, language: object) -> CheckAll:
    """Return the checks of each take: of its sound, and of its words if a Whisper model is chosen."""
    check_whisper(whisper)
    if whisper == OFF:
        return check_each

    def transcribe(recordings: Sequence[Waveform], /) -> list[str]:
        return host.transcribe.texts_of(recordings, whisper, language)

    return checks_with(transcribe)
