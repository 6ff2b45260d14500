"""The Qwen3 transformer body, bidirectional, on packed documents (transformers modeling_qwen3.py:75-330).

There is no batch dimension, no padding and no mask. Rows are [S, E]; attention runs per document. The residual stream
is float32 whatever the dtype of the weights: in float16 it could overflow, and in both half precisions its rounding
changes more tokens than that of the products. The last layer computes attention, output projection and MLP for target
rows only, because no other output is used. Query, key and value are one linear layer, gate and up another, and the
scales of queries and keys one parameter (`fused.py`), unless made with fused=False. All other module names equal the
checkpoint's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import LMConfig
from ..ops import Ops, add_linear, cast_to_input
from .attention import attend
from .layout import PackedLayout
from .norm import RMSNorm, Scale, normalize, wide
from .prefix import KeyValueHook

ROWS_IN_CACHE = 32  # of queries and keys, for each thread: 0.4 MB in the published sizes, and there are three copies


class Attention(nn.Module):
    """Grouped-query self-attention with q/k RMS norm; every row of a document attends to all rows of it."""

    def __init__(self, config: LMConfig, *, ops: Ops, fused: bool, device: torch.device, dtype: torch.dtype):
        super().__init__()
        E, D = config.hidden_size, config.head_dim
        make = {"device": device, "dtype": dtype}
        self.heads, self.kv_heads, self.head_dim, self.eps = config.heads, config.kv_heads, D, config.rms_norm_eps
        self.fused = fused
        if fused:
            self.qkv_proj = ops.Linear(E, (config.heads + 2 * config.kv_heads) * D, bias=False, **make)
            self.qk_norm = Scale(config.heads + config.kv_heads, D, device=device, dtype=dtype)
        else:
            self.q_proj = ops.Linear(E, config.heads * D, bias=False, **make)
            self.k_proj = ops.Linear(E, config.kv_heads * D, bias=False, **make)
            self.v_proj = ops.Linear(E, config.kv_heads * D, bias=False, **make)
            self.q_norm, self.k_norm = (Scale(D, device=device, dtype=dtype) for _ in range(2))
        self.o_proj = ops.Linear(config.heads * D, E, bias=False, **make)

    def forward(
        self, x: Tensor, residual: Tensor, layout: PackedLayout, *, targets_only: bool, kv: KeyValueHook | None
    ) -> Tensor:
        """x [S, E], already normed -> residual + attention: [S, E], or [R, E] for the target rows only.

        residual: as many rows as the result; may be overwritten. kv: see `Body.forward`.
        """
        q, k, v = self._project(x, layout)  # [S, H or Hkv, D]
        if targets_only:
            q = q[layout.target_rows]
        if kv:
            k, v = kv(k, v)
        attended = attend(q, k, v, layout.targets if targets_only else layout.rows, layout.keys)
        return add_linear(self.o_proj, attended.flatten(1), residual)

    def _project(self, x: Tensor, layout: PackedLayout) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, normed and rotated as one tensor, and values: [S, H or Hkv, D]."""
        joint = (
            self.qkv_proj(x) if self.fused else torch.cat([p(x) for p in (self.q_proj, self.k_proj, self.v_proj)], 1)
        )
        joint = joint.view(x.shape[0], -1, self.head_dim)  # [S, H + 2 Hkv, D]
        both = self.heads + self.kv_heads
        if joint.device.type == "cpu" and not torch.is_grad_enabled():
            qk = self._turned_in_blocks(joint[:, :both], *layout.rope)
        elif joint.device.type == "cuda" and self.fused and not torch.is_grad_enabled():
            qk = self._turned_in_few_launches(joint, layout)
        else:
            qk = self._turned(joint[:, :both], *layout.rope).to(joint.dtype)
        return qk[:, : self.heads], qk[:, self.heads :], joint[:, both:]

    def _turned(self, qk: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Norm, scale and rotate queries and keys: [S, H + Hkv, D] -> the same in float32 or float64."""
        qk = normalize(qk.to(wide(qk.dtype)), self.eps)
        if self.fused:
            self.qk_norm(qk)
        else:
            self.q_norm(qk[:, : self.heads]), self.k_norm(qk[:, self.heads :])
        return rotate(qk, cos, sin)

    def _turned_in_blocks(self, qk: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the same, rounded, computed on a CPU for a few rows at a time, which stay in its caches."""
        turned = torch.empty(qk.shape, dtype=qk.dtype, device=qk.device)
        rows = ROWS_IN_CACHE * torch.get_num_threads()
        for start in range(0, len(qk), rows):
            own = slice(start, start + rows)
            turned[own] = self._turned(qk[own], cos[own], sin[own])
        return turned

    def _turned_in_few_launches(self, joint: Tensor, layout: PackedLayout) -> Tensor:
        """Norm, scale and rotate queries and keys with CUDA, in four kernels: [S, H + 2 Hkv, D] -> [S, H + Hkv, D].

        The values are normed too and not used, because torch would copy a part of the tensor. The scales are
        multiplied into the rotation, which is the same for the Hkv heads of each group.
        """
        S, Hkv, half = joint.shape[0], self.kv_heads, self.head_dim // 2
        normed = F.rms_norm(joint, (self.head_dim,), None, self.eps)[:, : self.heads + Hkv]
        x = normed.unflatten(1, (-1, Hkv)).view(S, -1, Hkv, 1, 2, half)
        scale = cast_to_input(self.qk_norm.weight, layout.rotation)[::Hkv].view(-1, 1, 1, 2, half)
        rotation = layout.rotation[:, None, None] * scale  # [S, groups, 1, 2, 2, D/2]
        turned = torch.empty(S, x.shape[1], Hkv, 2, half, dtype=joint.dtype, device=joint.device)
        first = x[..., 0, :] * rotation[..., 0, :]
        torch.addcmul(first, x[..., 1, :], rotation[..., 1, :], out=turned)
        return turned.view(S, -1, self.head_dim)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding to x [S, heads, D] float32. cos, sin: [S, D] from `layout.rotary_table`."""
    half = x.shape[-1] // 2
    swapped = torch.cat((x[..., half:], x[..., :half]), dim=-1)
    return (x * cos[:, None]).add_(swapped.mul_(sin[:, None]))


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

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x [R, E], already normed -> residual + feed-forward [R, E]; the residual may be overwritten."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=-1) if self.fused else (self.gate_proj(x), self.up_proj(x))
        return add_linear(self.down_proj, F.silu(gate).mul_(up), residual)


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
        """x [S, E] -> [S, E], or [R, E] when targets_only; x may be overwritten. kv: see `Body.forward`."""
        residual = x[layout.target_rows] if targets_only else x
        x = self.self_attn(self.input_layernorm(x), residual, layout, targets_only=targets_only, kv=kv)
        return self.mlp(self.post_attention_layernorm(x), x)


class Body(nn.Module):
    """Layers and final norm; `llm.` in the checkpoint, but for the text embedding."""

    def __init__(
        self,
        config: LMConfig,
        *,
        ops: Ops,
        fused: bool,
        device: torch.device,
        dtype: torch.dtype,
        output_dtype: torch.dtype,
    ):
        super().__init__()
        self.layers = nn.ModuleList(
            [Layer(config, ops=ops, fused=fused, device=device, dtype=dtype) for _ in range(config.layers)]
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, device=device, dtype=output_dtype)

    def forward(
        self, x: Tensor, layout: PackedLayout, *, targets_only: bool = True, kv: Sequence[KeyValueHook] | None = None
    ) -> Tensor:
        """Embedded rows [S, E] -> normed target rows [R, E]; the last layer runs on them only if targets_only.

        x may be overwritten. kv: for each layer, a function from a pass's own keys and values to those attended to
        (`prefix.PrefixCache`).
        """
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            x = layer(x, layout, targets_only=targets_only and i == last, kv=kv[i] if kv else None)
        return self.norm(x if targets_only else x[layout.target_rows])
