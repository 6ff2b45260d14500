"""The layers of a model in training: frozen, fully trained, or frozen with a trained LoRA.

A weight keeps its own dtype and device and is cast to the input's where it is used. So trained weights are float32
whatever dtype the model computes in, and frozen weights may stay on the CPU: with gradient checkpointing, which moves
them again for the backward pass, that is offloading. A LoRA computes what PEFT does (tuners/lora/layer.py of 0.21.2:
forward of Linear and Embedding), dropout included. `down` is LoRA A and `up` is LoRA B.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops import cast_to_input
from .settings import TrainSettings


class PlainLinear(nn.Module):
    """A linear layer without bias, weight [out, in], frozen or trained."""

    def __init__(self, weight: Tensor, *, trained: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=trained)

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return F.linear(x, cast_to_input(self.weight, x))


class PlainEmbedding(nn.Module):
    """An embedding, weight [rows, E], frozen or trained; dtype: of its output."""

    def __init__(self, weight: Tensor, *, trained: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=trained)
        self.dtype = dtype

    def forward(self, ids: Tensor) -> Tensor:
        """[...] int64 -> [..., E]."""
        return F.embedding(ids, self.weight.to(ids.device)).to(self.dtype)


class LowRankLinear(PlainLinear):
    """A frozen linear with a LoRA: down [r, in] starts random (Kaiming, as in PEFT), up [out, r] with zeros."""

    def __init__(
        self, weight: Tensor, settings: TrainSettings, generator: torch.Generator, device: torch.device
    ) -> None:
        super().__init__(weight, trained=False)
        (rows, columns), rank = weight.shape, settings.rank
        self.scale, self.dropout = settings.scale, settings.dropout
        bound = math.sqrt(1 / columns)  # kaiming_uniform_ with a = sqrt(5)
        down = torch.empty(rank, columns).uniform_(-bound, bound, generator=generator)
        self.down = nn.Parameter(down.to(device))
        self.up = nn.Parameter(torch.zeros(rows, rank, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        dropped = F.dropout(x, self.dropout, training=self.training) if self.dropout else x
        change = F.linear(F.linear(dropped, cast_to_input(self.down, x)), cast_to_input(self.up, x))
        return super().forward(x) + change * self.scale


class LowRankEmbedding(PlainEmbedding):
    """A frozen embedding with a LoRA: up [rows, r] starts with zeros, down [r, E] normal; PEFT's, transposed."""

    def __init__(
        self,
        weight: Tensor,
        settings: TrainSettings,
        generator: torch.Generator,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        super().__init__(weight, trained=False, dtype=dtype)
        (rows, columns), rank, self.scale = weight.shape, settings.rank, settings.scale
        self.down = nn.Parameter(torch.empty(rank, columns).normal_(generator=generator).to(device))
        self.up = nn.Parameter(torch.zeros(rows, rank, device=device))

    def forward(self, ids: Tensor) -> Tensor:
        """[...] int64 -> [..., E]."""
        return super().forward(ids) + (F.embedding(ids, self.up) @ self.down * self.scale).to(self.dtype)
