"""The Qwen3 transformer body, bidirectional, on packed documents (transformers modeling_qwen3.py:75-330).

There is no batch dimension, no padding and no mask. Rows are [S, E]; attention runs per document. The last layer
computes attention, output projection and MLP for target rows only, because no other output is used. Query, key and
value are one linear layer, and gate and up another (`fused.py`), unless made with fused=False. All other module names
equal the checkpoint's. In-place operations change only tensors made in the same function.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LMConfig
from ..devices import TORCH_VERSION
from ..ops import Ops
from .layout import PackedLayout
from .norm import RMSNorm, Scale, normalize
from .prefix import KeyValueHook


class Attention(nn.Module):
    """Grouped-query self-attention with q/k RMS norm; every row of a document attends to all rows of it."""

    def __init__(self, config: LMConfig, *, ops: Ops, fused: bool, device: torch.device, dtype: torch.dtype):
        super().__init__()
        E, D = config.hidden_size, config.head_dim
        make = {"device": device, "dtype": dtype}
        self.heads, self.kv_heads, self.head_dim, self.eps = config.heads, config.kv_heads, D, config.rms_norm_eps
        if fused:
            self.qkv_proj = ops.Linear(E, (config.heads + 2 * config.kv_heads) * D, bias=False, **make)
        else:
            self.q_proj = ops.Linear(E, config.heads * D, bias=False, **make)
            self.k_proj = ops.Linear(E, config.kv_heads * D, bias=False, **make)
            self.v_proj = ops.Linear(E, config.kv_heads * D, bias=False, **make)
        self.fused = fused
        self.o_proj = ops.Linear(config.heads * D, E, bias=False, **make)
        self.q_norm, self.k_norm = (Scale(D, device=device, dtype=dtype) for _ in range(2))

    def forward(self, x: Tensor, layout: PackedLayout, *, targets_only: bool, kv: KeyValueHook | None) -> Tensor:
        """x [S, E], already normed -> [S, E], or [R, E] for the target rows only. kv: see `Body.forward`."""
        q, k, v = self._project(x, layout)  # [1, H or Hkv, S, D]
        if targets_only:
            q = q[:, :, layout.target_rows]  # [1, H, R, D]
        queries = q.split(layout.target_lengths if targets_only else layout.lengths, dim=2)
        own = k.split(layout.lengths, dim=2), v.split(layout.lengths, dim=2)
        attended = zip(*(kv(*own) if kv else own))
        parts = [_attend(q, k, v) for q, (k, v) in zip(queries, attended)]  # each [1, L, H, D]
        return self.o_proj(torch.cat(parts, dim=1).flatten(2)[0])

    def _project(self, x: Tensor, layout: PackedLayout) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normed and rotated as one tensor, and values: [1, H or Hkv, S, D]."""
        joint = (
            self.qkv_proj(x) if self.fused else torch.cat([p(x) for p in (self.q_proj, self.k_proj, self.v_proj)], 1)
        )
        joint = joint.view(1, x.shape[0], -1, self.head_dim).transpose(1, 2)  # [1, H + 2 Hkv, S, D]
        qk, v = joint.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        qk = normalize(qk.to(torch.float32), self.eps)
        # In place on slices of qk: autograd does not allow in-place changes of what split returns.
        self.q_norm(qk[:, : self.heads]), self.k_norm(qk[:, self.heads :])
        q, k = rotate(qk, *layout.rope).to(x.dtype).split((self.heads, self.kv_heads), dim=1)
        return q, k, v


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend within one document: q [1, H, Q, D], k and v [1, Hkv, L, D] -> [1, Q, H, D]."""
    # torch 2.4 has no enable_gqa, and with it some other builds and devices fall back to the slow math kernel.
    if q.device.type == "cpu" and TORCH_VERSION >= (2, 5):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True).transpose(1, 2)
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding to x [..., S, D] float32. cos, sin: [S, D] from `layout.rotary_table`."""
    swapped = x.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return (x * cos).add_(swapped.mul_(sin))


class MLP(nn.Module):
    """SwiGLU feed-forward."""

    def __init__(self, config: LMConfig, *, ops: Ops, fused: bool, device: torch.device, dtype: torch.dtype):
        super().__init__()
        E, inner = config.hidden_size, config.intermediate_size
        make = {"bias": False, "device": device, "dtype": dtype}
        self.fused = fused
        if fused:
            self.gate_up_proj = ops.Linear(E, 2 * inner, **make)
        else:
            self.gate_proj = ops.Linear(E, inner, **make)
            self.up_proj = ops.Linear(E, inner, **make)
        self.down_proj = ops.Linear(inner, E, **make)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1) if self.fused else (self.gate_proj(x), self.up_proj(x))
        return self.down_proj(F.silu(gate).mul_(up))


class Layer(nn.Module):
    """Pre-norm attention and MLP, each with a residual."""

    def __init__(self, config: LMConfig, *, ops: Ops, fused: bool, device: torch.device, dtype: torch.dtype):
        super().__init__()
        E, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, ops=ops, fused=fused, device=device, dtype=dtype)
        self.mlp = MLP(config, ops=ops, fused=fused, device=device, dtype=dtype)
        self.input_layernorm = RMSNorm(E, eps, device=device, dtype=dtype)
        self.post_attention_layernorm = RMSNorm(E, eps, device=device, dtype=dtype)

    def forward(
        self, x: Tensor, layout: PackedLayout, *, targets_only: bool = False, kv: KeyValueHook | None = None
    ) -> Tensor:
        """x [S, E] -> [S, E], or [R, E] when targets_only. kv: see `Body.forward`."""
        attended = self.self_attn(self.input_layernorm(x), layout, targets_only=targets_only, kv=kv)
        x = attended.add_(x[layout.target_rows] if targets_only else x)
        return self.mlp(self.post_attention_layernorm(x)).add_(x)


class Body(nn.Module):
    """Layers and final norm; `llm.` in the checkpoint, but for the text embedding."""

    def __init__(self, config: LMConfig, *, ops: Ops, fused: bool, device: torch.device, dtype: torch.dtype):
        super().__init__()
        self.layers = nn.ModuleList(
            [Layer(config, ops=ops, fused=fused, device=device, dtype=dtype) for _ in range(config.layers)]
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, device=device, dtype=dtype)

    def forward(
        self, x: Tensor, layout: PackedLayout, *, targets_only: bool = True, kv: Sequence[KeyValueHook] | None = None
    ) -> Tensor:
        """Embedded rows [S, E] -> normed target rows [R, E]; the last layer runs on them only if targets_only.

        kv: for each layer, a function from a pass's own keys and values to those attended to (`prefix.PrefixCache`).
        """
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            x = layer(x, layout, targets_only=targets_only and i == last, kv=kv[i] if kv else None)
        return self.norm(x if targets_only else x[layout.target_rows])
