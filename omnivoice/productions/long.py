"""Long texts: hours of speech, made and kept part by part, in memory that does not grow.

The engine's own plan cuts the text. Each chunk becomes a part with a seed of its own, is brought to the level of the
first, and goes to disk at once. So a stopped run goes on with the parts it has, one part can be made again with another
seed, and the first part is heard while the rest is made. What a part sounds like depends on neither the others nor the
batch it ran in, except that without a given voice the first part is the voice of all others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ..audio.loudness import SPEECH_RMS
from ..errors import InputError
from ..text.languages import language_label
from ..types import GenerationPlan, Speech, VoicePrompt
from .keys import plan_key
from .lines import MAX_PEAK, naming_takes, speech_level
from .long_plan import LongPlan, first_to_make
from .parts import Part, Parts, to_int16
from .redo import check_redo

MAX_BATCH = 32  # parts; the first runs alone, so that it can be heard early
CPU_BATCH = 1  # a CPU is no faster with several, so each part is kept and heard as soon as it can be
MAX_GAIN = 2.0  # and its inverse; more would raise noise
_LOG = logging.getLogger("omnivoice_nodes")
_AGAIN = -1  # stands for the first part that is made, when it is made again


class SpeakPlans(Protocol):
    """Speaks all plans in one run and returns the results in order; may raise to cancel."""

    def __call__(self, plans: Sequence[GenerationPlan], /) -> list[Speech]: ...


@dataclass(frozen=True)
class MadePart:
    """Where a part lies: start and end in samples, without the silence before it. key: its name in the store.
    is_new: made in this run, not an earlier one."""

    text: str
    chapter: int
    start: int
    end: int
    key: str
    seed: int
    is_new: bool


@dataclass(frozen=True)
class Progress:
    """parts, total: made and in all. seconds_left: estimated from the speed of this run; 0 before any part is made."""

    parts: int
    total: int
    seconds_left: float


OnPart = Callable[[MadePart, Tensor, Progress], None]  # (the part, its samples with the silence before it, progress)


def speak_long(
    long: LongPlan,
    speak: SpeakPlans,
    store: Parts,
    *,
    model: str,
    on_part: OnPart | None = None,
    redo: Mapping[int, int] | None = None,
    max_batch: int = MAX_BATCH,
) -> list[MadePart]:
    """Make every part that the store lacks, in order, and return where all of them lie.

    model: identifies the weights and how they compute (`plan_key`). on_part: called for each part in order, as soon as
    it is there; may raise to cancel. redo: {number of a part, from 1: seed}; the samples of all others stay as they
    are. max_batch: parts that run together, the most that a stop can lose. Afterwards `samples_of` reads the recording.
    Raises InputError if a part cannot be read back.
    """
    check_redo(redo or {}, range(1, len(long.parts) + 1), "part")
    work = _Work(long, store, model, {number - 1: seed for number, seed in (redo or {}).items()}, max_batch)
    start, made_frames, seconds_left = time.monotonic(), 0, 0.0
    while work.waiting:
        batch = work.next_batch()
        work.report(on_part, seconds_left)  # what an earlier run made is there at once
        plans = [plan for _, plan in batch]
        with naming_takes(plans, [f"part {work.place(index) + 1}" for index, _ in batch]):
            speeches = speak(plans) if plans else []
        for (index, _), speech in zip(batch, speeches):
            work.keep(index, speech)
            made_frames += long.parts[index].frames
        left = sum(long.parts[i].frames for i in work.waiting)
        seconds_left = (time.monotonic() - start) / made_frames * left if made_frames else 0.0
        work.report(on_part, seconds_left)
    return work.made


def samples_of(made: Sequence[MadePart], store: Parts, *, tail: int) -> Iterator[Tensor]:
    """Yield the recording [N_i] int16 piece by piece: silence, part, silence, and so on. One part is in memory.

    Raises InputError if a part has disappeared meanwhile.
    """
    end = 0
    for one in made:
        part = _there(store.read(one.key))
        yield torch.zeros(one.start - end, dtype=torch.int16)
        yield part.samples
        end = one.end
    yield torch.zeros(tail, dtype=torch.int16)


def _there(part: Part | None) -> Part:
    """Return a part that was written or found before; raises InputError if it cannot be read any more."""
    if part is None:
        raise InputError("a finished part of the text has disappeared from the disk: run the same command again")
    return part


def parts_at_once(device: torch.device) -> int:
    """Return how many parts should run together on a device."""
    return CPU_BATCH if device.type == "cpu" else MAX_BATCH


class _Work:
    """The state of one run. waiting: parts not looked at yet. speaking: those of the batch that are not made yet.
    made: those that are there, in order from the first."""

    def __init__(self, long: LongPlan, store: Parts, model: str, redo: Mapping[int, int], max_batch: int) -> None:
        self.long, self.store, self.model, self.made = long, store, model, list[MadePart]()
        self.first, self.redo = first_to_make(long.parts), redo
        self.max_batch, self.speaking = max_batch, set[int]()
        again = [_AGAIN] if self.first in redo else []  # after the others have its voice and level
        self.waiting = [self.first, *again, *(i for i in range(len(long.parts)) if i != self.first)]
        self._voice: VoicePrompt | None = None
        self._new, self._batch, self._level, self._end = set[int](), 1, 0.0, 0

    def next_batch(self) -> list[tuple[int, GenerationPlan]]:
        """Return the next parts to make: the first alone, then two, four, and so on."""
        batch: list[tuple[int, GenerationPlan]] = []
        while self.waiting and len(batch) < self._batch:
            index = self.waiting.pop(0)
            part = self.store.read(self._key(index))
            if part is None:
                batch.append((index, self._plan(index)))
            if index == self.first:
                if part is None:
                    break
                self._learn(part)
        self._batch = min(2 * self._batch, self.max_batch)
        self.speaking = {index for index, _ in batch}
        return batch

    def keep(self, index: int, speech: Speech) -> None:
        """Bring a part to the level of the first one and write it."""
        samples = speech.waveform.samples
        for warning in speech.warnings:
            _LOG.warning("part %d: %s", index + 1, warning)
        if index != self.first:
            level, peak = speech_level([samples]), float(samples.abs().max())
            gain = min(max(self._level / level if level else 1.0, 1 / MAX_GAIN), MAX_GAIN, MAX_PEAK / max(peak, 1e-9))
            samples = samples * gain
        part = Part(to_int16(samples[0]), speech.codes[0].to(torch.int16))
        self.store.write(self._key(index), part)
        self._new.add(index)
        self.speaking.discard(index)
        if index == self.first:
            self._learn(part)

    def report(self, on_part: OnPart | None, seconds_left: float) -> None:
        """Place every part that is there and follows the last one, and report it."""
        missing = (*self.waiting, *self.speaking)
        end = min([*map(self.place, missing), len(self.long.parts)])
        for index in range(len(self.made), end):
            planned, shown = self.long.parts[index], self._shown(index)
            key = self._key(shown)
            part = _there(self.store.read(key))
            start = self._end + planned.silence
            self._end = start + len(part.samples)
            is_new, seed = shown in self._new, self._plan(shown).seed
            self.made.append(MadePart(planned.text, planned.chapter, start, self._end, key, seed, is_new))
            self.store.reported(key)
            if on_part is not None:
                with_silence = torch.nn.functional.pad(part.samples, (planned.silence, 0))
                on_part(self.made[-1], with_silence, Progress(index + 1, len(self.long.parts), seconds_left))

    def _learn(self, part: Part) -> None:
        """Take the level, and without a given voice also the voice, from the first part as it is stored."""
        samples = part.samples.float()[None] / 32768
        self._level = speech_level([samples]) or SPEECH_RMS
        first = self.long.parts[self.first]
        if first.plan.request.voice is None:
            label = language_label(first.plan.language) if first.plan.language else ""
            self._voice = VoicePrompt(part.codes, first.text, SPEECH_RMS, language=label)

    def _shown(self, index: int) -> int:
        return _AGAIN if index == self.first and index in self.redo else index

    def place(self, index: int) -> int:
        """Return which part of the text this is."""
        return self.first if index == _AGAIN else index

    def _plan(self, index: int) -> GenerationPlan:
        place = self.place(index)
        plan = self.long.parts[place].plan
        if index == self.first:
            return plan
        if place in self.redo:
            plan = replace(plan, seed=self.redo[place], request=replace(plan.request, seed=self.redo[place]))
        return plan if self._voice is None else replace(plan, request=replace(plan.request, voice=self._voice))

    def _key(self, index: int) -> str:
        return plan_key(self._plan(index), model=self.model, level=0.0 if index == self.first else self._level)
