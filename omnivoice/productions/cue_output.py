"""Where the speech of cues goes: into one recording in memory, or piece by piece from the disk, where it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from ..constants import SAMPLE_RATE
from ..errors import InputError
from ..types import GenerationPlan, Speech, Waveform
from .parts import to_int16

_PIECE = 60 * SAMPLE_RATE  # samples of silence in one piece


class CueOutput(Protocol):
    """Takes the speech of cues. batch_seconds: how much speech is in memory at once."""

    batch_seconds: float

    def reserve(self, most: int) -> None:
        """Prepare for at most this many samples."""

    def put(self, start: int, plan: GenerationPlan, samples: Tensor) -> None:
        """Add samples [N], the speech of `plan`."""

    def finish(self, length: int) -> float:
        """Note the length of the recording and return its peak, which is lowered to 1 if it is above."""


class CuesInMemory:
    """The recording as one tensor. waveform: [1, N], once it is finished."""

    batch_seconds = 600.0

    def __init__(self) -> None:
        self._samples = torch.zeros(1, 0)

    def reserve(self, most: int) -> None:
        """Make room for `most` samples."""
        self._samples = torch.zeros(1, most)

    def put(self, start: int, plan: GenerationPlan, samples: Tensor) -> None:
        """Add the samples to the recording."""
        self._samples[0, start : start + len(samples)] += samples

    def finish(self, length: int) -> float:
        """Cut the recording to its length, and lower it if its peak is above 1; return the peak before."""
        self._samples = self._samples[:, :length]
        peak = float(self._samples.abs().max())
        self._samples = self._samples / peak if peak > 1 else self._samples
        return peak

    @property
    def waveform(self) -> Waveform:
        """The recording."""
        return Waveform(self._samples, SAMPLE_RATE)


class ReadSpeech(Protocol):
    """Returns the speech of a plan that has run, None if it is gone (`KeptSpeech.speech_of`)."""

    def __call__(self, plan: GenerationPlan, /) -> Speech | None: ...


class CuesOnDisk:
    """The recording from speech that is kept on the disk; only what is heard at once is in memory."""

    batch_seconds = 60.0

    def __init__(self, read: ReadSpeech) -> None:
        self._read = read
        self._places, self._length, self._gain = list[tuple[int, int, GenerationPlan]](), 0, 1.0

    def reserve(self, most: int) -> None:
        """Do nothing: the recording is never in memory."""

    def put(self, start: int, plan: GenerationPlan, samples: Tensor) -> None:
        """Note where the speech belongs."""
        self._places.append((start, start + len(samples), plan))

    def finish(self, length: int) -> float:
        """Note the length; return the peak, which is computed only if cues are heard at once."""
        self._length = length
        self._places.sort(key=lambda place: place[0])
        if all(before[1] <= after[0] for before, after in pairwise(self._places)):
            return 0.0
        peak = max(float(piece.abs().max()) for piece in self._mixed() if len(piece))
        self._gain = 1 / peak if peak > 1 else 1.0
        return peak

    def pieces(self) -> Iterator[Tensor]:
        """Yield the recording [N_i] int16 piece by piece. Raises InputError if speech has disappeared meanwhile."""
        for piece in self._mixed():
            yield to_int16(piece * self._gain if self._gain != 1 else piece)

    def _mixed(self) -> Iterator[Tensor]:
        """Yield the recording [N_i] float32: what no later cue adds to, as soon as that is known."""
        tail, done = torch.zeros(0), 0
        for start, _, plan in self._places:
            ready = min(len(tail), start - done)
            yield tail[:ready]
            yield from _silence(start - done - ready)
            tail, done = tail[ready:], start
            speech = self._read(plan)
            if speech is None:
                raise InputError("finished speech has disappeared from the disk: run the same command again")
            samples = speech.waveform.samples[0]
            tail = torch.nn.functional.pad(tail, (0, max(0, len(samples) - len(tail))))
            tail[: len(samples)] += samples
        yield tail
        yield from _silence(self._length - done - len(tail))


def _silence(count: int) -> Iterator[Tensor]:
    """Yield `count` zeros in pieces."""
    while count > 0:
        yield torch.zeros(min(count, _PIECE))
        count -= _PIECE
