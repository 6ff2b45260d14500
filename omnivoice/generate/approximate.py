"""Approximate steps: two shortcuts that skip work and change the result. Both are off by default.

`unconditional_every` = n: the unconditional documents are computed every n steps and at the last step; the steps
between reuse their latest logits. `prefix_every` = n: the keys and values of the prefix (prompt and reference) are
computed every n steps, together with the unconditional documents; the steps between run the layers on the target
rows only. The schedule of both together is that of the MLX port (see `presets.py`), which has been measured on the
published weights; computing the last step is our addition, and makes no difference to the `fast` preset.

At 1 a shortcut is off and the exact step is used. What a step computes depends on the sampling settings only, never
on the items, so an item's tokens still do not depend on what else is in the batch. "The last step" is therefore that
of the schedule, even for an item that is complete before it. Documents are always packed, and no CUDA graph is
captured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ..lm import OmniVoiceLM
from ..lm.prefix import PrefixCache
from ..types import Sampling, Speedups
from .pack import PackedItems
from .step import guided_log_probs


def is_approximate(sampling: Sampling) -> bool:
    """Whether these settings use a shortcut that changes the result."""
    return sampling.unconditional_every != 1 or sampling.prefix_every != 1


@dataclass(frozen=True)
class Pass:
    """What one step computes in addition to the target rows of the conditional documents."""

    unconditional: bool
    prefix: bool


def passes(sampling: Sampling) -> tuple[Pass, ...]:
    """Return what each step computes."""
    found = []
    for step in range(sampling.passes):
        prefix = step % sampling.prefix_every == 0
        due = step % sampling.unconditional_every == 0 or step == sampling.passes - 1
        found.append(Pass(unconditional=due or (prefix and sampling.prefix_every > 1), prefix=prefix))
    return tuple(found)


class ApproximateSteps:
    """Called like the exact step, once for each step in order: codes [K, sum of T] -> log-probabilities [R, K, V].

    Holds what is carried from step to step: the prefix cache, and the unconditional logits [sum of T, K, V].
    """

    def __init__(self, lm: OmniVoiceLM, packed: PackedItems, sampling: Sampling, speedups: Speedups):
        self._lm, self._sampling, self._speedups = lm, sampling, speedups
        self._guided, self._passes = packed.guided, iter(passes(sampling))
        documents = {True: packed, False: conditional_only(packed)}
        self._packed = {
            Pass(unconditional, prefix): items if prefix else without_prefix(items)
            for unconditional, items in documents.items()
            for prefix in (True, False)
        }
        caches = sampling.prefix_every > 1
        self._prefixes = PrefixCache(lm.config.layers, packed.layout.target_rows) if caches else None
        self._unconditional: Tensor | None = None

    def __call__(self, codes: Tensor) -> Tensor:
        now = next(self._passes)
        packed, cache = self._packed[now], self._prefixes
        kv = None if cache is None else cache.refresh if now.prefix else cache.reuse
        rows = packed.rows(self._lm, codes, packed.base)
        conditional = self._lm(rows, packed.layout, targets_only=self._speedups.targets_only, kv=kv)
        unconditional = self._unconditional
        if now.unconditional and self._guided:
            conditional, unconditional = conditional.chunk(2)
            if self._sampling.unconditional_every > 1:
                self._unconditional = unconditional.clone()  # a view would keep the conditional half alive too
        return guided_log_probs(
            conditional, unconditional, self._sampling.guidance, self._speedups, self._lm.config.audio_mask_id
        )


def conditional_only(packed: PackedItems) -> PackedItems:
    """Return the same items without their unconditional documents."""
    layout = packed.layout.first(len(packed.frames))
    return replace(packed, base=packed.base[: sum(layout.lengths)], layout=layout, guided=False)


def without_prefix(packed: PackedItems) -> PackedItems:
    """Return the same documents without the rows before their targets."""
    layout = packed.layout.without_prefix()
    base = packed.base[: len(layout.target_rows)]  # only its size matters: a step writes every row of it
    return replace(packed, base=base, layout=layout)
