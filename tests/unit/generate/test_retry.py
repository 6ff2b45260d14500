"""Out of memory: one more try with half as much at a time, the same tokens, progress that only grows, then an error."""

from __future__ import annotations

import functools
from itertools import pairwise

import pytest
import torch
from torch.cuda import OutOfMemoryError

from omnivoice import Engine, GenerationRequest, OmniVoiceError, Sampling, Speech, VoicePrompt
from omnivoice.errors import DeviceMemoryError
from omnivoice.generate.graphs import StepGraphs
from omnivoice.generate.sample import Sampler

STEPS = 3
TEXTS = ("One short text.", "Two, which is a little longer.", "Three.", "Four, the last one of them.")
LONG = "This is a sentence of some length. " * 3


@pytest.fixture(scope="module")
def engine(checkpoint) -> Engine:
    return Engine.load(checkpoint)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch):
    """Make the device small: batches of more than `rows` rows run out of memory after `steps` steps."""
    ran: list[tuple[int, int]] = []
    sample = Sampler.sample

    def shrink(rows: int, steps: int = 0, times: int = 10**6) -> list[tuple[int, int]]:
        failures = 0

        def limited(self, items, noises, sampling, on_step):  # type: ignore[no-untyped-def]
            nonlocal failures
            ran.append((len(items), self.rows(items, sampling)))
            if ran[-1][1] <= rows or failures >= times:
                return sample(self, items, noises, sampling, on_step)
            failures += 1
            for _ in range(steps):
                on_step(len(items))
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

        monkeypatch.setattr(Sampler, "sample", limited)
        return ran

    return shrink


def requests(*texts: str, **fields: object) -> list[GenerationRequest]:
    return [GenerationRequest(text, seed=i, sampling=Sampling(steps=STEPS), **fields) for i, text in enumerate(texts)]


def long_requests() -> list[GenerationRequest]:
    voice = VoicePrompt(torch.zeros(8, 50, dtype=torch.int64), "A voice.", 0.1)
    chunks = {"chunk_seconds": 3, "chunk_threshold_seconds": 3}
    return [*requests(LONG, voice=voice, **chunks), *requests(LONG, "Short.", **chunks)]


@pytest.fixture(scope="module")
def whole(engine: Engine):
    """Returns what the requests of `many` give where the memory is enough."""

    @functools.cache
    def run(many, shared: bool) -> list[Speech]:
        generator = torch.Generator().manual_seed(7) if shared else None
        return engine.generate_plans(engine.plan(many()), generator=generator, free_bytes=10**12)

    return run


@pytest.mark.parametrize("many", [lambda: requests(*TEXTS), long_requests])
@pytest.mark.parametrize("steps", [0, STEPS - 1])
@pytest.mark.parametrize("shared", [False, True])
def test_half_a_batch_gives_the_same_tokens(engine: Engine, small, whole, many, steps: int, shared: bool) -> None:
    plans = engine.plan(many())
    sizes = [batch.rows for batch in engine._runner(10**12).batches(plans)]
    expected = whole(many, shared)
    ran = small(max(sizes) - 1, steps)
    seen: list[tuple[int, int]] = []
    speeches = engine.generate_plans(
        plans,
        generator=torch.Generator().manual_seed(7) if shared else None,
        free_bytes=10**12,
        on_step=lambda *at: seen.append(at),
    )
    assert len(ran) > len(sizes), "nothing was tried again"
    for ours, theirs in zip(speeches, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours.codes, theirs.codes, strict=True))
    total = sum(len(plan.chunks) for plan in plans) * STEPS
    assert seen[-1] == (total, total)
    assert all(before[0] <= after[0] and after[0] > 0 for before, after in pairwise(seen))


def test_later_batches_of_the_run_are_small_from_the_start(engine: Engine, small) -> None:
    plans = engine.plan(long_requests())
    ran = small(0, times=1)
    engine.generate_plans(plans, free_bytes=10**12)
    (items, rows), *later = ran
    assert items > 1 and len(later) > 2
    assert all(count == 1 or size <= rows // 2 for count, size in later)


def test_a_batch_of_one_is_tried_again_without_graphs(engine: Engine, small, monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[str] = []
    monkeypatch.setattr(StepGraphs, "clear", lambda self, reason: cleared.append(reason))
    assert small(0, times=1) == []
    (speech,) = engine.generate(requests("Alone."))
    assert cleared == ["out of memory"] and speech.waveform.seconds > 0


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1]])
def test_the_second_time_it_is_an_error_with_advice(engine: Engine, small, texts: tuple[str, ...]) -> None:
    small(0)
    with pytest.raises(DeviceMemoryError) as told:
        engine.generate(requests(*texts))
    words = str(told.value)
    assert words.startswith("cpu is out of memory, even with half as much at a time: close other programs")
    assert "chunk_seconds" in words
    assert isinstance(told.value, OmniVoiceError) and isinstance(told.value, torch.cuda.OutOfMemoryError)


def test_decoding_that_runs_out_says_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(engine.codec.decoder, "decode", full)
    with pytest.raises(DeviceMemoryError, match=r'item 1 of 2 \("One short text."\): cpu is out of memory: close'):
        engine.generate(requests(*TEXTS[:2]))


@pytest.mark.parametrize("error", [RuntimeError("CUDA error"), MemoryError(), KeyboardInterrupt(), ValueError("x")])
def test_nothing_else_is_tried_again(engine: Engine, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    calls: list[int] = []

    def fail(*_: object) -> None:
        calls.append(1)
        raise error

    monkeypatch.setattr(Sampler, "sample", fail)
    with pytest.raises(type(error)) as told:
        engine.generate(requests(*TEXTS))
    assert told.value is error and len(calls) == 1


def test_the_class_is_torchs_on_every_version() -> None:
    assert getattr(torch, "OutOfMemoryError", OutOfMemoryError) is OutOfMemoryError
