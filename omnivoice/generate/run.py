"""Plans to codes: which chunks run together, in which order, with which noise.

Whatever waits for nothing may run together: short texts, chunks of long ones whose voice is given, first chunks; then
the chunks that follow a first one, whose voice it becomes. Upstream takes the first chunks of all long texts, then the
second, and so on (models/omnivoice.py:680-720, 900-1010); that order shows only in the noise that one shared generator
gives, which is therefore drawn in it beforehand. With a generator per request, noise is drawn when a batch begins.
Batches are of bounded size (`budget`); neither the order nor the split changes a token. `batches` tells the split
without running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..text.prompt import build_prompt
from ..text.tokenizer import TextTokenizer
from ..types import GenerationPlan, OnStep, Sampling
from .budget import MOST_ROWS
from .estimate import BatchSize
from .noise import ItemNoise, seeded_generator
from .pack import Item
from .sample import Sampler, item_noise

Job = tuple[int, int]  # (plan, chunk)


@dataclass(frozen=True, eq=False)
class Runner:
    """What a run needs. rows_per_batch bounds how much is packed together; an item larger than that runs alone."""

    sampler: Sampler
    tokenizer: TextTokenizer
    rows_per_batch: int = MOST_ROWS

    def run(
        self, plans: Sequence[GenerationPlan], generator: torch.Generator | None, on_step: OnStep | None
    ) -> list[list[Tensor]]:
        """Codes [K, T] of every chunk of every plan. Without `generator`, each plan has one from its seed."""
        noise = self._own_noise(plans) if generator is None else self._shared_noise(plans, generator)
        codes: list[list[Tensor]] = [[] for _ in plans]
        progress = _Progress(on_step, self._steps(plans))
        for sampling, jobs in waves(plans):
            items = [self._item(plans[p], c, codes[p][:1]) for p, c in jobs]
            for batch in self._batches(items, sampling):
                noises = [noise(jobs[i]) for i in batch]
                results = self.sampler.sample([items[i] for i in batch], noises, sampling, progress.advance)
                for i, result in zip(batch, results):
                    codes[jobs[i][0]].append(result)
        return codes

    def batches(self, plans: Sequence[GenerationPlan]) -> Iterator[BatchSize]:
        """What `run` will pack together, in its order. Nothing is run: all that counts of codes is their number."""
        first = [torch.zeros(1, 1, dtype=torch.int64).expand(1, plan.chunks[0].frames) for plan in plans]
        for sampling, jobs in waves(plans):
            items = [self._item(plans[p], c, [first[p]]) for p, c in jobs]
            for batch in self._batches(items, sampling):
                frames = tuple(items[i].frames for i in batch)
                prefix = sum(items[i].length for i in batch) - sum(frames)
                yield BatchSize(prefix, frames, sampling, self._guided(sampling))

    def _own_noise(self, plans: Sequence[GenerationPlan]) -> Callable[[Job], ItemNoise]:
        """Draws a job's noise when asked; a plan's jobs come in order."""
        generators = [seeded_generator(plan.seed) for plan in plans]
        return lambda job: self._noise(plans, [job], generators[job[0]])[0]

    def _shared_noise(self, plans: Sequence[GenerationPlan], generator: torch.Generator) -> Callable[[Job], ItemNoise]:
        """Everything is drawn now, round by round as upstream does, since it runs in another order."""
        return {
            job: noise for _, jobs in rounds(plans) for job, noise in zip(jobs, self._noise(plans, jobs, generator))
        }.__getitem__

    def _noise(
        self, plans: Sequence[GenerationPlan], jobs: Sequence[Job], generator: torch.Generator
    ) -> list[ItemNoise]:
        items = [Item((), None, plans[p].chunks[c].frames) for p, c in jobs]
        sampling = plans[jobs[0][0]].request.sampling
        return item_noise(self.sampler.lm.config, items, [generator] * len(items), sampling)

    def _guided(self, sampling: Sampling) -> bool:
        return sampling.guidance != 0 or not self.sampler.speedups.skip_unguided

    def _item(self, plan: GenerationPlan, index: int, first: Sequence[Tensor]) -> Item:
        """The prompt of one chunk; first: codes of the plan's first chunk, if there are any yet."""
        chunk, voice = plan.chunks[index], plan.request.voice
        text: str | None = None
        reference: Tensor | None = None
        if voice is not None:
            text, reference = voice.text, voice.codes
        elif chunk.follows_first:
            text, reference = plan.chunks[0].text, first[0]
        prompt = build_prompt(
            self.tokenizer,
            text=chunk.text,
            reference_text=text,
            language=plan.language,
            instruct=plan.instruct,
            denoise=plan.request.denoise and reference is not None,
        )
        return Item(prompt.ids, reference, chunk.frames)

    def _batches(self, items: Sequence[Item], sampling: Sampling) -> Iterator[list[int]]:
        """Indices of items in order, cut where the packed rows would exceed the bound; never empty."""
        batch: list[int] = []
        rows = 0
        for i, item in enumerate(items):
            size = item.length + (item.frames if self._guided(sampling) else 0)
            if batch and rows + size > self.rows_per_batch:
                yield batch
                batch, rows = [], 0
            batch.append(i)
            rows += size
        if batch:
            yield batch

    def _steps(self, plans: Sequence[GenerationPlan]) -> int:
        """Steps in all, for the progress bar: one per chunk and step, however they are batched."""
        return sum(len(plan.chunks) * plan.request.sampling.steps for plan in plans)


class _Progress:
    """Counts steps; an item's step counts one, so a batch of three advances by three."""

    def __init__(self, on_step: OnStep | None, total: int):
        self.on_step, self.total, self.done = on_step, total, 0

    def advance(self, items: int) -> None:
        """`items` items have taken one step."""
        self.done += items
        if self.on_step is not None:
            self.on_step(self.done, self.total)


def waves(plans: Sequence[GenerationPlan]) -> Iterator[tuple[Sampling, list[Job]]]:
    """Groups of jobs that may run together: first what waits for nothing, then the chunks whose voice is that of a
    first one. A plan's jobs come in order; jobs of a group share their sampling."""
    jobs = [job for _, group in rounds(plans) for job in group]
    for follows in (False, True):
        yield from _by_sampling(plans, [(p, c) for p, c in jobs if plans[p].chunks[c].follows_first is follows])


def rounds(plans: Sequence[GenerationPlan]) -> Iterator[tuple[Sampling, list[Job]]]:
    """Groups of jobs that upstream runs together, in its order; jobs of a group share their sampling."""
    short = [(p, 0) for p, plan in enumerate(plans) if not plan.chunked]
    yield from _by_sampling(plans, short)
    for chunk in range(max((len(plan.chunks) for plan in plans), default=0)):
        yield from _by_sampling(
            plans, [(p, chunk) for p, plan in enumerate(plans) if plan.chunked and chunk < len(plan.chunks)]
        )


def _by_sampling(plans: Sequence[GenerationPlan], jobs: Sequence[Job]) -> Iterator[tuple[Sampling, list[Job]]]:
    groups: dict[Sampling, list[Job]] = {}
    for job in jobs:
        groups.setdefault(plans[job[0]].request.sampling, []).append(job)
    yield from groups.items()
