"""Attention inside each document of a packed row, for all documents at once.

On CUDA one call attends within all documents, which it is given as cumulative lengths. torch has several such kernels,
and which of them works depends on the GPU, the dtype and the build, so the first call with new shapes tries them in
order on a small example and keeps the first one that is right. Flash attention is called through torch's internal
operator, because its public wrapper (torch/nn/attention/varlen.py) adds a launch and much Python to each call; the
wrapper is the second choice. Other devices, and GPUs without any of these kernels, attend to each run of documents of
equal length in one call of `scaled_dot_product_attention`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.cuda import OutOfMemoryError

from ..devices import TORCH_VERSION
from .layout import Spans

# (q [Q, H, D], k [L, Hkv, D], v [L, Hkv, D], query spans, key spans) -> [Q, H, D]
Kernel = Callable[[Tensor, Tensor, Tensor, Spans, Spans], Tensor]

# enable_gqa exists since torch 2.5, but torch 2.6, and some other devices, attend with the slow math kernel then, which
# also rounds otherwise. From this version on, CPUs are known not to: they give what repeated heads give, bit for bit.
GROUPED_HEADS_ON_CPU = (2, 13)
TOLERANCE = 0.02  # for values of about 1 in bfloat16; a wrong kernel differs by far more


def attend(q: Tensor, k: Tensor, v: Tensor, queries: Spans, keys: Spans) -> Tensor:
    """Attend within each document without a mask: q [Q, H, D], k and v [L, Hkv, D] -> [Q, H, D].

    queries, keys: where the documents are in q, and in k and v. Rows of k and v after the last document are ignored.
    """
    if q.device.type != "cuda":
        return attend_by_length(q, k, v, queries, keys)
    return cuda_kernel(q.device, q.dtype, q.shape[1], k.shape[1], q.shape[2])(q, k, v, queries, keys)


def reads_lengths_on_device(device: torch.device, dtype: torch.dtype, heads: int, kv_heads: int, width: int) -> bool:
    """Whether `attend` takes the lengths of documents from tensors on the device, and only a bound from the host."""
    return device.type == "cuda" and cuda_kernel(device, dtype, heads, kv_heads, width) is not attend_by_length


def attend_by_length(q: Tensor, k: Tensor, v: Tensor, queries: Spans, keys: Spans) -> Tensor:
    """Compute the same with one call for each run of documents that have the same lengths."""
    native = q.device.type == "cpu" and TORCH_VERSION >= GROUPED_HEADS_ON_CPU
    k, v = (t[: sum(keys.lengths)] for t in (k, v))
    if not native:
        k, v = repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])
    inside: Callable[..., Tensor] = F.scaled_dot_product_attention
    if native:
        inside = partial(inside, enable_gqa=True)
    parts, q_start, k_start = [], 0, 0
    for (Q, L), run in groupby(zip(queries.lengths, keys.lengths)):
        n = sum(1 for _ in run)
        q_end, k_end = q_start + n * Q, k_start + n * L
        own = q[q_start:q_end].unflatten(0, (n, Q)).transpose(1, 2)  # [n, H, Q, D]
        seen = (t[k_start:k_end].unflatten(0, (n, L)).transpose(1, 2) for t in (k, v))
        parts.append(inside(own, *seen).transpose(1, 2).flatten(0, 1))
        q_start, k_start = q_end, k_end
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Repeat each head of keys or values for the query heads that share it: [L, Hkv, D] -> [L, heads, D]."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)


def flash(q: Tensor, k: Tensor, v: Tensor, queries: Spans, keys: Spans) -> Tensor:
    """torch's flash attention, which shares key heads itself (torch aten/src/ATen/native/native_functions.yaml)."""
    lengths = (queries.ends, keys.ends, queries.longest, keys.longest)
    result: Tensor = torch.ops.aten._flash_attention_forward(q, k, v, *lengths, 0.0, False, False)[0]
    return result


def varlen(q: Tensor, k: Tensor, v: Tensor, queries: Spans, keys: Spans) -> Tensor:
    """torch's public attention over documents of different lengths."""
    from torch.nn.attention.varlen import varlen_attn  # torch >= 2.10

    lengths = (queries.ends, keys.ends, queries.longest, keys.longest)
    result = varlen_attn(q, repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1]), *lengths)
    assert isinstance(result, Tensor)
    return result


def memory_efficient(q: Tensor, k: Tensor, v: Tensor, queries: Spans, keys: Spans) -> Tensor:
    """torch's memory-efficient attention, for GPUs older than Ampere and for float32."""
    k, v = repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])
    lengths = (queries.ends, keys.ends, queries.longest, keys.longest)
    no_mask = 0
    result: Tensor = torch.ops.aten._efficient_attention_forward(
        q[None], k[None], v[None], None, *lengths, 0.0, no_mask, False
    )[0]
    return result[0]


CUDA_KERNELS: tuple[Kernel, ...] = (flash, varlen, memory_efficient)


@lru_cache(maxsize=32)
def cuda_kernel(device: torch.device, dtype: torch.dtype, heads: int, kv_heads: int, width: int) -> Kernel:
    """Return the first kernel that computes an example correctly on this device. The example has three documents, one
    of a single row, and more keys than queries. Nothing random is drawn."""
    queries, keys = (Spans.of(lengths, device) for lengths in ((3, 1, 5), (7, 1, 5)))
    wave = torch.linspace(0, 40, sum(keys.lengths) * (heads + 2 * kv_heads) * width).sin().to(device, dtype)
    q, k, v = wave.view(sum(keys.lengths), -1, width).split((heads, kv_heads, kv_heads), dim=1)
    q = q[: sum(queries.lengths)]
    expected = attend_by_length(q.to(torch.float32), k.to(torch.float32), v.to(torch.float32), queries, keys)
    for kernel in CUDA_KERNELS:
        try:
            difference = (kernel(q, k, v, queries, keys) - expected).abs().max()
        except OutOfMemoryError:  # says nothing about the kernel
            raise
        except (AttributeError, ImportError, NotImplementedError, RuntimeError, TypeError):
            continue  # not in this torch, this build, or not for this GPU or dtype
        if float(difference) <= TOLERANCE:
            return kernel
    return attend_by_length
