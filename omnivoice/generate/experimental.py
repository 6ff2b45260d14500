"""EXPERIMENTAL shortcuts that change the result, off by default: stale guidance and kept prefixes.

Stale guidance (`unconditional_every` = n): the unconditional documents run at every n-th step only, and at the first
and the last; between them their last logits are used again, for cells revealed meanwhile too. Kept prefixes
(`prefix_refresh` = r): keys and values of prompt and reference rows are computed anew once r of the schedule's tokens
have been revealed since the last time; between them the layers run on the other rows alone.

Each is exact in its limit: n = 1 and r = 0 never come here, and with r so small that every step refreshes, the tokens
are equal. What a step computes follows from the sampling alone, not from the items, so that an item's tokens still
do not depend on its neighbours; "last" is therefore the last step of the schedule, not of an item that is done
earlier. Documents are always packed, and no CUDA graph is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ..lm import OmniVoiceLM
from ..lm.prefix import PrefixCache
from ..types import Sampling, Speedups
from .pack import PackedItems
from .schedule import time_grid
from .step import guided_log_probs


def is_experimental(sampling: Sampling) -> bool:
    """Whether any of this is asked for."""
    return sampling.unconditional_every != 1 or sampling.prefix_refresh != 0


@dataclass(frozen=True)
class Pass:
    """What a step computes. unconditional: those documents too. prefix: the rows before the targets too."""

    unconditional: bool
    prefix: bool


def passes(sampling: Sampling) -> tuple[Pass, ...]:
    """One for each step."""
    revealed = time_grid(sampling.steps, sampling.t_shift)  # before each step, as a share of all tokens
    found, refreshed = list[Pass](), 0.0
    for step in range(sampling.steps):
        fresh = step == 0 or revealed[step] - refreshed >= sampling.prefix_refresh
        refreshed = revealed[step] if fresh else refreshed
        guided = step % sampling.unconditional_every == 0 or step == sampling.steps - 1
        found.append(Pass(unconditional=guided, prefix=fresh))
    return tuple(found)


class ExperimentalSteps:
    """Called like the exact step, once for each step from the first on: codes [K, sum of T] -> log-probabilities.

    Holds what is carried from step to step: the prefixes, and the unconditional logits [sum of T, K, V].
    """

    def __init__(self, lm: OmniVoiceLM, packed: PackedItems, sampling: Sampling, speedups: Speedups):
        self._lm, self._sampling, self._speedups = lm, sampling, speedups
        self._guided, self._passes = packed.guided, iter(passes(sampling))
        whole = {True: packed, False: conditional_only(packed)}
        self._packed = {
            Pass(unconditional, prefix): items if prefix else targets_alone(items)
            for unconditional, items in whole.items()
            for prefix in (True, False)
        }
        layout, items = packed.layout, len(packed.frames)
        rows = [length - targets for length, targets in zip(layout.lengths[:items], layout.target_lengths)]
        self._prefixes = PrefixCache(lm.config.layers, rows) if sampling.prefix_refresh else None
        self._unconditional: Tensor | None = None

    def __call__(self, codes: Tensor) -> Tensor:
        now = next(self._passes)
        conditional, unconditional = self._logits(codes, now), self._unconditional
        if now.unconditional and self._guided:
            conditional, unconditional = conditional.chunk(2)
            if self._sampling.unconditional_every > 1:
                self._unconditional = unconditional.clone()  # a view would keep the other half too
        return guided_log_probs(
            conditional, unconditional, self._sampling.guidance, self._speedups, self._lm.config.audio_mask_id
        )

    def _logits(self, codes: Tensor, now: Pass) -> Tensor:
        """[R, K, V] of the documents of this pass."""
        packed, cache = self._packed[now], self._prefixes
        sees = None if cache is None else cache.keep if now.prefix else cache.join
        rows = packed.rows(self._lm, codes, packed.base)
        return self._lm(rows, packed.layout, targets_only=self._speedups.targets_only, sees=sees)


def conditional_only(packed: PackedItems) -> PackedItems:
    """The same items without their unconditional documents."""
    layout = packed.layout.first(len(packed.frames))
    return replace(packed, base=packed.base[: sum(layout.lengths)], layout=layout, guided=False)


def targets_alone(packed: PackedItems) -> PackedItems:
    """The same documents without the rows before their targets."""
    layout = packed.layout.targets_alone()
    base = packed.base[: len(layout.target_rows)]  # for its size: every row of it will be put in place
    return replace(packed, base=base, layout=layout)
