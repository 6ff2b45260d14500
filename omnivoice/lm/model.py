"""The OmniVoice language model: text and audio embeddings in, audio logits of the target rows out.

A code of codebook k has the embedding row k * V + code, and the K rows of a frame are summed (upstream
models/omnivoice.py:379). Embedding is separate from the forward pass, because only the targets change from step to
step. There is no loss and no batch dimension. The text embedding is a quarter of all weights, and a request reads a few
dozen rows of it; it is not part of the module and stays on the CPU. Sampling is in `generate/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..config import LMConfig
from ..ops import Ops, convert_weights
from .body import Body
from .layout import PackedLayout
from .norm import RMSNorm, wide
from .prefix import KeyValueHook


@dataclass(frozen=True, eq=False)
class TextEmbedding:
    """The rows of text tokens: weight [vocabulary, E] on the CPU, in the file's dtype and memory-mapped from it."""

    weight: Tensor

    def rows(self, ids: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Token ids, L of them -> rows [L, E]."""
        return self.weight[torch.tensor(ids)].to(device=device, dtype=dtype)


class OmniVoiceLM(nn.Module):
    """Qwen3 body with audio embeddings and heads. State-dict keys equal the checkpoint's, except for fused layers.

    Weights are not initialised here: `weights.load` sets every one of them. dtype: of the matrices and of what is
    multiplied by them; norms are kept in float32. heads_dtype: that of the heads, if another. fused: see
    `lm/fused.py`.
    """

    def __init__(
        self,
        config: LMConfig,
        *,
        ops: Ops,
        device: torch.device,
        dtype: torch.dtype,
        heads_dtype: torch.dtype | None = None,
        fused: bool = True,
    ):
        super().__init__()
        self.config = config
        self.dtype = dtype
        self.overflowed = False
        rows, heads_dtype = config.codebooks * config.audio_vocab_size, heads_dtype or dtype
        self.llm = Body(config, ops=ops, fused=fused, device=device, dtype=dtype, output_dtype=heads_dtype)
        self.audio_embeddings = ops.Embedding(rows, config.hidden_size, device=device, dtype=dtype)
        self.audio_heads = ops.Linear(config.hidden_size, rows, bias=False, device=device, dtype=heads_dtype)

    def get_dtype(self) -> torch.dtype:
        """Return the dtype of the weights (ComfyUI's patcher calls this)."""
        return self.dtype

    def continue_in_bfloat16(self) -> bool:
        """After float16 overflowed: compute in bfloat16 from now on, whose range is that of float32.

        Weights are converted once; a host's layers that cast theirs keep them. Returns False, and changes nothing,
        unless the dtype is float16.
        """
        if self.dtype != torch.float16:
            return False
        self.dtype, self.overflowed = torch.bfloat16, True
        for name, module in self.named_modules():
            if isinstance(module, RMSNorm) and module.dtype == torch.float16:
                module.dtype = torch.bfloat16
            elif name.endswith("_proj") or (module is self.audio_heads and self.llm.norm.dtype != torch.float32):
                convert_weights(module, torch.bfloat16)
        return True

    @property
    def rows_dtype(self) -> torch.dtype:
        """The dtype of embedded rows and of the residual stream: float32, or float64."""
        return wide(self.dtype)

    def audio_offsets(self, device: torch.device) -> Tensor:
        """Return [K, 1] int64: where each codebook's rows begin in the audio embedding."""
        return torch.arange(self.config.codebooks, device=device)[:, None] * self.config.audio_vocab_size

    def embed_audio(self, codes: Tensor, offsets: Tensor) -> Tensor:
        """Codes [K, T] int64, mask id included -> rows [T, E], the sum over codebooks. offsets: `audio_offsets`."""
        return self.audio_embeddings(codes + offsets).sum(dim=0, dtype=self.rows_dtype)

    def forward(
        self, rows: Tensor, layout: PackedLayout, *, targets_only: bool = True, kv: Sequence[KeyValueHook] | None = None
    ) -> Tensor:
        """Embedded rows [S, E] -> logits [R, K, V] float32 of the R target rows. `rows` may be overwritten.

        targets_only=False computes every row in the last layer, to the same result. kv: see `Body.forward`.
        """
        hidden = self.llm(rows, layout, targets_only=targets_only, kv=kv)  # [R, E]
        logits = self.audio_heads(hidden).to(torch.float32)
        return logits.view(-1, self.config.codebooks, self.config.audio_vocab_size)
