"""The Qwen3 transformer body, bidirectional, on packed documents (transformers modeling_qwen3.py:75-330).

Unusual: there is no batch dimension, no padding, no mask and no cache. Rows are [S, E]; attention runs per document
span. The last layer computes attention, output projection and MLP for target rows alone, since nothing else is
read. Module names equal the checkpoint's, but for the fused linears (`fused.py`). No sampling and no embedding of
audio here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LMConfig
from ..ops import Ops
from .layout import PackedLayout


class Attention(nn.Module):
    """Grouped-query self-attention with q/k RMS norm; every row of a document sees every other one."""

    def __init__(self, config: LMConfig, *, ops: Ops, device: torch.device, dtype: torch.dtype):
        super().__init__()
        E, D = config.hidden_size, config.head_dim
        make = {"device": device, "dtype": dtype}
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, D
        self.qkv_proj = ops.Linear(E, (config.heads + 2 * config.kv_heads) * D, bias=False, **make)
        self.o_proj = ops.Linear(config.heads * D, E, bias=False, **make)
        self.q_norm = ops.RMSNorm(D, eps=config.rms_norm_eps, **make)
        self.k_norm = ops.RMSNorm(D, eps=config.rms_norm_eps, **make)

    def forward(self, x: Tensor, layout: PackedLayout, *, targets_only: bool) -> Tensor:
        """x [S, E], already normed -> [S, E], or [R, E] when only the targets ask."""
        qkv = self.qkv_proj(x).unflatten(-1, (-1, self.head_dim))  # [S, H + 2 Hkv, D]
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q = self.q_norm(q[layout.target_rows] if targets_only else q)  # [R or S, H, D]
        q = rotate(q, *(layout.target_rope if targets_only else layout.rope))
        k = rotate(self.k_norm(k), *layout.rope)  # [S, Hkv, D]
        # Expanded by hand: with enable_gqa some builds and devices fall back to the slow math kernel.
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)  # [S, H, D]
        q_spans = layout.target_spans if targets_only else layout.spans
        parts = [_attend(q[a:b], k[c:d], v[c:d]) for (a, b), (c, d) in zip(q_spans, layout.spans)]
        return self.o_proj(torch.cat(parts))


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One document: q [Q, H, D], k and v [L, H, D] -> [Q, H*D]."""
    q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))  # [1, H, Q or L, D]
    return F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).flatten(1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding of x [S, H, D] in float32, returned in the dtype of x."""
    wide = x.to(torch.float32)
    low, high = wide.chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return (wide * cos[:, None] + turned * sin[:, None]).to(x.dtype)


class MLP(nn.Module):
    """SwiGLU feed-forward."""

    def __init__(self, config: LMConfig, *, ops: Ops, device: torch.device, dtype: torch.dtype):
        super().__init__()
        E, inner = config.hidden_size, config.intermediate_size
        make = {"bias": False, "device": device, "dtype": dtype}
        self.gate_up_proj = ops.Linear(E, 2 * inner, **make)
        self.down_proj = ops.Linear(inner, E, **make)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1)
        return self.down_proj(F.silu(gate) * up)


class Layer(nn.Module):
    """Pre-norm attention and MLP, each with a residual."""

    def __init__(self, config: LMConfig, *, ops: Ops, device: torch.device, dtype: torch.dtype):
        super().__init__()
        norm = {"eps": config.rms_norm_eps, "device": device, "dtype": dtype}
        self.self_attn = Attention(config, ops=ops, device=device, dtype=dtype)
        self.mlp = MLP(config, ops=ops, device=device, dtype=dtype)
        self.input_layernorm = ops.RMSNorm(config.hidden_size, **norm)
        self.post_attention_layernorm = ops.RMSNorm(config.hidden_size, **norm)

    def forward(self, x: Tensor, layout: PackedLayout, *, targets_only: bool = False) -> Tensor:
        """x [S, E] -> [S, E], or [R, E] when targets_only."""
        attended = self.self_attn(self.input_layernorm(x), layout, targets_only=targets_only)
        x = (x[layout.target_rows] if targets_only else x) + attended
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    """Text embedding, layers and final norm; `llm.` in the checkpoint."""

    def __init__(self, config: LMConfig, *, ops: Ops, device: torch.device, dtype: torch.dtype):
        super().__init__()
        make = {"device": device, "dtype": dtype}
        self.embed_tokens = ops.Embedding(config.vocab_size, config.hidden_size, **make)
        self.layers = nn.ModuleList([Layer(config, ops=ops, device=device, dtype=dtype) for _ in range(config.layers)])
        self.norm = ops.RMSNorm(config.hidden_size, eps=config.rms_norm_eps, **make)

    def forward(self, x: Tensor, layout: PackedLayout) -> Tensor:
        """Embedded rows [S, E] -> normed target rows [R, E]."""
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            x = layer(x, layout, targets_only=i == last)
        return self.norm(x)
