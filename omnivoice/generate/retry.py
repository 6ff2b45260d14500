"""Batches that do not fit into memory: one more try with half as much at a time, then an error that says what to do.

Estimates decide how much runs together (`estimate`), but other programs may take the memory meanwhile. Nothing else is
caught, and the tokens stay the same, since the noise is drawn before and the split into batches changes no token.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.cuda import OutOfMemoryError

from ..devices import LESS_AT_A_TIME, device_errors_in_words
from ..errors import DeviceMemoryError
from ..types import OnStep, Sampling
from .noise import ItemNoise
from .pack import Item
from .sample import Sampler

Split = Callable[[Sequence[Item], Sampling, int], list[list[int]]]  # items, settings, most rows -> indices by batch
_LOG = logging.getLogger("omnivoice_nodes")


@dataclass
class Work:
    """The batches of one run and its progress. total: steps of all items. split: where to cut a batch that has to be
    smaller. After memory has run out once, no batch has more than `most_rows` rows, as long as it can be split."""

    sampler: Sampler
    split: Split
    total: int
    on_step: OnStep | None
    done: int = 0
    repeated: int = 0  # steps that are done again and have been reported already
    most_rows: int = 0

    def sample(self, items: Sequence[Item], noises: Sequence[ItemNoise], sampling: Sampling) -> list[Tensor]:
        """Return the codes of each item of a batch; raises DeviceMemoryError if memory runs out again, and
        DeviceError if the device has failed."""
        if not self.most_rows:
            before = self.done
            codes = self._try(items, noises, sampling)
            if codes is not None:
                return codes
            self.most_rows, self.repeated = max(1, self.sampler.rows(items, sampling) // 2), self.done - before
            self.sampler.graphs.clear("out of memory")
            _LOG.warning("%s is out of memory: trying again with half as much at a time", self.sampler.device)
        results: list[Tensor] = []
        for batch in self.split(items, sampling, self.most_rows):
            codes = self._try([items[i] for i in batch], [noises[i] for i in batch], sampling)
            if codes is None:
                raise DeviceMemoryError(
                    f"{self.sampler.device} is out of memory, even with half as much at a time: {LESS_AT_A_TIME}"
                )
            results += codes
        return results

    def _try(self, items: Sequence[Item], noises: Sequence[ItemNoise], sampling: Sampling) -> list[Tensor] | None:
        """Return the codes, or None if memory runs out. The error is gone then, and with it all it kept in memory."""
        try:
            with device_errors_in_words(self.sampler.device):
                return self.sampler.sample(items, noises, sampling, self._advance)
        except OutOfMemoryError:
            return None

    def _advance(self, items: int) -> None:
        """Report one step of a batch of that many items: however chunks are batched, a step of three counts three."""
        known = min(items, self.repeated)
        self.repeated -= known
        self.done += items - known
        if self.on_step is not None:
            self.on_step(self.done, self.total)
