"""Floating-point operations of a step, counted from its layout, and what this machine's matrix products reach.

The ratio of the two rates tells how far a step is from what the machine can do (the roofline): what lacks is
attention, norms, sampling and waiting. A multiply-add counts as two operations; only products are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import LMConfig
from ..lm import OmniVoiceLM
from ..ops import onednn_linear


def step_flops(config: LMConfig, lengths: Sequence[int], targets: Sequence[int]) -> int:
    """Operations of one forward pass over documents of `lengths` rows, of which the last `targets` are targets.

    With S rows and R targets in all, width E, A = heads * head_dim, B = 2 * kv_heads * head_dim, I inner, a layer takes
        2 S E (A + B)   query, key, value      2 S A E   output      6 S E I   gate, up, down
        4 A sum(n * n)  scores and values, n the length of each document
    In the last layer all rows give query, key and value, but only targets ask: R for S in output and MLP, t * n for
    n * n. Heads: 2 R E K V.
    """
    E, inner = config.hidden_size, config.intermediate_size
    asked, answered = config.heads * config.head_dim, 2 * config.kv_heads * config.head_dim
    S, R = sum(lengths), sum(targets)
    inputs = 2 * S * E * (asked + answered)
    per_row = 2 * asked * E + 6 * E * inner
    layer = inputs + S * per_row + 4 * asked * sum(n * n for n in lengths)
    last = inputs + R * per_row + 4 * asked * sum(t * n for t, n in zip(targets, lengths))
    return (config.layers - 1) * layer + last + 2 * R * E * config.codebooks * config.audio_vocab_size


def product_rates(
    lm: OmniVoiceLM, rows: int, targets: int, *, rounds: int, wait: Callable[[], None]
) -> dict[str, float]:
    """GFLOP/s of the bare products of a step, by library: every linear weight of the model once, in turn.

    Weights are the model's own, so that they come from memory as they do in a step.
    """
    weights = [
        (w, targets if name.startswith("audio_heads") else rows)
        for name, w in lm.named_parameters()
        if w.ndim == 2 and "embed" not in name
    ]
    width = max(w.shape[1] for w, _ in weights)
    x = torch.linspace(-1, 1, rows * width, device=weights[0][0].device).view(rows, width).to(lm.get_dtype())
    inputs = {(n, w.shape[1]): x[:n, : w.shape[1]].contiguous() for w, n in weights}
    work = [(inputs[n, w.shape[1]], w) for w, n in weights]
    flops = sum(2 * x.shape[0] * w.numel() for x, w in work)
    seconds: dict[str, list[float]] = {name: [] for name in libraries(*work[0])}
    for _ in range(rounds):
        for name, call in libraries(*work[0]).items():
            start = time.perf_counter()
            for x, w in work:
                call(x, w)
            wait()
            seconds[name].append(time.perf_counter() - start)
    return {name: flops / median(values) / 1e9 for name, values in seconds.items()}


def libraries(x: Tensor, weight: Tensor) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """What can multiply these here: torch's own choice, and oneDNN where it is there."""
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"F.linear": F.linear}
    if x.device.type == "cpu" and torch.backends.mkldnn.is_available():
        try:
            onednn_linear(x, weight)
        except (AttributeError, RuntimeError, NotImplementedError):  # another torch, or a dtype it does not do
            return found
        found["oneDNN"] = onednn_linear
    return found
