"""The sampling loop: a batch of items from all-masked to codes.

The items of one call have the same sampling settings and are packed together. Each has its own noise, so its tokens do
not depend on the other items. Everything that is constant over the steps is made before the loop. Nothing inside the
loop waits for the device, except that the host stays at most two steps ahead of it (`pace.py`). The model stops running
when nothing is masked any more: short items are complete before the last step. Whether the log-probabilities were
finite is checked once, after the loop. `run.py` decides what goes into a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..devices import dtype_name
from ..errors import NumericError
from ..lm import OmniVoiceLM, TextEmbedding
from ..lm.attention import reads_lengths_on_device
from ..types import Sampling, Speedups
from .addresses import FindAddresses, weight_addresses
from .approximate import ApproximateSteps, is_approximate
from .buckets import filler, rounded
from .graphs import APPROXIMATE, StepGraphs, pays
from .noise import ItemNoise
from .pace import Pace
from .pack import Item, PackedItems, pack_items
from .stages import first_codes, stages
from .step import predict


@dataclass(frozen=True, eq=False)
class Sampler:
    """The language model, the device it computes on, and its CUDA graphs. `sample` is the loop.

    addresses: finds where the weights are, for graphs; a host that moves weights has one of its own.
    """

    lm: OmniVoiceLM
    text: TextEmbedding
    device: torch.device
    speedups: Speedups
    graphs: StepGraphs
    addresses: FindAddresses = weight_addresses

    def is_guided(self, sampling: Sampling) -> bool:
        """Whether these settings need unconditional documents."""
        return sampling.guidance != 0 or not self.speedups.skip_unguided

    def rows(self, items: Sequence[Item], sampling: Sampling) -> int:
        """Return how many packed rows the items take."""
        return sum(item.length + (item.frames if self.is_guided(sampling) else 0) for item in items)

    def sample(
        self, items: Sequence[Item], noises: Sequence[ItemNoise], sampling: Sampling, on_step: Callable[[int], None]
    ) -> list[Tensor]:
        """Return the codes of each item, [K, T] int64 on the CPU.

        Calls `on_step(len(items))` `sampling.passes` times, and `on_step(0)` at the steps of a second try: if float16
        overflows, the model continues in bfloat16 and the batch starts again. Raises NumericError if the output is
        still not finite.
        """
        codes = self._decode(items, noises, sampling, lambda: on_step(len(items)))
        if codes is None and self.lm.continue_in_bfloat16():
            self.graphs.clear("the model continues in bfloat16")
            codes = self._decode(items, noises, sampling, lambda: on_step(0))
        if codes is None:
            tried = "float16 and bfloat16" if self.lm.overflowed else dtype_name(self.lm.get_dtype())
            raise NumericError(
                f"the model produced NaN or Inf in {tried} on {self.device.type}: load it in fp32, and check the model "
                "file"
            )
        return [part.clone() for part in codes.cpu().split([item.frames for item in items], dim=1)]

    def _decode(
        self, items: Sequence[Item], noises: Sequence[ItemNoise], sampling: Sampling, after_step: Callable[[], None]
    ) -> Tensor | None:
        """Return the codes of all items, [K, sum of T] on the device, or None if a step was not finite."""
        config, device, speedups = self.lm.config, self.device, self.speedups
        each = list(stages(items, noises, sampling, config, device))
        order = [(stage, counts) for stage in each for counts in stage.counts]
        steps = sum(any(counts) for _, counts in order)
        together = [*items, *self._filler(items, sampling, steps)]
        packed = pack_items(self.lm, self.text, together, guided=self.is_guided(sampling), device=device)
        codes = first_codes(items, config, device)
        run = self._step(packed, codes, sampling, steps)
        total = torch.zeros((), device=device)
        pace = Pace(device)
        for step, (stage, counts) in enumerate(order):
            if any(counts) or not speedups.early_stop:
                log_probs = run(stage.shown(codes))
                if any(counts):
                    codes, best = stage.revealer.reveal(codes, log_probs, step, counts)
                    total = total + best
            pace()
            after_step()
        return codes if math.isfinite(total) else None

    def _filler(self, items: Sequence[Item], sampling: Sampling, steps: int) -> list[Item]:
        """Return the item that fills up this batch, if its steps may be captured in a graph that serves others too."""
        if is_approximate(sampling) or not self.speedups.packed or not self.graphs.suit(self.device):
            return []
        config, extra = self.lm.config, filler(items)
        place = (self.device, self.lm.get_dtype(), config.heads, config.kv_heads, config.head_dim)
        return [extra] if pays(self.rows([*items, extra], sampling), steps) and reads_lengths_on_device(*place) else []

    def _step(self, packed: PackedItems, codes: Tensor, sampling: Sampling, steps: int) -> Callable[[Tensor], Tensor]:
        """Return `predict` for this batch, as a CUDA graph where that pays: codes [K, sum of T] -> log-probabilities.

        codes: those of the first step, without those of a filler. Approximate settings use `ApproximateSteps`, without
        graphs.
        """
        if is_approximate(sampling):
            self.graphs.note(APPROXIMATE, packed.base.device)
            return ApproximateSteps(self.lm, packed, sampling, self.speedups)
        lm, guidance, speedups, frames = self.lm, sampling.guidance, self.speedups, codes.shape[1]
        filled = sum(packed.frames) - frames
        packed = packed.bounded(rounded) if filled else packed
        layout = packed.layout

        def widened(codes: Tensor) -> Tensor:
            return F.pad(codes, (0, filled), value=lm.config.audio_mask_id) if filled else codes

        def step(codes: Tensor, *constants: Tensor) -> Tensor:
            return predict(lm, packed.around(constants), guidance, speedups, codes, constants[0])

        lengths = (layout.rows.longest, layout.targets.longest) if filled else (layout.lengths, layout.target_lengths)
        run = self.graphs.runner(
            (*lengths, guidance, speedups),
            step,
            widened(codes),
            packed.constants,
            weights=self.addresses(lm, packed.base.device),
            steps=steps,
        )
        return lambda codes: run(widened(codes))[:frames]
