"""The random numbers of a generation, drawn before the loop in upstream's order and shapes.

Upstream draws from the global generator: step by step, item by item, only where a step reveals something;
first [K, T, V] for the class if it is sampled, then [K, T] for the position (models/omnivoice.py:1371-1470,
1590). The same order here gives the same tokens for the same seed on every device, because the noise is always
drawn on the CPU. All position noise is stored (384 kB for 15 s at 32 steps). Class noise would take a thousand
times as much, so the generator's state before each draw is stored, and the draw is repeated when it is needed, while
the GPU computes the step before: only uniform numbers are drawn and copied, and no copy is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..config import LMConfig
from ..types import Sampling
from .schedule import reveal_counts, reveals

# Where torch keeps the 624 words of its CPU generator, a Mersenne Twister, as 64-bit numbers in the saved state.
STATE_WORDS = slice(24, 24 + 624 * 8)


def seeded_generator(seed: int) -> torch.Generator:
    """Return a CPU generator for a seed of up to 64 bits, all of which count.

    torch seeds with the low 32 bits only. Seeds below 2^32 keep torch's numbers, which are upstream's. Larger ones set
    the complete state from both words by `init_by_array`, the Mersenne Twister's own procedure for long seeds.
    """
    generator = torch.Generator().manual_seed(seed)
    low, high = seed % 2**32, seed >> 32
    if high:
        state, long_seeded = generator.get_state(), np.random.RandomState([low, high]).get_state(legacy=False)
        state.numpy()[STATE_WORDS].view(np.uint64)[:] = long_seeded["state"]["key"]
        generator.set_state(state)
    return generator


@dataclass(frozen=True, eq=False)
class ItemNoise:
    """Noise of one item.

    shape: (K, T, V). positions: Gumbel noise [steps, K, T] float32 for choosing positions, 0 at steps that reveal
    nothing; None when it is off. class_states: for each step, the generator's state before the class draw, or None.
    """

    shape: tuple[int, int, int]
    positions: Tensor | None
    class_states: tuple[Tensor | None, ...]

    def class_uniform(self, step: int, device: torch.device) -> Tensor | None:
        """Return uniform noise [K, T, V] float32 for sampling tokens (see `gumbel`), or None when it is off.

        On CUDA it is copied from pinned memory, which torch uses again once the copy has been made.
        """
        state = self.class_states[step]
        if state is None:
            return None
        generator, pinned = torch.Generator(), device.type == "cuda"
        generator.set_state(state)
        uniform = torch.rand(self.shape, generator=generator, pin_memory=pinned)
        return uniform.to(device, non_blocking=pinned)


def gumbel(uniform: Tensor) -> Tensor:
    """Return Gumbel noise from uniform numbers, with upstream's guards (models/omnivoice.py:1588)."""
    return -torch.log(-torch.log(uniform + 1e-10) + 1e-10)


def item_noise(
    config: LMConfig, frames: Sequence[int], generators: Sequence[torch.Generator], sampling: Sampling
) -> list[ItemNoise]:
    """Return the noise of items of these lengths, each drawn from its generator, as `draw_noise` does."""
    shapes = [(config.codebooks, T, config.audio_vocab_size) for T in frames]
    counts = [reveal_counts(config.codebooks * T, sampling.steps, sampling.t_shift) for T in frames]
    return draw_noise(generators, shapes, counts, sampling)


def fill_noise(config: LMConfig, opened: Tensor, generator: torch.Generator, sampling: Sampling) -> ItemNoise:
    """Return the noise of an item whose `opened` frames, [T] bool, are to be made.

    Only cells that a step may reveal draw noise, so that it does not depend on how much else of the recording there is.
    """
    K, T, V = config.codebooks, len(opened), config.audio_vocab_size
    frames = opened.nonzero()[:, 0]
    positions = torch.zeros(sampling.passes, K, T) if sampling.position_temperature > 0 else None
    states: list[Tensor | None] = [None] * sampling.passes
    order = [(books, count) for books, counts in reveals(len(frames), K, sampling) for count in counts]
    for step, (books, count) in enumerate(order):
        if count and sampling.class_temperature > 0:
            states[step] = generator.get_state()
            torch.rand(K, T, V, generator=generator)
        if count and positions is not None:
            drawn = gumbel(torch.rand(len(books), len(frames), generator=generator))
            positions[step, books.start : books.stop, frames] = drawn
    return ItemNoise((K, T, V), positions, tuple(states))


def draw_noise(
    generators: Sequence[torch.Generator],
    shapes: Sequence[tuple[int, int, int]],
    counts: Sequence[tuple[int, ...]],
    sampling: Sampling,
) -> list[ItemNoise]:
    """Return the noise of items of shape (K, T, V) that reveal counts[i][step] tokens.

    generators[i] is advanced. Items may share a generator; they then draw from it in turn at every step.
    """
    items, steps = range(len(shapes)), sampling.steps
    drawn = [torch.zeros(steps, K, T) if sampling.position_temperature > 0 else None for K, T, _ in shapes]
    states: list[list[Tensor | None]] = [[None] * steps for _ in items]
    for step in range(steps):
        for i in (i for i in items if counts[i][step]):
            K, T, V = shapes[i]
            if sampling.class_temperature > 0:
                states[i][step] = generators[i].get_state()
                torch.rand(K, T, V, generator=generators[i])
            if (positions := drawn[i]) is not None:
                positions[step] = gumbel(torch.rand(K, T, generator=generators[i]))
    return [ItemNoise(shapes[i], drawn[i], tuple(states[i])) for i in items]
