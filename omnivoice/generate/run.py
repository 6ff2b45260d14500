"""Plans to codes: which chunks run together, in which order, with which noise.

Order is upstream's (models/omnivoice.py:680-720, 900-1010): all short texts at once, then the first chunks
of the long ones, then the second, and so on; within a round, items draw their noise in turn. With a
generator per request that order does not show, and noise is drawn when a batch begins; with one shared generator it
is drawn for the whole round first, which reproduces upstream's batch. A round is split into batches of bounded size;
the split changes no token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ..text.prompt import build_prompt
from ..text.tokenizer import TextTokenizer
from ..types import GenerationPlan, OnStep, Sampling
from .noise import ItemNoise
from .pack import Item
from .sample import Sampler, item_noise

ROWS_PER_BATCH = 4096  # packed rows; bounds the logits to about 0.5 GB at the published sizes
Job = tuple[int, int]  # (plan, chunk)


@dataclass(frozen=True, eq=False)
class Runner:
    """What a run needs. rows_per_batch bounds how much is packed together."""

    sampler: Sampler
    tokenizer: TextTokenizer
    rows_per_batch: int = ROWS_PER_BATCH

    def run(
        self, plans: Sequence[GenerationPlan], generator: torch.Generator | None, on_step: OnStep | None
    ) -> list[list[Tensor]]:
        """Codes [K, T] of every chunk of every plan. Without `generator`, each plan has one from its seed."""
        generators = [generator or torch.Generator().manual_seed(plan.seed) for plan in plans]
        codes: list[list[Tensor]] = [[] for _ in plans]
        progress = _Progress(on_step, self._steps(plans))
        for sampling, jobs in rounds(plans):
            items = [self._item(plans[p], c, codes[p]) for p, c in jobs]
            draw = partial(self._noise, items, [generators[p] for p, _ in jobs], sampling)
            shared = draw(range(len(jobs))) if generator is not None else None
            for batch in self._batches(items):
                noises = draw(batch) if shared is None else [shared[i] for i in batch]
                results = self.sampler.sample([items[i] for i in batch], noises, sampling, progress.advance)
                for i, result in zip(batch, results):
                    codes[jobs[i][0]].append(result)
        return codes

    def _noise(
        self, items: Sequence[Item], generators: Sequence[torch.Generator], sampling: Sampling, batch: Sequence[int]
    ) -> list[ItemNoise]:
        config = self.sampler.lm.config
        return item_noise(config, [items[i] for i in batch], [generators[i] for i in batch], sampling)

    def _item(self, plan: GenerationPlan, index: int, done: Sequence[Tensor]) -> Item:
        """The prompt of one chunk; done: codes of the plan's earlier chunks."""
        chunk, voice = plan.chunks[index], plan.request.voice
        text: str | None = None
        reference: Tensor | None = None
        if voice is not None:
            text, reference = voice.text, voice.codes
        elif chunk.follows_first:
            text, reference = plan.chunks[0].text, done[0]
        prompt = build_prompt(
            self.tokenizer, text=chunk.text, reference_text=text, language=plan.language, instruct=plan.instruct,
            denoise=plan.request.denoise and reference is not None,
        )  # fmt: skip
        return Item(prompt.ids, reference, chunk.frames)

    def _batches(self, items: Sequence[Item]) -> Iterator[list[int]]:
        """Indices of items in order, cut where the packed rows would exceed the bound; never empty."""
        batch: list[int] = []
        rows = 0
        for i, item in enumerate(items):
            size = item.length + item.frames
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


def rounds(plans: Sequence[GenerationPlan]) -> Iterator[tuple[Sampling, list[Job]]]:
    """Groups of jobs that run together, in upstream's order; jobs of a group share their sampling."""
    short = [(p, 0) for p, plan in enumerate(plans) if not plan.chunked]
    yield from _by_sampling(plans, short)
    for chunk in range(max((len(plan.chunks) for plan in plans), default=0)):
        yield from _by_sampling(plans, [(p, chunk) for p, plan in enumerate(plans)
                                        if plan.chunked and chunk < len(plan.chunks)])  # fmt: skip


def _by_sampling(plans: Sequence[GenerationPlan], jobs: Sequence[Job]) -> Iterator[tuple[Sampling, list[Job]]]:
    groups: dict[Sampling, list[Job]] = {}
    for job in jobs:
        groups.setdefault(plans[job[0]].request.sampling, []).append(job)
    yield from groups.items()
