"""LoRA adapters in one checked form, and what one does to a weight: W + strength * change.

A change belongs to a module of the checkpoint (`llm.layers.0.self_attn.q_proj`), in the checkpoint's names whatever
spelling the file had; `fused_rows` says where its rows lie in this engine's module. Unusual: whole weights that were
trained along (PEFT's modules_to_save) are changes too, S - W, so strength scales them and adapters add up. Norms and
the text embedding take no change: hosts patch linears and embeddings alone, and the text embedding is no part of the
module. Reading adapters is `lora_read`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..config import LMConfig
from ..errors import LoraError
from ..intake.limits import check_number
from ..lm.fused import fused_rows, part_rows


@dataclass(frozen=True, eq=False)
class LowRank:
    """scale * up @ down; down [r, in], up [out, r], in the dtype of the file, on the CPU."""

    down: Tensor
    up: Tensor
    scale: float

    @property
    def rank(self) -> int:
        return self.down.shape[0]

    def change(self, weight: Tensor) -> Tensor:
        """[out, in] float32, on the CPU."""
        return self.scale * (self.up.to(torch.float32) @ self.down.to(torch.float32))

    def norm(self, weight: Tensor) -> float:
        """Frobenius norm of the change, from the two Gram matrices [r, r]: the product itself is never made."""
        up, down = self.up.to(torch.float64), self.down.to(torch.float64)
        return abs(self.scale) * math.sqrt(max(0.0, float(((up.T @ up) * (down @ down.T)).sum())))


@dataclass(frozen=True, eq=False)
class Difference:
    """A full difference [out, in], added as it is."""

    values: Tensor

    def change(self, weight: Tensor) -> Tensor:
        """[out, in] float32, on the CPU."""
        return self.values.to(torch.float32)

    def norm(self, weight: Tensor) -> float:
        return _norm(self.values)


@dataclass(frozen=True, eq=False)
class Replacement:
    """A whole weight [out, in] that was trained along; the change is its distance from the base."""

    values: Tensor

    def change(self, weight: Tensor) -> Tensor:
        """[out, in] float32, on the CPU. weight: the base, without any patch, on any device."""
        return self.values.to(torch.float32) - weight.to(device="cpu", dtype=torch.float32)

    def norm(self, weight: Tensor) -> float:
        return _norm(self.change(weight))


Change = LowRank | Difference | Replacement


@dataclass(frozen=True, eq=False)
class LoRA:
    """A checked adapter. changes: by module of the checkpoint. unused: names of tensors that are left out on purpose.
    source: what to call it in messages."""

    source: str
    changes: Mapping[str, Change]
    unused: tuple[str, ...] = ()

    def describe(self) -> str:
        """What is in it, in words."""
        pairs = [change for change in self.changes.values() if isinstance(change, LowRank)]
        ranks = ", ".join(str(rank) for rank in sorted({pair.rank for pair in pairs}))
        scales = sorted({round(pair.scale, 4) for pair in pairs})
        scale = f"{scales[0]:g}" if len(scales) == 1 else f"{scales[0]:g} to {scales[-1]:g}" if scales else ""
        parts = [f"{len(pairs)} low-rank pairs (rank {ranks}, scale {scale})"] if pairs else []
        whole = len(self.changes) - len(pairs)
        return ", ".join([*parts, *([f"{whole} whole weights"] if whole else [])])


def lora_targets(config: LMConfig) -> dict[str, tuple[int, int]]:
    """{module of the checkpoint: (out, in)} of everything that an adapter may change, with (rows, E) for embeddings."""
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
    """(module, weight in this engine's module, its rows (first, count) there or None for all, change)."""
    rows = fused_rows(config) if fused else {}
    for module, change in lora.changes.items():
        weight, start, count = rows.get(f"{module}.weight", (f"{module}.weight", -1, 0))
        yield module, weight, None if start < 0 else (start, count), change


def merge_into(tensors: MutableMapping[str, Tensor], lora: LoRA, strength: float) -> None:
    """Add strength * change to the checkpoint's tensors (by their names there), in float32, rounded to each one's
    dtype; replaced, never changed in place. At strength 0 nothing is touched. Raises InputError for the strength,
    LoraError if a weight overflows its dtype."""
    strength = check_number("strength", strength)
    if strength == 0:
        return
    for module, change in lora.changes.items():
        name = f"{module}.weight"
        tensors[name] = merged(tensors[name], [(change, strength)], module, tensors[name].dtype)


def merged(weight: Tensor, changes: Sequence[tuple[Change, float]], module: str, dtype: torch.dtype) -> Tensor:
    """One weight as `merge_into` makes it, with any number of (change, strength), rounded once, to `dtype`."""
    base = weight.to(torch.float32)
    result = sum((strength * change.change(weight) for change, strength in changes), start=base).to(dtype)
    if not bool(torch.isfinite(result).all()):
        raise LoraError(f"{module} overflows in {dtype} with this LoRA: lower its strength, or use another dtype")
    return result


def relative_size(lora: LoRA, weight_of: Callable[[str], Tensor], strength: float) -> float:
    """Norm of the change over the norm of the weights that it changes, taken together. weight_of: module -> base."""
    changes = weights = 0.0
    for module, change in lora.changes.items():
        weight = weight_of(module)
        changes += change.norm(weight) ** 2
        weights += _norm(weight) ** 2
    return abs(strength) * math.sqrt(changes / weights) if weights else math.inf


def _norm(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float32))
