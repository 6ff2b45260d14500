"""Plans to codes: which chunks run together, in which order, and with which noise.

Chunks that depend on nothing run first and may run together: short texts, chunks of long texts with a given voice, and
first chunks. The chunks that take their voice from a first chunk run after it. Upstream runs the first chunks of all
long texts, then the second ones, and so on (models/omnivoice.py:680-720, 900-1010). Its order matters only for the
noise of one shared generator, so that noise is drawn in upstream's order before anything runs. With a generator for
each request, noise is drawn when a batch starts. Batches have a limited size (see
`SamplingMemory.rows_within`). If the device runs out of memory, the batch is run again in halves, once in a run.
Neither the order nor the split into batches changes a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..devices import device_errors_in_words
from ..errors import InputError
from ..text.prompt import build_prompt
from ..text.tokenizer import TextTokenizer
from ..types import GenerationPlan, OnStep, Sampling
from .estimate import MOST_ROWS, BatchSize
from .filling_loss import UNGUIDED, OpenedSpeech, opened_losses
from .noise import ItemNoise, fill_noise, item_noise, seeded_generator
from .pack import Item
from .plan import check_work
from .retry import Work
from .sample import Sampler

Job = tuple[int, int]  # (plan, chunk)


@dataclass(frozen=True, eq=False)
class Runner:
    """What a run needs. rows_per_batch: the most rows packed together; a larger item runs in a batch of its own."""

    sampler: Sampler
    tokenizer: TextTokenizer
    rows_per_batch: int = MOST_ROWS

    def run(
        self,
        plans: Sequence[GenerationPlan],
        generator: torch.Generator | None,
        on_step: OnStep | None,
        known: Sequence[Tensor] | None = None,
    ) -> list[list[Tensor]]:
        """Return the codes [K, T] of every chunk of every plan. Without `generator`, each plan uses its seed.

        known: for plans of one chunk each, the codes of recordings with the mask in the frames to fill.
        Raises DeviceMemoryError if memory runs out twice, TextError for more work than one run may take.
        """
        if known is None and any(plan.request.sampling.codebook_steps for plan in plans):
            raise InputError("codebook_steps is for speech that is filled into a recording: leave it out")
        check_work(plans)
        noise = self._own_noise(plans, known) if generator is None else self._shared_noise(plans, generator)
        codes: list[list[Tensor]] = [[] for _ in plans]
        total = sum(len(plan.chunks) * plan.request.sampling.passes for plan in plans)
        work = Work(self.sampler, self._batches, total, on_step)
        for sampling, jobs in run_order(plans):
            items = [self._item(plans[p], c, codes[p][:1], known[p] if known else None) for p, c in jobs]
            for batch in self._batches(items, sampling, self.rows_per_batch):
                noises = [noise(jobs[i]) for i in batch]
                results = work.sample([items[i] for i in batch], noises, sampling)
                for i, result in zip(batch, results):
                    codes[jobs[i][0]].append(result)
        return codes

    def losses(self, speech: Sequence[OpenedSpeech], on_step: OnStep | None) -> list[Tensor]:
        """Return what `opened_losses` returns, in batches. on_step gets (recordings done, all recordings)."""
        found: list[Tensor] = []
        for batch in self._batches([each.item for each in speech], UNGUIDED, self.rows_per_batch):
            with device_errors_in_words(self.sampler.device):
                found += opened_losses(self.sampler, [speech[i] for i in batch])
            if on_step is not None:
                on_step(len(found), len(speech))
        return found

    def batches(self, plans: Sequence[GenerationPlan]) -> Iterator[BatchSize]:
        """Yield what `run` packs together, in its order, without running anything: only the number of codes matters."""
        first = [torch.zeros(1, 1, dtype=torch.int64).expand(1, plan.chunks[0].frames) for plan in plans]
        for sampling, jobs in run_order(plans):
            items = [self._item(plans[p], c, [first[p]]) for p, c in jobs]
            for batch in self._batches(items, sampling, self.rows_per_batch):
                frames = tuple(items[i].frames for i in batch)
                prefix = sum(items[i].length for i in batch) - sum(frames)
                yield BatchSize(prefix, frames, sampling, self.sampler.is_guided(sampling))

    def _own_noise(self, plans: Sequence[GenerationPlan], known: Sequence[Tensor] | None) -> Callable[[Job], ItemNoise]:
        """Return a function that draws the noise of a job. The jobs of a plan must be asked for in order."""
        generators, config = [seeded_generator(plan.seed) for plan in plans], self.sampler.lm.config
        if known is None:
            return lambda job: self._noise(plans, [job], generators[job[0]])[0]
        opened = [codes[0] == config.audio_mask_id for codes in known]
        return lambda job: fill_noise(config, opened[job[0]], generators[job[0]], plans[job[0]].request.sampling)

    def _shared_noise(self, plans: Sequence[GenerationPlan], generator: torch.Generator) -> Callable[[Job], ItemNoise]:
        """Draw everything now, in upstream's order, and return a function that looks up the noise of a job."""
        return {
            job: noise
            for _, jobs in upstream_order(plans)
            for job, noise in zip(jobs, self._noise(plans, jobs, generator))
        }.__getitem__

    def _noise(
        self, plans: Sequence[GenerationPlan], jobs: Sequence[Job], generator: torch.Generator
    ) -> list[ItemNoise]:
        frames, sampling = [plans[p].chunks[c].frames for p, c in jobs], plans[jobs[0][0]].request.sampling
        return item_noise(self.sampler.lm.config, frames, [generator] * len(frames), sampling)

    def _item(self, plan: GenerationPlan, index: int, first: Sequence[Tensor], known: Tensor | None = None) -> Item:
        """Return one chunk with its prompt. first: the codes of the plan's first chunk; empty before it has run."""
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
        return Item(prompt, reference, chunk.frames, known)

    def _batches(self, items: Sequence[Item], sampling: Sampling, most_rows: int) -> list[list[int]]:
        """Return the indices of the items in order, split where the packed rows would exceed the limit; none is
        empty."""
        batches: list[list[int]] = []
        rows = 0
        for i, item in enumerate(items):
            size = self.sampler.rows([item], sampling)
            if not batches or rows + size > most_rows:
                batches.append([])
                rows = 0
            batches[-1].append(i)
            rows += size
        return batches


def run_order(plans: Sequence[GenerationPlan]) -> Iterator[tuple[Sampling, list[Job]]]:
    """Yield groups of jobs that may run together: first those that depend on nothing, then the chunks that take their
    voice from a first chunk. The jobs of a plan stay in order. All jobs of a group have the same sampling settings."""
    jobs = [job for _, group in upstream_order(plans) for job in group]
    for follows in (False, True):
        yield from _by_sampling(plans, [(p, c) for p, c in jobs if plans[p].chunks[c].follows_first is follows])


def upstream_order(plans: Sequence[GenerationPlan]) -> Iterator[tuple[Sampling, list[Job]]]:
    """Yield groups of jobs that upstream runs together, in its order, with the same sampling settings."""
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
