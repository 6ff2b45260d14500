"""Takes: one text several times with seeds in a row, and speech with faults spoken again with other seeds.

Each round is one batch. A take with a fault is never used silently: the warnings of the speech say which seeds were
rejected and why, and what is wrong with the take that is used, if none is without a fault. A take that comes out as NaN
or Inf has that fault; only where every take of a text does, the run ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import NumericError
from ..generate.items import first_words
from ..generate.plan import check_work
from ..intake.limits import check_integer
from ..types import GenerationPlan, OnStep, Speech
from .checks import Finding, check_speech
from .lines import NoTakeError, RunPlans
from .long import SpeakPlans

NUMERIC = "not finite"  # the kind of the fault
MAX_SHOWN = 6  # findings of one take
_SEEDS = 2**64


class CheckAll(Protocol):
    """Returns the findings of each result of a run; () for one without a fault."""

    def __call__(
        self, plans: Sequence[GenerationPlan], speeches: Sequence[Speech], /
    ) -> Sequence[Sequence[Finding]]: ...


@dataclass(frozen=True, eq=False)
class Take:
    """One attempt, and what is wrong with it. made: its speech, None if it came out as NaN or Inf."""

    seed: int
    made: Speech | None
    findings: tuple[Finding, ...]

    @property
    def speech(self) -> Speech:
        """The speech of a take that `best` chooses."""
        assert self.made is not None, "attempts refuses a text without any speech"
        return self.made

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

    step: what is added to the seed from one attempt to the next. Raises NoTakeError if no take of a plan has speech,
    TextError for more work than one run may take, with all retries (`check_work`), before anything runs.
    """
    check_work(plans, retries=check_integer("retries", retries))
    takes: list[list[Take]] = [[] for _ in plans]
    waiting = list(range(len(plans)))
    for attempt in range(retries + 1):
        if not waiting:
            break
        seeds = [(plans[i].seed + attempt * step) % _SEEDS for i in waiting]
        batch = [with_seed(plans[i], seed) if attempt else plans[i] for i, seed in zip(waiting, seeds)]
        for i, take in zip(waiting, _checked(batch, speak, check)):
            takes[i].append(take)
        waiting = [i for i in waiting if takes[i][-1].findings]
    for i, own in enumerate(takes):
        if all(take.made is None for take in own):
            tried = "; ".join(f"seed {take.seed}: {take.faults}" for take in own)
            raise NoTakeError(f"{first_words(plans[i].request.text)} cannot be spoken: {tried}", i, plans[i])
    return takes


def _checked(plans: Sequence[GenerationPlan], speak: SpeakPlans, check: CheckAll) -> list[Take]:
    """Return one take of each plan. If the run comes out as NaN or Inf, each plan runs alone, so that only the faulty
    ones have no speech."""
    try:
        speeches: list[Speech | None] = [*speak(plans)]
        faults = dict[int, Finding]()
    except NumericError:
        speeches, faults = _one_by_one(plans, speak)
    there = [i for i, speech in enumerate(speeches) if speech is not None]
    found = check([plans[i] for i in there], [one for one in speeches if one is not None])
    findings = {i: tuple(own) for i, own in zip(there, found)} | {i: (fault,) for i, fault in faults.items()}
    return [Take(plan.seed, speech, findings[i]) for i, (plan, speech) in enumerate(zip(plans, speeches))]


def _one_by_one(plans: Sequence[GenerationPlan], speak: SpeakPlans) -> tuple[list[Speech | None], dict[int, Finding]]:
    """Return the speech of each plan, and the fault of those that have none: {index: fault}."""
    speeches, faults = list[Speech | None](), dict[int, Finding]()
    for index, plan in enumerate(plans):
        try:
            speeches += speak([plan])
        except NumericError as error:
            speeches.append(None)
            faults[index] = Finding(NUMERIC, str(error), 0.0)
    return speeches, faults


def consecutive(plan: GenerationPlan, count: int) -> list[GenerationPlan]:
    """Return `count` plans for the same text: with the seed of `plan` and those after it."""
    return [with_seed(plan, (plan.seed + i) % _SEEDS) for i in range(count)]


def best(takes: Sequence[Take]) -> int:
    """Return the index of the first take without a finding, else of the first with the fewest that has speech."""
    return min(range(len(takes)), key=lambda index: (takes[index].made is None, len(takes[index].findings)))


def used(takes: Sequence[Take]) -> Speech:
    """Return the speech of the best take, with a warning that names the rejected seeds, or its own faults."""
    take = takes[best(takes)]
    warnings = [f"seed {one.seed} was rejected: {one.faults}" for one in takes if one is not take]
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
        self.retries = check_integer("retries", retries)

    def __call__(self, plans: Sequence[GenerationPlan], /) -> list[Speech]:
        """Return the speech of each plan in order; raises NoTakeError for a text that no take can speak."""
        if not self.retries:
            return [own[0].speech for own in attempts(plans, self._speak, 0, check=_check_nothing)]
        speeches = []
        for plan, takes in zip(plans, attempts(plans, self._speak, self.retries, check=self._check)):
            speeches.append(used(takes))
            news = speeches[-1].warnings[len(takes[best(takes)].speech.warnings) :]
            self.reports += [f"{first_words(plan.request.text)}: {'; '.join(news)}"] if news else []
        return speeches


def run_with_retries(run: RunPlans, retries: int) -> RunPlans:
    """Return a function that runs plans and speaks what has a fault again, up to `retries` times.

    Progress covers the first takes; while others are made it stands at the end of the run.
    """
    check_integer("retries", retries)

    def run_retrying(plans: Sequence[GenerationPlan], *, on_step: OnStep | None) -> list[Speech]:
        most = 0

        def forward(done: int, total: int) -> None:
            nonlocal most
            most = max(most, done)
            assert on_step is not None
            on_step(most, all_steps)

        all_steps = sum(len(plan.chunks) * plan.request.sampling.steps for plan in plans)

        def speak(batch: Sequence[GenerationPlan], /) -> list[Speech]:
            return run(batch, on_step=None if on_step is None else forward)

        return SpeakWithRetries(speak, retries)(plans)

    return run_retrying


def _check_nothing(plans: Sequence[GenerationPlan], speeches: Sequence[Speech], /) -> list[tuple[Finding, ...]]:
    return [() for _ in plans]
