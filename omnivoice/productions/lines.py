"""Spoken lines, one after another: where each begins and ends, their levels, and the recording they make together.

Each line is spoken by a request of its own without padding, so that silences between lines are exact to the sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from ..constants import FRAME_RATE, SAMPLE_RATE
from ..errors import NumericError, OmniVoiceError, TextError
from ..intake.limits import MAX_TOTAL_SECONDS
from ..types import GenerationPlan, GenerationRequest, OnStep, Speech, Waveform

MAX_PEAK = 0.99
LOUD_SHARE = 0.1  # of the RMS; 50 ms windows below it are silence and do not count for the level
WINDOW = SAMPLE_RATE // 20


class PlanRequests(Protocol):
    """Turns requests into plans, as `Engine.plan` does."""

    def __call__(self, requests: Sequence[GenerationRequest], /) -> list[GenerationPlan]: ...


class SpeakRequests(Protocol):
    """Speaks all requests in one run and returns the results in order; may raise to cancel."""

    def __call__(self, requests: Sequence[GenerationRequest], /) -> list[Speech]: ...


class RunPlans(Protocol):
    """Runs plans and returns their speech in order, as `Engine.generate_plans` does; a host asks for memory first."""

    def __call__(self, plans: Sequence[GenerationPlan], *, on_step: OnStep | None) -> list[Speech]: ...


class NoTakeError(NumericError):
    """No take of a text has speech: all came out as NaN or Inf. index: of its plan in the run. plan: that plan."""

    def __init__(self, message: str, index: int = 0, plan: GenerationPlan | None = None) -> None:
        super().__init__(message)
        self.index, self.plan = index, plan


@dataclass(frozen=True, eq=False)
class SpokenLine:
    """One line as it was spoken.

    number: of the line in its source, from 1. speaker: a name or None. silence: samples before the line, from the end
    of the line before it. start, end: samples in the recording, without that silence.
    """

    number: int
    speaker: str | None
    text: str
    request: GenerationRequest
    speech: Speech
    silence: int = 0
    start: int = 0
    end: int = 0

    @property
    def samples(self) -> Tensor:
        """The line's own samples [1, N] at 24,000 Hz."""
        return self.speech.waveform.samples

    def louder(self, gain: float) -> SpokenLine:
        """Return the line with its samples multiplied by `gain`."""
        return replace(self, speech=replace(self.speech, waveform=Waveform(self.samples * gain, SAMPLE_RATE)))


@contextmanager
def naming_line(number: int) -> Iterator[None]:
    """Put the number of the line in front of an OmniVoiceError raised inside."""
    try:
        yield
    except OmniVoiceError as error:
        raise type(error)(f"line {number}: {error}") from error


@contextmanager
def naming_takes(plans: Sequence[GenerationPlan], names: Sequence[str]) -> Iterator[None]:
    """Put the name of its plan in front of a NoTakeError raised inside."""
    try:
        yield
    except NoTakeError as error:
        name = next(name for plan, name in zip(plans, names) if plan is error.plan)
        raise NumericError(f"{name}: {error}") from error


def estimated_seconds(plan: GenerationPlan) -> float:
    """Return how long speech will be before silences are shortened."""
    return sum(chunk.frames for chunk in plan.chunks) / FRAME_RATE


def placed(lines: Sequence[SpokenLine]) -> tuple[SpokenLine, ...]:
    """Return the lines with their start and end, from their lengths and silences.

    Raises TextError for more than four hours in all.
    """
    ends = list(itertools.accumulate(line.silence + line.samples.shape[1] for line in lines))
    if ends and ends[-1] > MAX_TOTAL_SECONDS * SAMPLE_RATE:
        raise TextError(
            f"the recording would last {ends[-1] / SAMPLE_RATE / 3600:.1f} hours, at most {MAX_TOTAL_SECONDS // 3600} "
            "are allowed: split the text"
        )
    return tuple(replace(line, start=end - line.samples.shape[1], end=end) for line, end in zip(lines, ends))


def joined(lines: Sequence[SpokenLine], *, tail: int = 0) -> Waveform:
    """Return the recording [1, N] of placed lines, with `tail` zeros at the end."""
    samples = torch.zeros(1, (lines[-1].end if lines else 0) + tail)
    for line in lines:
        samples[:, line.start : line.end] = line.samples
    return Waveform(samples, SAMPLE_RATE)


def equal_gains(lines: Sequence[SpokenLine]) -> list[float]:
    """Return a factor for each line that makes all speakers equally loud.

    A speaker's level is the RMS of all of the speaker's lines without their silences. All speakers come to the level
    of the loudest one, or as near as the peaks allow. Lines of one speaker keep their differences.
    """
    speakers = list(dict.fromkeys(line.speaker for line in lines))
    own = {name: [line.samples for line in lines if line.speaker == name] for name in speakers}
    levels = {name: speech_level(parts) for name, parts in own.items()}
    peaks = {name: max(float(part.abs().max()) for part in parts) for name, parts in own.items()}
    wanted = min([max(levels.values()), *(MAX_PEAK / peaks[name] * levels[name] for name in speakers if peaks[name])])
    return [wanted / levels[line.speaker] if levels[line.speaker] else 1.0 for line in lines]


def speech_level(parts: Sequence[Tensor]) -> float:
    """Return the RMS of samples [1, N_i] in their windows of 50 ms that are not silent; 0 for silence."""
    energies = torch.cat([window.square().mean()[None] for part in parts for window in part[0].split(WINDOW)])
    loud = energies[energies > (LOUD_SHARE**2) * energies.mean()]
    return math.sqrt(float(loud.mean())) if loud.numel() else 0.0
