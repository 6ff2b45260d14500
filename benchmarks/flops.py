"""The floating-point operations of a step, counted from its layout, and the rate of this machine's matrix products.

The ratio of the two rates shows how close a step comes to what the machine can do (the roofline). The difference is
attention, norms, sampling and waiting. A multiply-add counts as two operations, and only matrix products count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from omnivoice.config import LMConfig
from omnivoice.lm import OmniVoiceLM
from omnivoice.ops import onednn_linear


def step_flops(config: LMConfig, lengths: Sequence[int], targets: Sequence[int]) -> int:
    """Return the operations of one forward pass over documents of `lengths` rows whose last `targets` are targets.

    S is the number of all rows, R of all targets, E the width, A = heads * head_dim, B = 2 * kv_heads * head_dim and I
    the inner width. Then a layer takes
        2 S E (A + B)   query, key, value      2 S A E   output      6 S E I   gate, up, down
        4 A sum(n * n)  scores and values, where n is the length of each document
    In the last layer every row has a query, key and value, but only targets attend: output and MLP take R in place of
    S, and attention takes t * n in place of n * n, where t is a document's targets. The heads take 2 R E K V.
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
    lm: OmniVoiceLM,
    rows: int,
    targets: int,
    *,
    rounds: int,
    wait: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the GFLOP/s of a step's matrix products, by library: every linear weight of the model once, in order.

    The weights are the model's own, so that they come from memory as they do in a step.
    """
    weights = [
        (w, targets if name.startswith("audio_heads") else rows)
        for name, w in lm.named_parameters()
        if name.endswith(("_proj.weight", "_heads.weight"))
    ]
    width = max(w.shape[1] for w, _ in weights)
    x = torch.linspace(-1, 1, rows * width, device=weights[0][0].device).view(rows, width)
    inputs = {(n, w.shape[1], w.dtype): x[:n, : w.shape[1]].to(w.dtype).contiguous() for w, n in weights}
    work = [(inputs[n, w.shape[1], w.dtype], w) for w, n in weights]
    flops = sum(2 * x.shape[0] * w.numel() for x, w in work)
    seconds: dict[str, list[float]] = {name: [] for name in libraries(*work[0])}
    for _ in range(rounds):
        for name, call in libraries(*work[0]).items():
            start = clock()
            for x, w in work:
                call(x, w)
            wait()
            seconds[name].append(clock() - start)
    return {name: flops / median(values) / 1e9 for name, values in seconds.items()}


def libraries(x: Tensor, weight: Tensor) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Return the functions that can multiply `x` and `weight` here: torch's choice, and oneDNN where available."""
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"F.linear": F.linear}
    if x.device.type == "cpu" and torch.backends.mkldnn.is_available():
        try:
            onednn_linear(x, weight)
        except (AttributeError, RuntimeError, NotImplementedError):  # another torch version, or an unsupported dtype
            return found
        found["oneDNN"] = onednn_linear
    return found
