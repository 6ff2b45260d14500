"""Residual vector quantization with Euclidean codebooks (modeling_higgs_audio_v2_tokenizer.py:159-208, 399-450).

Distances are computed in upstream's order of operations, because a better conditioned form would decide near ties
differently. Codebooks are raw parameters, not buffers, and have no moving averages.
"""

from __future__ import annotations

import hashlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import CodecConfig
from ..ops import cast_to_input
from .layers import LayerFactory, exact_linear


class Codebook(nn.Module):
    """One codebook: a table of vectors [codes, D]."""

    def __init__(self, size: int, width: int, layers: LayerFactory):
        super().__init__()
        self.embed = layers.parameter(size, width)

    def nearest(self, x: Tensor) -> Tensor:
        """Return the nearest code of each vector: [T, D] -> [T] int64; the lowest of equally near ones."""
        embed = cast_to_input(self.embed, x)
        squares = x.pow(2).sum(dim=1, keepdim=True)  # [T, 1]
        return (squares - (2 * x) @ embed.T + embed.pow(2).sum(dim=1)).argmin(dim=1)

    def forward(self, codes: Tensor) -> Tensor:
        """Return the vector of each code: [T] int64 -> [T, D] float32 on the device of the codes."""
        return F.embedding(codes, self.embed.to(device=codes.device, dtype=torch.float32))


class Stage(nn.Module):
    """One level of the quantizer: a narrow codebook between two projections."""

    def __init__(self, config: CodecConfig, layers: LayerFactory):
        super().__init__()
        self.codebook = Codebook(config.codebook_size, config.codebook_dim, layers)
        self.project_in = layers.linear(config.hidden_size, config.codebook_dim)
        self.project_out = layers.linear(config.codebook_dim, config.hidden_size)

    def nearest(self, x: Tensor) -> Tensor:
        """Return the nearest codes: [T, E] -> [T] int64."""
        return self.codebook.nearest(exact_linear(self.project_in, x))

    def forward(self, codes: Tensor) -> Tensor:
        """Return the vectors of codes: [T] -> [T, E]."""
        return exact_linear(self.project_out, self.codebook(codes))


class ResidualQuantizer(nn.Module):
    """Stages in sequence; each codes the residual that the stages before it leave."""

    def __init__(self, config: CodecConfig, layers: LayerFactory):
        super().__init__()
        self.quantizers = nn.ModuleList([Stage(config, layers) for _ in range(config.codebooks)])

    def encode(self, x: Tensor) -> Tensor:
        """Return the codes of vectors: [T, E] -> [K, T] int64."""
        codes = []
        for stage in self.quantizers:
            assert isinstance(stage, Stage)
            codes.append(stage.nearest(x))
            x = x - stage(codes[-1])
        return torch.stack(codes)

    def forward(self, codes: Tensor) -> Tensor:
        """Return the sum of the stages' vectors: codes [K, T], K at most the number of stages -> [T, E]."""
        parts = [stage(row) for stage, row in zip(self.quantizers, codes)]
        return sum(parts[1:], start=parts[0])


def codebook_fingerprint(quantizer: ResidualQuantizer) -> str:
    """Return 16 hex digits that identify the codebooks: the start of a SHA-256 over their values.

    Voices remember it, so it must not depend on where a host keeps the weights or in which dtype. The values are
    hashed in bfloat16, so that a copy of a codec converted to it keeps the fingerprint of the original.
    """
    digest = hashlib.sha256()
    for stage in quantizer.quantizers:
        assert isinstance(stage, Stage)
        values = stage.codebook.embed.detach().to(device="cpu", dtype=torch.bfloat16)
        digest.update(repr(tuple(values.shape)).encode())
        digest.update(values.contiguous().view(torch.int16).numpy().astype("<i2").tobytes())
    return digest.hexdigest()[:16]
