"""Speaks subtitles: cues and a cast become one recording on the times of the cues, with a report of every cue.

All cues are planned before anything runs, so that what cannot be spoken is refused by the name of its cue. They run in
batches of some minutes of speech, whose recordings are put into the output and let go. The split into batches changes
no token. Every cue has the same seed, so a cue that is not changed sounds the same in the next run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ..constants import HOP, SAMPLE_RATE
from ..engine import Engine
from ..errors import InputError, OmniVoiceError
from ..generate.plan import check_work
from ..generate.written import text_notes
from ..intake.limits import MAX_TOTAL_SECONDS
from ..text.vocabulary import named
from ..types import GenerationPlan, OnStep, Speech, Waveform
from .cast import Cast, reference_requests
from .cue_output import CueOutput, CuesInMemory
from .cues import Cue, Subtitles
from .lines import RunPlans, naming_takes
from .placed_cues import SpokenCue, cast_warnings, heard, placing_warnings
from .subtitle_schedule import Slot, SubtitleOptions, natural_samples, output_samples, schedule


@dataclass(frozen=True, eq=False)
class SpokenSubtitles:
    """samples: the length of the recording. spoken: every cue of `subtitles`. warnings: everything the user should
    know. output: where the recording is. notes: what the dictionary and the normalisation changed."""

    samples: int
    output: CueOutput
    subtitles: Subtitles
    spoken: tuple[SpokenCue, ...]
    options: SubtitleOptions
    cast: Cast
    seed: int
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def waveform(self) -> Waveform:
        """The recording [1, N] at 24,000 Hz; raises InputError if it is not in memory."""
        if not isinstance(self.output, CuesInMemory):
            raise InputError("this recording is on the disk: write it from the pieces of its output")
        return self.output.waveform


def speak_subtitles(
    engine: Engine,
    subtitles: Subtitles,
    cast: Cast,
    options: SubtitleOptions | None = None,
    *,
    run: RunPlans | None = None,
    on_step: OnStep | None = None,
    output: CueOutput | None = None,
    retries: int = 0,
) -> SpokenSubtitles:
    """Return the cues as they are spoken by the cast.

    run: what runs the plans, `engine.generate_plans` by default. on_step(done, total) covers the whole production and
    may raise to cancel. output: where the speech goes, `CuesInMemory` by default. retries: of `run`, for the limit of
    the work. Raises InputError or TextError, which name the cue, before anything runs.
    """
    if not subtitles.cues:
        raise InputError("the subtitles have no cue to speak: all of them are descriptions, lyrics or empty")
    options = (options or SubtitleOptions()).checked()
    output_samples(subtitles.end_ms, options)  # before a reference is made
    seed = secrets.randbelow(2**32) if options.request.seed is None else options.request.seed
    options = replace(options, request=replace(options.request, seed=seed))
    work = _Work(engine, subtitles, cast, options, run or engine.generate_plans, on_step, output or CuesInMemory())
    spoken, length = work.speak(retries)
    warnings = (*cast_warnings(subtitles, cast), *work.warnings(), *placing_warnings(spoken, subtitles.end_ms, options))
    peak = work.output.finish(length)
    if peak > 1:
        warnings = (*warnings, f"cues that are heard at once add up to a peak of {peak:.2f}: all was lowered to 1")
    return SpokenSubtitles(length, work.output, subtitles, spoken, options, work.cast, seed, warnings, work.notes)


class _Work:
    """One production. cast: with a reference for everyone who needs one, once it is made."""

    def __init__(
        self,
        engine: Engine,
        subtitles: Subtitles,
        cast: Cast,
        options: SubtitleOptions,
        run: RunPlans,
        on_step: OnStep | None,
        output: CueOutput,
    ) -> None:
        self.engine, self.subtitles, self.cast, self.options, self.output = engine, subtitles, cast, options, output
        self._run, self._on_step, self._done, self._total = run, on_step, 0, 0
        self._noted, self._of_voices = dict[str, dict[str, None]](), list[str]()
        self.notes: tuple[str, ...] = ()

    def speak(self, retries: int) -> tuple[tuple[SpokenCue, ...], int]:
        """Return the spoken cues in order, and the length of the output."""
        plans = self._plans([None] * len(self.subtitles.cues))
        self.notes = text_notes(plans)
        texts: dict[str, list[str]] = {}
        for cue in self.subtitles.cues:
            texts.setdefault(self.cast.find(cue.speaker).name, []).append(cue.text)
        makers = reference_requests(self.cast, texts, self.options.request)
        references = self.engine.plan([*makers.values()])
        check_work([*references, *plans], retries=retries)
        self._total = _steps([*references, *plans])
        if makers:
            names = [f"the voice of {name}" if name else "the voice of all others" for name in makers]
            with naming_takes(references, names):
                speeches = self._speak(references, until=_steps(references))
            self._done = _steps(references)
            for name, plan, speech in zip(names, references, speeches):
                new = [warning for warning in speech.warnings if warning not in plan.warnings]
                self._of_voices += [f"{name}: {warning}" for warning in new]
            self.cast = self.cast.with_voices(dict(zip(makers, [speech.voice for speech in speeches])))
            plans = self._plans([None] * len(plans))
        lengths = [natural_samples(plan) for plan in plans]
        slots, length = schedule(self.subtitles.cues, lengths, self.subtitles.end_ms, self.options)
        plans = self._plans([slot.room for slot in slots])
        check_work(plans, retries=retries)
        self._total = self._done + _steps(plans)
        return self._place(slots, plans, length)

    def _plans(self, rooms: Sequence[int | None]) -> list[GenerationPlan]:
        """Return a plan for each cue that takes exactly as many samples as its room, or its natural length."""
        plans = []
        for cue, room in zip(self.subtitles.cues, rooms):
            request = self.cast.find(cue.speaker).request(self.options.request, cue.text)
            if room is not None:
                request = replace(request, speed=None, duration=room / SAMPLE_RATE, exact_length=True)
            with _naming(cue):
                plans += self.engine.plan([request])
        return plans

    def _speak(self, plans: Sequence[GenerationPlan], until: int) -> list[Speech]:
        """Run plans as a part of the production's progress. until: the steps that are done afterwards."""
        before, on_step = until - _steps(plans), self._on_step
        report = None if on_step is None else lambda done, _: on_step(before + done, self._total)
        return self._run(plans, on_step=report)

    def _place(
        self, slots: Sequence[Slot], plans: Sequence[GenerationPlan], length: int
    ) -> tuple[tuple[SpokenCue, ...], int]:
        """Speak the plans batch by batch and put each cue into the output."""
        spoken, end = list[SpokenCue](), 0
        self.output.reserve(self._most(slots, length))
        for batch in _batches(plans, self.output.batch_seconds):
            self._done += _steps(plans[batch])
            with naming_takes(plans[batch], [slot.cue.name for slot in slots[batch]]):
                speeches = self._speak(plans[batch], until=self._done)
            for slot, plan, speech in zip(slots[len(spoken) :], plans[batch], speeches):
                samples = speech.waveform.samples[0]
                start = max(slot.start, end) if self.options.mode == "natural" else slot.start
                end = start + len(samples)
                self.output.put(start, plan, samples)
                first, last = heard(samples)
                voice = self.cast.find(slot.cue.speaker).name
                spoken.append(SpokenCue(slot, voice, start, end, start + first, start + last))
                for warning in dict.fromkeys(speech.warnings):
                    self._noted.setdefault(warning, {})[slot.cue.name] = None
        return tuple(spoken), max(length, *(one.end for one in spoken))

    def _most(self, slots: Sequence[Slot], length: int) -> int:
        """Return the most samples that the output can have. Raises InputError above 4 hours."""
        end = most = 0
        for slot in slots:
            start = max(slot.start, end) if self.options.mode == "natural" else slot.start
            end = start + (slot.natural if slot.room is None else slot.room)
            most = max(most, end)
        if most > MAX_TOTAL_SECONDS * SAMPLE_RATE:
            raise InputError(f"the output can be at most {MAX_TOTAL_SECONDS // 3600} hours long: split the file")
        return max(most, length)

    def warnings(self) -> tuple[str, ...]:
        """Return every warning about the speech of cues once, with the names of the cues unless it is about all, and
        what is new about the speech that makes a voice."""
        count = len(self.subtitles.cues)
        about_cues = [
            warning if len(names) == count else f"{named([*names])}: {warning}"
            for warning, names in self._noted.items()
        ]
        return (*self._of_voices, *about_cues)


def _steps(plans: Sequence[GenerationPlan]) -> int:
    """Return how many steps a run of these plans reports."""
    return sum(len(plan.chunks) * plan.request.sampling.steps for plan in plans)


def _batches(plans: Sequence[GenerationPlan], most_seconds: float) -> Iterator[slice]:
    """Yield the ranges of plans that run together, each of about `most_seconds` of speech."""
    start, filled = 0, 0.0
    for i, plan in enumerate(plans):
        seconds = sum(chunk.frames for chunk in plan.chunks) * HOP / SAMPLE_RATE
        if i > start and filled + seconds > most_seconds:
            yield slice(start, i)
            start, filled = i, 0.0
        filled += seconds
    if plans:
        yield slice(start, len(plans))


@contextmanager
def _naming(cue: Cue) -> Iterator[None]:
    """Put the name of the cue in front of an OmniVoiceError raised inside."""
    try:
        yield
    except OmniVoiceError as error:
        raise type(error)(f"{cue.name}: {error}") from error
