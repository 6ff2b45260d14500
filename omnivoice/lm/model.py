"""The OmniVoice language model: text and audio embeddings in, audio logits of the target rows out.

Audio position t of codebook k has its own embedding row, k * V + code; the K rows are summed (upstream
models/omnivoice.py:379). Embedding is separate from the forward pass, since only the targets change from
step to step. Unusual: no loss, no cache, no batch dimension. Sampling lives in `generate/`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import LMConfig
from ..ops import Ops
from .body import Body
from .layout import PackedLayout


class OmniVoiceLM(nn.Module):
    """Qwen3 body with audio embeddings and heads. State-dict keys equal the checkpoint's.

    Weights are left uninitialised: `weights.load` fills every one or refuses.
    """

    def __init__(self, config: LMConfig, *, ops: Ops, device: torch.device, dtype: torch.dtype):
        super().__init__()
        self.config = config
        self.dtype = dtype
        rows = config.codebooks * config.audio_vocab_size
        self.llm = Body(config, ops=ops, device=device, dtype=dtype)
        self.audio_embeddings = ops.Embedding(rows, config.hidden_size, device=device, dtype=dtype)
        self.audio_heads = ops.Linear(config.hidden_size, rows, bias=False, device=device, dtype=dtype)

    def get_dtype(self) -> torch.dtype:
        """The dtype of the weights and of the rows it expects (ComfyUI's patcher asks for it)."""
        return self.dtype

    def embed_text(self, ids: Tensor) -> Tensor:
        """Token ids [L] int64 -> rows [L, E]."""
        return self.llm.embed_tokens(ids)

    def embed_audio(self, codes: Tensor) -> Tensor:
        """Codes [K, T] int64, mask id included -> rows [T, E], the sum over codebooks."""
        K, _ = codes.shape
        offsets = torch.arange(K, device=codes.device)[:, None] * self.config.audio_vocab_size  # [K, 1]
        return self.audio_embeddings(codes + offsets).sum(dim=0)

    def forward(self, rows: Tensor, layout: PackedLayout) -> Tensor:
        """Embedded rows [S, E] -> logits [R, K, V] float32 of the R target rows."""
        hidden = self.llm(rows, layout)  # [R, E]
        logits = self.audio_heads(hidden).to(torch.float32)
        return logits.unflatten(-1, (self.config.codebooks, self.config.audio_vocab_size))
