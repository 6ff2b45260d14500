"""Takes: one text several times with seeds in a row, and speech with faults spoken again with other seeds.

Each round is one batch. A take with a fault is never used silently: the warnings of the speech say which seeds were
rejected and why, and what is wrong with the take that is used, if none is without a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..generate.items import first_words
from ..intake.limits import check_integer
from ..types import GenerationPlan, Speech
from .checks import Finding, check_speech
from .long import SpeakPlans

MAX_SHOWN = 6  # findings of one take
_SEEDS = 2**64


class CheckAll(Protocol):
    """Returns the findings of each result of a run; () for one without a fault."""

    def __call__(
        self, plans: Sequence[GenerationPlan], speeches: Sequence[Speech], /
    ) -> Sequence[Sequence[Finding]]: ...


@dataclass(frozen=True, eq=False)
class Take:
    """One attempt: the speech, with its seed, and what is wrong with it."""

    speech: Speech
    findings: tuple[Finding, ...]

    @property
    def faults(self) -> str:
        """All findings in one sentence; "no fault" if there are none."""
        more = len(self.findings) - MAX_SHOWN
        shown = [one.text for one in self.findings[:MAX_SHOWN]] + ([f"and {more} more"] if more > 0 else [])
        return "; ".join(shown) or "no fault"


def check_each(plans: Sequence[GenerationPlan], speeches: Sequence[Speech], /) -> list[tuple[Finding, ...]]:
    """Return the findings of `check_speech` for each result."""
    return [check_speech(plan, speech) for plan, speech in zip(plans, speeches)]


def with_seed(plan: GenerationPlan, seed: int) -> GenerationPlan:
    """Return a plan for the same text with another seed."""
    return replace(plan, seed=seed, request=replace(plan.request, seed=seed))


def attempts(
    plans: Sequence[GenerationPlan], speak: SpeakPlans, retries: int, *, step: int = 1, check: CheckAll = check_each
) -> list[list[Take]]:
    """Return the takes of each plan: the first, and up to `retries` others until one has no fault.

    step: what is added to the seed from one attempt to the next.
    """
    takes: list[list[Take]] = [[] for _ in plans]
    waiting = list(range(len(plans)))
    for attempt in range(check_integer("retries", retries) + 1):
        if not waiting:
            break
        seeds = [(plans[i].seed + attempt * step) % _SEEDS for i in waiting]
        batch = [with_seed(plans[i], seed) if attempt else plans[i] for i, seed in zip(waiting, seeds)]
        speeches = speak(batch)
        for i, speech, findings in zip(waiting, speeches, check(batch, speeches)):
            takes[i].append(Take(speech, tuple(findings)))
        waiting = [i for i in waiting if takes[i][-1].findings]
    return takes


def consecutive(plan: GenerationPlan, count: int) -> list[GenerationPlan]:
    """Return `count` plans for the same text: with the seed of `plan` and those after it."""
    return [with_seed(plan, (plan.seed + i) % _SEEDS) for i in range(count)]


def best(takes: Sequence[Take]) -> int:
    """Return the index of the first take without a finding, else of the first with the fewest."""
    return min(range(len(takes)), key=lambda index: len(takes[index].findings))


def used(takes: Sequence[Take]) -> Speech:
    """Return the speech of the best take, with a warning that names the rejected seeds, or its own faults."""
    take = takes[best(takes)]
    warnings = [f"seed {one.speech.seed} was rejected: {one.faults}" for one in takes if one is not take]
    if take.findings:
        warnings.append(f"no take is without a fault; seed {take.speech.seed} is used although {take.faults}")
    elif warnings:
        warnings.append(f"seed {take.speech.seed} is used")
    return replace(take.speech, warnings=(*take.speech.warnings, *warnings))


class SpeakWithRetries:
    """Speaks plans; a result with a fault is spoken again with the next seeds, up to `retries` times.

    retries: 0 changes and checks nothing. reports: what happened, with the first words of each text that had a fault.
    """

    def __init__(self, speak: SpeakPlans, retries: int, *, check: CheckAll = check_each) -> None:
        self._speak, self._check, self.reports = speak, check, list[str]()
        self._retries = check_integer("retries", retries)

    def __call__(self, plans: Sequence[GenerationPlan], /) -> list[Speech]:
        """Return the speech of each plan in order."""
        if not self._retries:
            return self._speak(plans)
        speeches = []
        for plan, takes in zip(plans, attempts(plans, self._speak, self._retries, check=self._check)):
            speeches.append(used(takes))
            news = speeches[-1].warnings[len(takes[best(takes)].speech.warnings) :]
            self.reports += [f"{first_words(plan.request.text)}: {'; '.join(news)}"] if news else []
        return speeches
