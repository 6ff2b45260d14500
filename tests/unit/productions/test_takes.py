"""Takes and retries: which seeds are spoken in which run, what is chosen, and what the warnings say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from omnivoice.constants import SAMPLE_RATE
from omnivoice.engine import Engine
from omnivoice.errors import InputError, NumericError
from omnivoice.generate.plan import make_plan
from omnivoice.productions.checks import Finding
from omnivoice.productions.lines import NoTakeError
from omnivoice.productions.redo import check_redo, parse_redo
from omnivoice.productions.takes import SpeakWithRetries, attempts, best, run_with_retries
from omnivoice.types import GenerationPlan, GenerationRequest, OnStep, Sampling, Speech, VoicePrompt, Waveform

Faults = dict[tuple[str, int], int]  # {(text, seed): number of faults}


class Fake:
    """Speaks plans, and finds as many faults as `faults` says. broken: (text, seed) that come out as NaN."""

    def __init__(self, faults: Faults | None = None, broken: Sequence[tuple[str, int]] = ()) -> None:
        self.faults, self.broken, self.runs = faults or {}, broken, list[list[tuple[str, int]]]()

    def speak(self, plans: Sequence[GenerationPlan], /) -> list[Speech]:
        self.runs.append([(plan.request.text, plan.seed) for plan in plans])
        assert all(plan.request.seed == plan.seed for plan in plans)
        if any(one in self.broken for one in self.runs[-1]):
            raise NumericError("it is NaN")
        voice = VoicePrompt(torch.zeros(8, 9, dtype=torch.long), "", 0.1)
        wave = Waveform(torch.zeros(1, 9), SAMPLE_RATE)
        return [Speech(wave, (), (), 1.0, plan.seed, voice, ("old",)) for plan in plans]

    def check(self, plans: Sequence[GenerationPlan], speeches: Sequence[Speech], /) -> list[tuple[Finding, ...]]:
        counts = [self.faults.get((plan.request.text, speech.seed), 0) for plan, speech in zip(plans, speeches)]
        return [tuple(Finding("click", f"fault {i}", 0.0) for i in range(1, count + 1)) for count in counts]

    def retrying(self, retries: int) -> SpeakWithRetries:
        return SpeakWithRetries(self.speak, retries, check=self.check)


def plans(*texts: str, seed: int = 5) -> list[GenerationPlan]:
    return [make_plan(GenerationRequest(text, seed=seed + 10 * i)) for i, text in enumerate(texts)]


def test_only_what_has_a_fault_is_spoken_again_in_one_batch() -> None:
    fake = Fake({("Two.", 15): 1, ("Three.", 25): 2, ("Three.", 26): 1})
    spoken = fake.retrying(3)(plans("One.", "Two.", "Three."))
    assert fake.runs == [[("One.", 5), ("Two.", 15), ("Three.", 25)], [("Two.", 16), ("Three.", 26)], [("Three.", 27)]]
    assert [one.seed for one in spoken] == [5, 16, 27]
    assert spoken[0].warnings == ("old",)
    assert spoken[1].warnings == ("old", "seed 15 was rejected: fault 1", "seed 16 is used")
    assert spoken[2].warnings == (
        "old",
        "seed 25 was rejected: fault 1; fault 2",
        "seed 26 was rejected: fault 1",
        "seed 27 is used",
    )


@pytest.mark.parametrize(
    ("counts", "chosen"), [((3, 1, 2), 6), ((2, 2, 2), 5), ((3, 3, 1), 7), ((1, 2, 3), 5)], ids=str
)
def test_the_one_with_the_fewest_faults_is_used_and_named(counts: tuple[int, ...], chosen: int) -> None:
    fake = Fake({("One.", 5 + i): count for i, count in enumerate(counts)})
    retrying = fake.retrying(2)
    (speech,) = retrying(plans("One."))
    assert speech.seed == chosen and len(fake.runs) == 3
    faults = "; ".join(f"fault {i}" for i in range(1, counts[chosen - 5] + 1))
    assert speech.warnings[-1] == f"no take is without a fault; seed {chosen} is used although {faults}"
    assert len(speech.warnings) == 4
    (report,) = retrying.reports
    assert report.startswith('("One."): seed ') and report.endswith(faults)


@pytest.mark.parametrize("retries", [0, 3])
def test_without_a_fault_nothing_changes(retries: int) -> None:
    fake = Fake({("One.", 5): 1} if not retries else {})
    retrying = fake.retrying(retries)
    (speech,) = retrying(plans("One."))
    assert (speech.seed, speech.warnings, len(fake.runs), retrying.reports) == (5, ("old",), 1, [])


def test_real_speech_without_a_fault_is_the_same_to_the_byte(checkpoint: Path) -> None:
    engine = Engine.load(checkpoint)
    requests = [GenerationRequest(text, seed=3, sampling=Sampling(steps=2)) for text in ("One two.", "Three four.")]
    plain = engine.generate(requests)
    retrying = SpeakWithRetries(engine.generate_plans, 2, check=lambda plans, _: [() for _ in plans])
    for one, other in zip(plain, retrying(engine.plan(requests))):
        assert torch.equal(one.waveform.samples, other.waveform.samples) and one.warnings == other.warnings


def test_a_retry_is_the_speech_of_its_seed(checkpoint: Path) -> None:
    engine = Engine.load(checkpoint)
    request = GenerationRequest("One two.", seed=2**64 - 1, sampling=Sampling(steps=2))
    (wanted,) = engine.generate([GenerationRequest("One two.", seed=0, sampling=Sampling(steps=2))])
    fault = (Finding("click", "a fault", 0.0),)
    retrying = SpeakWithRetries(
        engine.generate_plans, 1, check=lambda plans, _: [() if plan.seed == 0 else fault for plan in plans]
    )
    (speech,) = retrying(engine.plan([request]))
    assert speech.seed == 0 and torch.equal(speech.waveform.samples, wanted.waveform.samples)


def test_takes_that_are_retried_use_seeds_of_their_own() -> None:
    fake = Fake({("A.", 5): 1, ("A.", 6): 1, ("A.", 8): 1})
    takes = attempts(
        [make_plan(GenerationRequest("A.", seed=seed)) for seed in (5, 6, 7)], fake.speak, 2, step=3, check=fake.check
    )
    assert [[seed for _, seed in run] for run in fake.runs] == [[5, 6, 7], [8, 9], [11]]
    assert [[take.speech.seed for take in one] for one in takes] == [[5, 8, 11], [6, 9], [7]]
    assert [best(one) for one in takes] == [2, 1, 0]


@pytest.mark.parametrize("together", [True, False])
def test_a_take_that_is_not_finite_is_a_fault_of_that_take_only(together: bool) -> None:
    fake = Fake(broken=[("Two.", 15)])
    texts = ("One.", "Two.", "Three.") if together else ("Zero.", "Two.")
    spoken = fake.retrying(2)(plans(*texts))
    assert [one.seed for one in spoken] == ([5, 16, 25] if together else [5, 16])
    assert spoken[1].warnings == ("old", "seed 15 was rejected: it is NaN", "seed 16 is used")
    assert all(one.warnings == ("old",) for one in (spoken[0], *spoken[2:]))
    assert fake.runs[-1] == [("Two.", 16)]


def test_a_take_with_faults_is_used_before_one_that_is_not_finite() -> None:
    fake = Fake({("One.", 5): 3}, broken=[("One.", 6), ("One.", 7)])
    (speech,) = fake.retrying(2)(plans("One."))
    assert speech.seed == 5
    assert speech.warnings[1:3] == ("seed 6 was rejected: it is NaN", "seed 7 was rejected: it is NaN")
    assert speech.warnings[3].startswith("no take is without a fault; seed 5 is used although fault 1")


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_text_of_which_no_take_is_finite_is_named_with_every_reason(retries: int) -> None:
    fake = Fake(broken=[("Two.", 15 + i) for i in range(5)])
    with pytest.raises(NoTakeError) as caught:
        fake.retrying(retries)(plans("One.", "Two."))
    tried = "; ".join(f"seed {15 + i}: it is NaN" for i in range(retries + 1))
    assert str(caught.value) == f'("Two.") cannot be spoken: {tried}'
    assert caught.value.index == 1 and caught.value.plan is not None and caught.value.plan.request.text == "Two."


@pytest.mark.parametrize("retries", [0, 2])
def test_the_progress_of_a_run_with_retries_never_goes_back(retries: int) -> None:
    fake = Fake({("Two.", 15): 1, ("Two.", 16): 1} if retries else {}, broken=[("Two.", 15)] if retries else [])
    reported = list[tuple[int, int]]()

    def run(plans: Sequence[GenerationPlan], *, on_step: OnStep | None) -> list[Speech]:
        speeches = fake.speak(plans)
        assert on_step is not None
        for step in range(1, 32 * len(plans) + 1):
            on_step(step, 32 * len(plans))
        return speeches

    spoken = run_with_retries(run, retries)(
        plans("One.", "Two."), on_step=lambda done, total: reported.append((done, total))
    )
    assert len(spoken) == 2
    assert {total for _, total in reported} == {64} and reported == sorted(reported)


@pytest.mark.parametrize("retries", [-1, 17, True, 1.0, "2"])
def test_retries_out_of_range_are_refused(retries: object) -> None:
    with pytest.raises(InputError, match="retries must be"):
        SpeakWithRetries(Fake().speak, retries)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        (" \n", {}),
        ("3=99", {3: 99}),
        ("3=99, 7=5", {3: 99, 7: 5}),
        ("3 = 99;7=5\n8=0", {3: 99, 7: 5, 8: 0}),
        (f"1={2**64 - 1}", {1: 2**64 - 1}),
    ],
)
def test_redo_is_read(text: str, wanted: dict[int, int]) -> None:
    assert parse_redo(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", 'redo must be number=seed pairs such as "3=99, 7=5", got'),
        ("3=99, x", "redo must be number=seed pairs"),
        ("3=-1", "redo must be number=seed pairs"),
        ("3=1.5", "redo must be number=seed pairs"),
        ("3=1, 3=2", "redo names 3 twice"),
        (f"3={2**64}", "the seed of 3 in redo must be"),
        (None, "redo must be a text"),
    ],
)
def test_a_malformed_redo_is_refused(text: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_redo(text)


def test_redo_of_what_is_not_spoken_is_refused() -> None:
    check_redo({2: 9}, [1, 2, 5], "line")
    with pytest.raises(InputError, match="redo names line 3, which is not spoken: the lines are 1 to 5"):
        check_redo({3: 9}, [1, 2, 5], "line")
