"""Decoded audio in one piece of memory that is filled block by block, so that it is never there twice.

The memory is reserved for the longest recording allowed, and the system provides a page when it is written to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..types import Waveform
from .limits import check_audio_size, longest_audio

_BLOCK = 1 << 16


class SampleBuffer:
    """Float32 samples of `channels` channels. announced: how many there will be in each, 0 if that is not known."""

    def __init__(self, name: str, channels: int, sample_rate: int, announced: int = 0) -> None:
        self._name, self._rate = name, sample_rate
        self._capacity = announced or longest_audio(channels, sample_rate) + 1  # one too many, which is then refused
        self._flat = np.empty(channels * self._capacity, dtype=np.float32)
        self._rows = self._flat.reshape(channels, self._capacity)
        self.count = 0

    @property
    def room(self) -> int:
        """How many samples of each channel still fit."""
        return self._capacity - self.count

    def append(self, block: np.ndarray, order: Sequence[int] | None = None) -> None:
        """Take a block [C, n]; raises AudioError beyond the limits. order: which of its channels comes where."""
        C, n = block.shape
        check_audio_size(self._name, self.count + n, C, self._rate)
        for row, channel in enumerate(order or range(C)):
            self._rows[row, self.count : self.count + n] = block[channel]
        self.count += n

    def take(self) -> Waveform:
        """Return the audio [C, N] and give back the memory that is not needed. The buffer is then of no more use."""
        C, N = len(self._rows), self.count
        if self.room:
            for row in range(1, C):
                for first in range(0, N, _BLOCK):
                    last = min(first + _BLOCK, N)
                    self._flat[row * N + first : row * N + last] = self._rows[row, first:last]
            del self._rows  # a view, which must not outlive the memory that it shows
            self._flat.resize(C * N, refcheck=False)
        return Waveform(torch.from_numpy(self._flat.reshape(C, N)), self._rate)
