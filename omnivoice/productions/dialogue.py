"""Dialogue: a script and a cast become one recording.

A speaker with a voice uses it in every line. A speaker who has a design, or nothing, is given a voice by one of their
own lines, the first of at least two seconds, so that it is the same person through the whole script. A shorter line
continues the speaker's nearest earlier line (or a later one, if there is none), which serves as its voice; the
measurement is in docs/script.md. So there are at most three runs: lines that make a voice together with long lines of
given voices, then other long lines, then short ones. Each run is one batch.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..constants import SAMPLE_RATE
from ..generate.plan import check_work, limited
from ..generate.written import text_notes
from ..intake.limits import check_integer, check_number, check_switch
from ..text.script import Script, ScriptLine
from ..types import GenerationPlan, GenerationRequest, Speech, VoicePrompt, Waveform
from .cast import Cast
from .lines import (
    MAX_PEAK,
    NoTakeError,
    PlanRequests,
    SpeakRequests,
    SpokenLine,
    equal_gains,
    estimated_seconds,
    joined,
    naming_line,
    placed,
)
from .redo import check_redo

SHORT_SECONDS = 2.0
_SEEDS = 2**64


@dataclass(frozen=True)
class DialogueOptions:
    """gap_seconds: silence between two lines of one speaker. change_seconds: between lines of two speakers. A pause in
    the script replaces them. equal_loudness: make all speakers equally loud. context: short lines continue a longer
    one."""

    gap_seconds: float = 0.3
    change_seconds: float = 0.5
    equal_loudness: bool = False
    context: bool = True


@dataclass(frozen=True, eq=False)
class Dialogue:
    """waveform: [1, N] at 24,000 Hz. lines: in order, with their places. warnings: about the whole and about lines.
    notes: what the dictionary and the normalisation changed."""

    waveform: Waveform
    lines: tuple[SpokenLine, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()


def speak_dialogue(
    script: Script,
    cast: Cast,
    base: GenerationRequest,
    plan: PlanRequests,
    speak: SpeakRequests,
    options: DialogueOptions | None = None,
    *,
    redo: Mapping[int, int] | None = None,
    retries: int = 0,
) -> Dialogue:
    """Return the script as it is spoken by the cast.

    plan, speak: as `Engine.plan` and `Engine.generate`. base: everything that neither the script nor the cast sets; its
    seed counts up from line to line, so that a line with a seed of its own leaves the others as they are. redo: {number
    of a line: seed}; these lines are spoken again when all others are there, which keep every sample. retries: of
    `speak`, for the limit of the work. Raises InputError or TextError, which name the line, before anything is spoken.
    """
    options, redo = _checked(options or DialogueOptions()), redo or {}
    check_redo(redo, [line.number for line in script.lines], "line")
    work = _Work(script.lines, _requests(script, cast, base), plan, speak, options.context)
    work.check(redo, retries)
    silences = _silences(script.lines, options)
    first = _spoken(script.lines, work.requests, work.run(), silences)
    gains = equal_gains(first) if options.equal_loudness else [1.0] * len(first)
    lines = _spoken(script.lines, work.requests, work.again(redo), silences) if redo else first
    gains = [_within_peak(gain, line) if line.number in redo else gain for gain, line in zip(gains, lines)]
    lines = tuple(line if gain == 1 else line.louder(gain) for line, gain in zip(lines, gains))
    waveform = joined(lines, tail=round(script.tail_seconds * SAMPLE_RATE))
    return Dialogue(waveform, lines, (*script.warnings, *_warnings(lines)), work.notes)


def _spoken(
    lines: Sequence[ScriptLine],
    requests: Sequence[GenerationRequest],
    speeches: Sequence[Speech],
    silences: Sequence[int],
) -> tuple[SpokenLine, ...]:
    """Return the lines with their places."""
    return placed(
        [
            SpokenLine(line.number, line.speaker, line.text, request, speech, silence)
            for line, request, speech, silence in zip(lines, requests, speeches, silences)
        ]
    )


def _within_peak(gain: float, line: SpokenLine) -> float:
    """Return the gain, or a lower one with which a line that was spoken again does not clip."""
    peak = float(line.samples.abs().max()) if gain != 1 else 0.0
    return min(gain, MAX_PEAK / peak) if peak else gain


def _checked(options: DialogueOptions) -> DialogueOptions:
    gap = check_number("gap_seconds", options.gap_seconds)
    change = check_number("gap_seconds", options.change_seconds, shown_as="change_seconds")
    equal, context = check_switch("equal_loudness", options.equal_loudness), check_switch("context", options.context)
    return DialogueOptions(gap, change, equal, context)


def _requests(script: Script, cast: Cast, base: GenerationRequest) -> list[GenerationRequest]:
    seed = secrets.randbelow(2**32) if base.seed is None else check_integer("seed", base.seed)
    requests = []
    for index, line in enumerate(script.lines):
        request = cast.find(line.speaker).request(base, line.text)
        request = replace(request, seed=(seed + index) % _SEEDS, pad_seconds=0.0)
        requests.append(replace(request, **line.overrides))
    return requests


def _silences(lines: Sequence[ScriptLine], options: DialogueOptions) -> list[int]:
    """Return the zeros before each line: the script's own pause, or the gap; none before the first line."""
    silences = []
    for before, line in zip([None, *lines], lines):
        gap = 0.0
        if before is not None:
            gap = options.gap_seconds if before.speaker == line.speaker else options.change_seconds
        silences.append(round((gap if line.pause_seconds is None else line.pause_seconds) * SAMPLE_RATE))
    return silences


def _warnings(lines: Sequence[SpokenLine]) -> list[str]:
    """Return every warning of a line once, with the numbers of its lines."""
    found: dict[str, list[str]] = {}
    for line in lines:
        for warning in line.speech.warnings:
            found.setdefault(warning, []).append(str(line.number))
    return [f"line {', '.join(numbers)}: {warning}" for warning, numbers in found.items()]


class _Work:
    """Speaks the lines in up to three runs. requests: with the voice that each line really used."""

    def __init__(
        self,
        lines: Sequence[ScriptLine],
        requests: list[GenerationRequest],
        plan: PlanRequests,
        speak: SpeakRequests,
        context: bool,
    ) -> None:
        self.lines, self.requests, self.speak = lines, requests, speak
        self.done: dict[int, Speech] = {}
        plans: list[GenerationPlan] = []
        for line, request in zip(lines, requests):
            with naming_line(line.number):
                plans += plan([request])
        self.plans, self.seconds = plans, [estimated_seconds(one) for one in plans]
        self.notes = text_notes(plans)
        self.short = {i for i, seconds in enumerate(self.seconds) if context and seconds < SHORT_SECONDS}

    def check(self, redo: Collection[int], retries: int) -> None:
        """Raise TextError for lines that together are too long, or too much work with those of `redo` once more."""
        plans = [*limited(self.plans, retries=retries)]
        again = [plan for line, plan in zip(self.lines, plans) if line.number in redo]
        check_work([*plans, *again], retries=retries)

    def run(self) -> list[Speech]:
        """Return the speech of every line."""
        makers = self._voice_makers()
        self._speak([i for i in range(len(self.lines)) if i in makers or (self._voiced(i) and i not in self.short)])
        for maker in makers:
            for i in self._others(maker):
                self.requests[i] = replace(self.requests[i], voice=self.done[maker].voice)
        self._speak([i for i in range(len(self.lines)) if i not in self.done and i not in self.short])
        contexts = {i: self._context(i) for i in self.short if i not in self.done}
        for i, voice in contexts.items():
            self.requests[i] = replace(self.requests[i], voice=voice)
        self._speak(sorted(contexts))
        return [self.done[i] for i in range(len(self.lines))]

    def again(self, redo: Mapping[int, int]) -> list[Speech]:
        """Return the speech of every line, with some spoken again: {number: seed}. The others stay as they are.

        A line that gave its speaker a voice is spoken again with that voice.
        """
        chosen = [i for i, line in enumerate(self.lines) if line.number in redo]
        for i in chosen:
            voice = self.requests[i].voice or self.done[i].voice
            self.requests[i] = replace(self.requests[i], voice=voice, seed=redo[self.lines[i].number])
        self._speak(chosen)
        return [self.done[i] for i in range(len(self.lines))]

    def _voiced(self, index: int) -> bool:
        return self.requests[index].voice is not None

    def _others(self, index: int) -> list[int]:
        """Return the other lines of the same speaker."""
        return [i for i, line in enumerate(self.lines) if line.speaker == self.lines[index].speaker and i != index]

    def _voice_makers(self) -> set[int]:
        """Return, for each speaker without a voice, the line that gives one: the first long one, or the longest."""
        makers = set()
        for name in dict.fromkeys(line.speaker for line in self.lines):
            own = [i for i, line in enumerate(self.lines) if line.speaker == name and not self._voiced(i)]
            long = [i for i in own if self.seconds[i] >= SHORT_SECONDS]
            makers |= {long[0] if long else max(own, key=self.seconds.__getitem__)} if own else set()
        return makers

    def _context(self, index: int) -> VoicePrompt | None:
        """Return the voice of a short line: the speaker's last long line, else the next one, else the own voice."""
        voice = self.requests[index].voice
        near = [i for i in self._others(index) if i in self.done and i not in self.short]
        if voice is None or not near:
            return voice
        before = [i for i in near if i < index]
        speech = self.done[before[-1] if before else near[0]]
        return replace(voice, codes=speech.codes[-1], text=speech.chunks[-1])

    def _speak(self, indices: Sequence[int]) -> None:
        if indices:
            requests = [self.requests[i] for i in indices]
            try:
                self.done.update(zip(indices, self.speak(requests)))
            except NoTakeError as error:
                with naming_line(self.lines[indices[error.index]].number):
                    raise
