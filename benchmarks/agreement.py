"""`python -m benchmarks.agreement MODEL TEXTS`: how often a lower precision predicts the same tokens as float32.

The model speaks each line of the file TEXTS in float32. At every third step the same codes are given to the other
precisions, and the most likely token of every masked cell is compared, with guidance. So an early difference does not
change what is compared later. GPUs are the simulated one of the tests: it computes what the GPU's code path asks for,
on the CPU, with float32 sums inside a product.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.report import table
from omnivoice import Engine, GenerationRequest, Sampling
from omnivoice.generate.noise import ItemNoise
from omnivoice.generate.pack import Item, PackedItems, pack_items
from omnivoice.generate.sample import Sampler
from omnivoice.generate.step import predict
from omnivoice.lm import OmniVoiceLM
from omnivoice.ops import PLAIN_OPS
from omnivoice.weights import load_lm, locate_checkpoint
from tests.simulated_cuda import CPU, CUDA, SimulatedCuda

EVERY = 3


def in_float8(weight: Tensor) -> Tensor:
    """Return what is left of a matrix that is stored in float8."""
    return weight.to(torch.float8_e4m3fn).to(weight.dtype)


def in_int8(weight: Tensor) -> Tensor:
    """Return what is left of a matrix that is stored in int8, with a scale for each row."""
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    return (weight / scale).round() * scale


# {name: (device, dtype, what storing does to the matrices of the layers)}
PRECISIONS: dict[str, tuple[torch.device, torch.dtype, Callable[[Tensor], Tensor] | None]] = {
    "CPU, bf16": (CPU, torch.bfloat16, None),
    "GPU, fp16": (CUDA, torch.float16, None),
    "GPU, bf16": (CUDA, torch.bfloat16, None),
    "GPU, fp32": (CUDA, torch.float32, None),
    "GPU, fp16 with weights in fp8": (CUDA, torch.float16, in_float8),
    "GPU, fp16 with weights in int8": (CUDA, torch.float16, in_int8),
}


@dataclass(frozen=True, eq=False)
class Teacher(Sampler):
    """Samples in float32 and gives the same codes to the other models. same, cells: the counts for each of them."""

    others: Mapping[str, tuple[OmniVoiceLM, torch.device]] = field(default_factory=dict)
    same: Counter[str] = field(default_factory=Counter)
    cells: Counter[str] = field(default_factory=Counter)
    _steps: dict[str, Callable[[Tensor], Tensor]] = field(default_factory=dict)

    def sample(
        self, items: Sequence[Item], noises: Sequence[ItemNoise], sampling: Sampling, on_step: Callable[[int], None]
    ) -> list[Tensor]:
        """Sample as usual; compare on the way."""
        for name, (lm, device) in self.others.items():
            packed = pack_items(lm, self.text, items, guided=self.is_guided(sampling), device=device)
            step = partial(predict, lm, packed, sampling.guidance, self.speedups)
            self._steps[name] = partial(_on, device, step, packed.base)
        return super().sample(items, noises, sampling, on_step)

    def _step(self, packed: PackedItems, codes: Tensor, sampling: Sampling, steps: int) -> Callable[[Tensor], Tensor]:
        run, asked = super()._step(packed, codes, sampling, steps), 0

        def compared(codes: Tensor) -> Tensor:
            nonlocal asked
            log_probs = run(codes)
            if asked % EVERY == 0:
                masked = (codes == self.lm.config.audio_mask_id).t()
                for name, other in self._steps.items():
                    equal = other(codes).cpu().argmax(-1) == log_probs.argmax(-1)
                    self.same[name] += int(equal[masked].sum())
                    self.cells[name] += int(masked.sum())
            asked += 1
            return log_probs

        return compared


def _on(device: torch.device, step: Callable[[Tensor, Tensor], Tensor], base: Tensor, codes: Tensor) -> Tensor:
    return step(codes.to(device), base)


def measure(model: Path, texts: Sequence[str], steps: int) -> list[tuple[str, str, str]]:
    """Return (precision, agreement in percent, number of cells) for every precision."""
    with SimulatedCuda() as cuda, torch.no_grad():
        engine, others = Engine.load(model), {}
        for name, (device, dtype, stored) in PRECISIONS.items():
            lm = Engine.load(model, dtype=dtype).lm if device == CPU else gpu_model(model, dtype)
            for place, weight in engine.lm.named_parameters():
                if stored is not None and place.endswith("_proj.weight"):
                    lm.get_parameter(place).copy_(stored(weight))
            if device == CUDA:
                cuda.place(lm)
            others[name] = (lm, device)
        taught = Teacher(
            engine.lm, engine.sampler.text, CPU, engine.sampler.speedups, engine.sampler.graphs, others=others
        )
        engine.sampler = taught
        for seed, text in enumerate(texts):
            sampling = Sampling(steps=steps)
            engine.generate([GenerationRequest(text, language="en", seed=seed, sampling=sampling, post_process=False)])
    shares = {name: 100 * taught.same[name] / taught.cells[name] for name in others}
    return [(name, f"{share:.2f}", f"{taught.cells[name]:,}") for name, share in shares.items()]


def gpu_model(model: Path, dtype: torch.dtype) -> OmniVoiceLM:
    """Return the language model as it is loaded for a GPU: with heads of the same dtype."""
    files = locate_checkpoint(model)
    lm, _ = load_lm(files.lm_config, files.lm_weights, ops=PLAIN_OPS, device=CPU, dtype=dtype, used_ids=[0])
    return lm


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a model folder or file")
    parser.add_argument("texts", type=Path, help="a text file, one sentence on each line")
    parser.add_argument("--lines", type=int, default=6, help="how many lines to speak (default 6)")
    parser.add_argument("--steps", type=int, default=32)
    options = parser.parse_args(arguments)
    texts = [line.strip() for line in options.texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = measure(options.model, texts[: options.lines], options.steps)
    print(table(("precision", "same as float32, %", "cells"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
