"""The OmniVoice language model: text and audio embeddings in, audio logits of the target rows out.

Audio position t of codebook k has its own embedding row, k * V + code; the K rows are summed (upstream
models/omnivoice.py:379). Embedding is separate from the forward pass, since only the targets change from
step to step. Unusual: no loss, no cache, no batch dimension; and the text embedding, a quarter of all weights of
which a request reads some dozens of rows, is not part of the module: it stays on the CPU. Sampling lives in
`generate/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..config import LMConfig
from ..ops import Ops
from .body import Body
from .layout import PackedLayout
from .prefix import KeyValueHook


@dataclass(frozen=True, eq=False)
class TextEmbedding:
    """The rows of text tokens: weight [vocabulary, E] on the CPU, in the dtype of the file and mapped from it."""

    weight: Tensor

    def rows(self, ids: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Token ids, L of them -> rows [L, E]."""
        return self.weight[torch.tensor(ids)].to(device=device, dtype=dtype)


class OmniVoiceLM(nn.Module):
    """Qwen3 body with audio embeddings and heads. State-dict keys equal the checkpoint's, but for fused linears.

    Weights are left uninitialised: `weights.load` fills every one or refuses. fused: see `lm/fused.py`.
    """

    def __init__(self, config: LMConfig, *, ops: Ops, device: torch.device, dtype: torch.dtype, fused: bool = True):
        super().__init__()
        self.config = config
        self.dtype = dtype
        rows = config.codebooks * config.audio_vocab_size
        self.llm = Body(config, ops=ops, fused=fused, device=device, dtype=dtype)
        self.audio_embeddings = ops.Embedding(rows, config.hidden_size, device=device, dtype=dtype)
        self.audio_heads = ops.Linear(config.hidden_size, rows, bias=False, device=device, dtype=dtype)

    def get_dtype(self) -> torch.dtype:
        """The dtype of the weights and of the rows it expects (ComfyUI's patcher asks for it)."""
        return self.dtype

    def audio_offsets(self, device: torch.device) -> Tensor:
        """[K, 1] int64: where each codebook's rows begin in the audio embedding."""
        return torch.arange(self.config.codebooks, device=device)[:, None] * self.config.audio_vocab_size

    def embed_audio(self, codes: Tensor, offsets: Tensor) -> Tensor:
        """Codes [K, T] int64, mask id included -> rows [T, E], the sum over codebooks. offsets: `audio_offsets`."""
        return self.audio_embeddings(codes + offsets).sum(dim=0)

    def forward(
        self, rows: Tensor, layout: PackedLayout, *, targets_only: bool = True, kv: Sequence[KeyValueHook] | None = None
    ) -> Tensor:
        """Embedded rows [S, E] -> logits [R, K, V] float32 of the R target rows.

        targets_only=False computes every row in the last layer, to the same result. kv: see `Body.forward`.
        """
        hidden = self.llm(rows, layout, targets_only=targets_only, kv=kv)  # [R, E]
        logits = self.audio_heads(hidden).to(torch.float32)
        return logits.view(-1, self.config.codebooks, self.config.audio_vocab_size)
