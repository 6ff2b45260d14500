"""LoRAs in one checked form, and what they do to a weight: W + strength * change.

A change belongs to a module of the checkpoint (`llm.layers.0.self_attn.q_proj`), by its name there, however the file
spelled it. `fused_rows` tells which rows of this engine's module it covers. Full weights that were trained with the
LoRA (PEFT's modules_to_save) are changes too, S - W, so strength scales them and LoRAs add up. Norms and the text
embedding cannot be changed: hosts patch only linears and embeddings, and the text embedding is not part of the module.
`lora_read` reads the files.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import LMConfig
from ..devices import dtype_name
from ..errors import LoraError
from ..lm.fused import fused_rows, part_rows


@dataclass(frozen=True, eq=False)
class LowRank:
    """scale * up @ down, with down [r, in] and up [out, r] in the dtype of the file, on the CPU."""

    down: Tensor
    up: Tensor
    scale: float

    @property
    def rank(self) -> int:
        return self.down.shape[0]

    def change(self, weight: Tensor) -> Tensor:
        """Return the change [out, in] float32, on the CPU."""
        return self.scale * (self.up.to(torch.float32) @ self.down.to(torch.float32))

    def norm(self, weight: Tensor) -> float:
        """Return the Frobenius norm of the change, from two Gram matrices [r, r] and without the full product."""
        up, down = self.up.to(torch.float64), self.down.to(torch.float64)
        return abs(self.scale) * math.sqrt(max(0.0, float(((up.T @ up) * (down @ down.T)).sum())))


@dataclass(frozen=True, eq=False)
class Difference:
    """A full difference [out, in] that is added to the weight."""

    values: Tensor

    def change(self, weight: Tensor) -> Tensor:
        """Return the change [out, in] float32, on the CPU."""
        return self.values.to(torch.float32)

    def norm(self, weight: Tensor) -> float:
        return _norm(self.values)


@dataclass(frozen=True, eq=False)
class Replacement:
    """A full weight [out, in] that was trained (modules_to_save); the change is its difference from the base."""

    values: Tensor

    def change(self, weight: Tensor) -> Tensor:
        """Return the change [out, in] float32, on the CPU. weight: the base without any patch, on any device."""
        return self.values.to(torch.float32) - weight.to(device="cpu", dtype=torch.float32)

    def norm(self, weight: Tensor) -> float:
        return _norm(self.change(weight))


Change = LowRank | Difference | Replacement


@dataclass(frozen=True, eq=False)
class LoRA:
    """A checked LoRA. source: its name in messages. changes: by module of the checkpoint. unused: names of tensors
    that are left out on purpose. consent: the note of its file on who allowed the use of the voice."""

    source: str
    changes: Mapping[str, Change]
    unused: tuple[str, ...] = ()
    consent: str = ""

    def describe(self) -> str:
        """Return its contents in words, such as "28 LoRA A/B pairs (rank 16, scale 2), 2 full weights"."""
        low_rank = [change for change in self.changes.values() if isinstance(change, LowRank)]
        ranks = ", ".join(str(rank) for rank in sorted({change.rank for change in low_rank}))
        scales = [f"{scale:g}" for scale in sorted({round(change.scale, 4) for change in low_rank})]
        scale = " to ".join(dict.fromkeys([*scales[:1], *scales[-1:]]))
        parts = [f"{_count(len(low_rank), 'LoRA A/B pair')} (rank {ranks}, scale {scale})"] if low_rank else []
        full = len(self.changes) - len(low_rank)
        return ", ".join([*parts, *([_count(full, "full weight")] if full else [])])


def lora_digest(lora: LoRA) -> str:
    """Return a hash of what a LoRA changes, whatever file it came from."""
    digest = hashlib.sha256()
    for module, change in sorted(lora.changes.items()):
        tensors = [change.down, change.up] if isinstance(change, LowRank) else [change.values]
        scale = change.scale if isinstance(change, LowRank) else 1.0
        kinds = [(str(tensor.dtype), tuple(tensor.shape)) for tensor in tensors]
        digest.update(repr((module, type(change).__name__, scale, kinds)).encode())
        for tensor in tensors:
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def lora_targets(config: LMConfig) -> dict[str, tuple[int, int]]:
    """Return {module of the checkpoint: (out, in)} of all that a LoRA may change, (rows, E) for embeddings."""
    E, rows = config.hidden_size, config.codebooks * config.audio_vocab_size
    shapes = {part: (out, E) for part, out in part_rows(config).items()}
    shapes |= {"o_proj": (E, config.heads * config.head_dim), "down_proj": (E, config.intermediate_size)}
    places = {part: "mlp" if part in ("gate_proj", "up_proj", "down_proj") else "self_attn" for part in shapes}
    layers = {
        f"llm.layers.{layer}.{places[part]}.{part}": shape
        for layer in range(config.layers)
        for part, shape in shapes.items()
    }
    return {**layers, "audio_embeddings": (rows, E), "audio_heads": (rows, E)}


def placed(lora: LoRA, config: LMConfig, *, fused: bool) -> Iterator[tuple[str, str, tuple[int, int] | None, Change]]:
    """Yield (module, weight in this engine's module, its rows there as (first, count) or None for all, change)."""
    rows = fused_rows(config) if fused else {}
    for module, change in lora.changes.items():
        weight, *place = rows.get(f"{module}.weight", (f"{module}.weight",))
        yield module, weight, (place[0], place[1]) if place else None, change


def merged(weight: Tensor, changes: Sequence[tuple[Change, float]], name: str, dtype: torch.dtype) -> Tensor:
    """Return `weight` plus each strength * change, summed in float32 and rounded once, to `dtype`.

    Raises LoraError, which names the weight, if the result overflows.
    """
    base = weight.to(torch.float32)
    result = sum((strength * change.change(weight) for change, strength in changes), start=base).to(dtype)
    if not bool(torch.isfinite(result).all()):
        raise LoraError(
            f"{name} overflows in {dtype_name(dtype)} with this LoRA: lower its strength, or use another dtype"
        )
    return result


def relative_size(lora: LoRA, weight_of: Callable[[str], Tensor], strength: float) -> float:
    """Return the norm of all changes over the norm of all weights that they change. weight_of: module -> base."""
    changes = weights = 0.0
    for module, change in lora.changes.items():
        weight = weight_of(module)
        changes += change.norm(weight) ** 2
        weights += _norm(weight) ** 2
    return abs(strength) * math.sqrt(changes / weights) if weights else math.inf


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _norm(values: Tensor) -> float:
    values = values.to(torch.float32) if values.dtype.itemsize == 1 else values  # torch widens larger ones in passing
    return float(torch.linalg.vector_norm(values, dtype=torch.float32))
