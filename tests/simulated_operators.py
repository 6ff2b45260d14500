"""What torch computes on a CUDA device only, computed on a CPU for `simulated_cuda.py`, with CUDA's restrictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)


def attend(q: Tensor, k: Tensor, v: Tensor, ends: tuple[Tensor, Tensor], scale: float | None = None) -> Tensor:
    """Attention inside documents: q [Tq, H, D], k and v [Tk, Hkv, D], ends: cumulative lengths, int32 -> [Tq, H, D]."""
    for x in ends:
        assert x.dtype == torch.int32 and x[0] == 0, "cumulative lengths are int32 and begin with 0"
    assert ends[0][-1] <= len(q) and ends[1][-1] <= len(k) == len(v)
    result = torch.zeros_like(q)  # rows after the last document keep whatever the kernel leaves there
    for a, b, c, d in zip(*(part.tolist() for x in ends for part in (x[:-1], x[1:]))):
        shared = q.shape[1] // k.shape[1]
        one = [q[a:b], *(x[c:d].repeat_interleave(shared, dim=1) for x in (k, v))]
        if b > a and d > c:
            parts = (x[None].transpose(1, 2) for x in one)
            result[a:b] = F.scaled_dot_product_attention(*parts, scale=scale).transpose(1, 2)[0]
    return result


def flash(q: Tensor, k: Tensor, v: Tensor, ends_q: Tensor, ends_k: Tensor, *rest: Any, **options: Any) -> Any:
    """Compute `aten._flash_attention_forward` with its restrictions."""
    if q.dtype not in HALVES:
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if q.shape[-1] % 8 or q.shape[-1] > 256:
        raise RuntimeError("FlashAttention needs a head width that is a multiple of 8, at most 256")
    assert not rest[3], "causal attention is not simulated"
    return attend(q, k, v, (ends_q, ends_k), options.get("scale")), *(torch.empty(0) for _ in range(4))


def efficient(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, ends_q: Tensor, ends_k: Tensor, *rest: Any, **options: Any
) -> Any:
    """Compute `aten._efficient_attention_forward` with its restrictions: q, k, v [1, T, H, D]."""
    if q.shape[2] != k.shape[2] or q.shape[-1] % (4 if q.dtype == torch.float32 else 8):
        raise RuntimeError("efficient attention needs as many heads in k as in q, and aligned rows")
    assert bias is None and rest[3] == 0, "masks are not simulated"
    result = attend(q[0], k[0], v[0], (ends_q, ends_k), options.get("scale"))[None]
    return result, torch.empty(0), torch.empty(0), torch.empty(0), rest[0], rest[1]


def varlen(q: Tensor, k: Tensor, v: Tensor, ends_q: Tensor, ends_k: Tensor, *rest: Any, **options: Any) -> Any:
    """Compute the operator behind `torch.nn.attention.varlen.varlen_attn`."""
    causal = rest[2] if len(rest) > 2 else False
    scale = rest[3] if len(rest) > 3 else options.get("scale")
    return flash(q, k, v, ends_q, ends_k, *rest[:2], 0.0, causal, False, scale=scale)[:3]


def addmm(x: Tensor, a: Tensor, b: Tensor, dtype: Any = None, *, out: Tensor | None = None, **scales: Any) -> Tensor:
    """Compute `torch.addmm`, also with out_dtype: products and sums in float32, rounded once."""
    dtype = dtype or scales.pop("out_dtype", None)
    if dtype is None:
        return torch.addmm(x, a, b, out=out, **scales) if out is not None else torch.addmm(x, a, b, **scales)
    if dtype not in (torch.float32, a.dtype) or x.dtype != dtype:
        raise RuntimeError("out_dtype must be the dtype of the inputs, or float32, and that of the sum")
    result = torch.addmm(x.float(), a.float(), b.float(), **scales).to(dtype)
    return result if out is None else out.copy_(result)


def mm(a: Tensor, b: Tensor, dtype: Any = None, *, out: Tensor | None = None, **named: Any) -> Tensor:
    """Compute `torch.mm`, also with out_dtype."""
    dtype = dtype or named.pop("out_dtype", None)
    result = torch.mm(a, b) if dtype is None else torch.mm(a.float(), b.float()).to(dtype)
    return result if out is None else out.copy_(result)


OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::_flash_attention_forward": flash,
    "aten::_efficient_attention_forward": efficient,
    "torch_attn::_varlen_attn": varlen,
    "aten::addmm": addmm,
    "aten::mm": mm,
}
